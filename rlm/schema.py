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
_NAMES_OF_SCHEMAS = frozenset({"properties", "$defs", "definitions", "dependentSchemas"})
_VALUES = frozenset({"const", "default", "enum", "examples", "required"})
_REFUSED = frozenset({"$ref", "$dynamicRef", "$recursiveRef", "$id", "pattern", "patternProperties"})
_MOST_CHARS = 20_000
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


class SchemaError(Exception):
    """A schema that is none, or an answer that does not match: one line, written for a model to read."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A checked JSON Schema. `text` is how a prompt shows it."""

    schema: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> AnswerSchema:
        """From a JSON Schema, or from a plain mapping of names to types (`{"name": "str", "age": "int"}`),
        all of which are then required. Raises SchemaError, also for what could load from elsewhere, or take
        the checker for ever: a cell writes it, and it is checked in the driver."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError as Invalid

        schema = _from_plain(given) or dict(given)
        try:
            text = json.dumps(schema, ensure_ascii=False)
            if len(text) > _MOST_CHARS:
                raise SchemaError(f"it has {len(text):,} characters; {_MOST_CHARS:,} are the limit")
            _refuse_traps(schema)
            Draft202012Validator.check_schema(schema)
        except Invalid as error:
            raise SchemaError(f"it is no JSON Schema: {error.message}") from error
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
        """Raises SchemaError, naming the place, unless `value` matches."""
        from jsonschema import Draft202012Validator

        fault = next(iter(Draft202012Validator(self.schema).iter_errors(value)), None)
        if fault is not None:
            place = "".join(f"[{step!r}]" for step in fault.absolute_path) or "the value"
            raise SchemaError(f"Your last answer does not match the schema at {place}: {fault.message[:300]}")


def _refuse_traps(schema: Mapping[str, Any]) -> None:
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            for key, value in one.items():
                if key in _REFUSED:
                    raise SchemaError(
                        f"{key} is not taken; write the shape out, with type, properties, items"
                    )
                if key in _NAMES_OF_SCHEMAS and isinstance(value, dict):
                    waiting.extend(value.values())
                elif key not in _VALUES:
                    waiting.append(value)


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
