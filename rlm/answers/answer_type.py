"""What a run's answer must be: a pydantic model, any type that JSON can carry, or a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import isfunction
from typing import Any

from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.errors import UsageError

__all__ = ["AnswerType"]


class AnswerType:
    """Checks values, and makes of them what the caller wants. `text` is the JSON Schema for a prompt.

    `given` is a JSON Schema (a mapping), or a type that pydantic understands: a model, a dataclass,
    `list[int]`. Raises UsageError for anything else, before anything is spent.
    """

    def __init__(self, given: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(given, Mapping):
            schema = given
        else:
            try:
                if isfunction(given):
                    raise PydanticUserError("a function is no type", code=None)
                self._adapter = TypeAdapter(given)
                schema = self._adapter.json_schema()
            except PydanticUserError as error:
                first = str(error).splitlines()[0]
                raise UsageError(
                    f"schema {given!r} is no type that JSON can carry ({first}); give a pydantic model or a "
                    "JSON Schema"
                ) from error
        try:
            # The caller's own: it may refer to its own parts, which a schema from a cell may not.
            self._schema = AnswerSchema.of(schema, trusted=True)
        except SchemaError as error:
            raise UsageError(f"schema: {error}") from error
        self.text = self._schema.text

    @property
    def is_text(self) -> bool:
        """Whether a plain text is an answer of this type."""
        try:
            self.check("text")
        except SchemaError:
            return False
        return True

    def check(self, value: Any) -> None:
        """Raises SchemaError, naming the place, unless the JSON-safe `value` is one of this type."""
        self._schema.check(value)
        if self._adapter is not None:
            self._validated(value)

    def read(self, reply: str) -> Any:
        """The JSON value of this type that a reply holds. Raises SchemaError."""
        value = self._schema.read(reply)
        self.check(value)
        return value

    def parsed(self, value: Any) -> Any:
        """What a checked value is in Python: an instance of the caller's model, or the value itself."""
        return value if self._adapter is None else self._validated(value)

    def _validated(self, value: Any) -> Any:
        from pydantic import ValidationError

        assert self._adapter is not None
        try:
            return self._adapter.validate_json(json.dumps(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = "".join(f"[{step!r}]" for step in first["loc"]) or "the value"
            raise SchemaError(
                f"The value does not match the schema at {place}: {first['msg'][:300]}"
            ) from error
