"""Checks the answer of a run against a pydantic model, another Python type, or a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import isfunction
from typing import Any, Literal

from rlm.answers.json_schema import AnswerSchema, SchemaError, parse_reply
from rlm.errors import UsageError
from rlm.sandbox.in_kernel.helper_api.schema_types import json_schema_of

__all__ = ["AnswerType"]


class AnswerType:
    """The type that an answer must have. `text` is its JSON Schema for a prompt.

    `given` is a JSON Schema or its short form (`{"name": str, "tags": [str]}`), or a type that pydantic
    supports: a model, a dataclass, `list[int]`. Raises UsageError for anything else.
    """

    def __init__(self, given: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        self._adapter: TypeAdapter[Any] | None = None
        if isinstance(given, (Mapping, list)):
            try:
                schema = json_schema_of(given)
            except TypeError as error:
                raise UsageError(str(error)) from error
        else:
            try:
                if isfunction(given):
                    raise PydanticUserError("a function is not a type", code=None)
                self._adapter = TypeAdapter(given)
                schema = self._adapter.json_schema()
            except PydanticUserError as error:
                first = str(error).splitlines()[0]
                raise UsageError(
                    f"schema {given!r} is not a type that JSON can represent ({first}). Give a pydantic "
                    "model or a JSON Schema"
                ) from error
        try:
            author: Literal["caller", "pydantic"] = "caller" if self._adapter is None else "pydantic"
            self._schema = AnswerSchema.of(schema, author=author)
        except SchemaError as error:
            raise UsageError(f"schema: {error}") from error
        self.text = self._schema.text

    @property
    def is_text(self) -> bool:
        """Return whether a plain text is a valid answer."""
        try:
            self._schema.check_now("text")
            if self._adapter is not None:
                self._validate("text")
        except SchemaError:
            return False
        return True

    async def check(self, value: Any) -> None:
        """Raise SchemaError, with the place of the fault, if a JSON value is not of this type."""
        await self._schema.check(value)
        if self._adapter is not None:
            self._validate(value)

    async def read(self, reply: str) -> Any:
        """Return the JSON value in a reply. Raises SchemaError if it is not of this type."""
        value = parse_reply(reply)
        await self.check(value)
        return value

    def parsed(self, value: Any) -> Any:
        """Convert a checked value to the caller's Python type, if there is one."""
        return value if self._adapter is None else self._validate(value)

    def _validate(self, value: Any) -> Any:
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
