"""Answers that must be JSON of a given shape: the shape checked before it is used, the answer after."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["AnswerSchema", "SchemaError"]

_PLAIN_TYPES: Mapping[str, str] = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
    "list": "array",
    "array": "array",
    "dict": "object",
    "object": "object",
}
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


_MAX_TEXT = 20_000
"""Characters of a schema: it stands in every child's prompt."""

# A schema comes from a cell, and it is applied in the driver: what would make it fetch, or search with a
# pattern of its own, is refused. References may also make a small schema endless.
_REFUSED = ("$ref", "$id", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "format")


class SchemaError(Exception):
    """A schema that is none, or an answer that does not match: one line, written for a model to read."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A checked JSON Schema. `text` is how a prompt shows it."""

    schema: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, given: Mapping[str, Any], *, trusted: bool = False) -> AnswerSchema:
        """From a JSON Schema, or from a plain mapping of names to types (`{"name": "str", "age": "int"}`),
        all of which are then required. `trusted` is one that no model wrote. Raises SchemaError."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError as Invalid

        schema = _from_plain(given) or dict(given)
        try:
            text = json.dumps(schema, ensure_ascii=False)
            if len(text) > _MAX_TEXT:
                raise SchemaError(f"it has {len(text):,} characters; {_MAX_TEXT:,} are the limit")
            if not trusted:
                _refuse(schema)
            Draft202012Validator.check_schema(schema)
            if schema and not set(schema) & set(Draft202012Validator.VALIDATORS):
                raise SchemaError(
                    f"it says nothing of a value: no key of it ({', '.join(schema)}) is a keyword"
                )
        except Invalid as error:
            raise SchemaError(f"it is no JSON Schema: {error.message[:300]}") from error
        except RecursionError as error:
            raise SchemaError("it is nested too deeply") from error
        return cls(schema, text)

    def read(self, reply: str) -> Any:
        """The value in a reply: all of it, or its one fenced block, as JSON. Raises SchemaError."""
        fenced = _FENCED.search(reply)
        try:
            value = json.loads(fenced[1] if fenced else reply)
        except (ValueError, RecursionError) as error:
            raise SchemaError(
                f"Your last answer was not JSON ({error}); answer with the JSON value alone."
            ) from error
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Raises SchemaError, naming the place, unless `value` matches. Fetches nothing."""
        from jsonschema import Draft202012Validator
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        try:
            # Left to itself, jsonschema fetches what a `$ref` names.
            fault = next(
                iter(Draft202012Validator(self.schema, registry=Registry()).iter_errors(value)), None
            )
        except RecursionError as error:
            raise SchemaError("The value is nested too deeply.") from error
        except Unresolvable as error:
            raise SchemaError(f"{error.ref} is not in the schema, and nothing is fetched") from error
        if fault is not None:
            place = "".join(f"[{step!r}]" for step in fault.absolute_path) or "the value"
            raise SchemaError(f"The value does not match the schema at {place}: {fault.message[:300]}")


def _refuse(schema: Any) -> None:
    """SchemaError for a keyword that this product does not take from a cell."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "properties" and isinstance(value, Mapping):
                # Under it stand names, not keywords.
                for inner in value.values():
                    _refuse(inner)
            elif key in _REFUSED:
                raise SchemaError(
                    f"{key} is not supported; describe the shape without it and check in Python"
                )
            elif key not in ("const", "enum", "default", "examples"):
                _refuse(value)
    elif isinstance(schema, list):
        for value in schema:
            _refuse(value)


def _from_plain(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """A schema for `{"name": "str"}`; None when `given` is a JSON Schema already."""
    if not given or not all(isinstance(value, str) and value in _PLAIN_TYPES for value in given.values()):
        return None
    if set(given) == {"type"}:
        return None
    return {
        "type": "object",
        "properties": {name: {"type": _PLAIN_TYPES[value]} for name, value in given.items()},
        "required": list(given),
    }
