"""Checks JSON Schemas, and checks answers against them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlm.answers.schema_shorthand import ShorthandError, expand

__all__ = ["AnswerSchema", "SchemaError"]

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


_MAX_SCHEMA_CHARS = 20_000
"""The schema is a part of every child's prompt."""

# A schema comes from a cell, but the driver applies it. Keywords that fetch a document or run a regular
# expression are refused. So are references, which can make a small schema endless.
_REFUSED_KEYWORDS = ("$ref", "$id", "$dynamicRef", "$recursiveRef", "pattern", "patternProperties", "format")


class SchemaError(Exception):
    """An invalid schema, or an answer that does not match one. The message is one line for a model."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A checked JSON Schema. `text` is its form in a prompt."""

    schema: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, given: Any, *, trusted: bool = False) -> AnswerSchema:
        """Check a JSON Schema, or a short form of one (`{"name": "str", "tags": ["str"]}`), in which all
        names are required. `trusted`: not written by a model. Raises SchemaError."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError as Invalid

        try:
            schema = expand(given)
            text = json.dumps(schema, ensure_ascii=False)
            if len(text) > _MAX_SCHEMA_CHARS:
                raise SchemaError(f"it has {len(text):,} characters; {_MAX_SCHEMA_CHARS:,} are the limit")
            if not trusted:
                _refuse(schema)
            Draft202012Validator.check_schema(schema)
            if schema and not set(schema) & set(Draft202012Validator.VALIDATORS):
                raise SchemaError(
                    f"it says nothing of a value: no key of it ({', '.join(schema)}) is a keyword"
                )
        except ShorthandError as error:
            raise SchemaError(str(error)) from error
        except Invalid as error:
            raise SchemaError(f"it is no JSON Schema: {error.message[:300]}") from error
        except RecursionError as error:
            raise SchemaError("it is nested too deeply") from error
        return cls(schema, text)

    def read(self, reply: str) -> Any:
        """Parse a reply, or its fenced block, as JSON and check it. Raises SchemaError."""
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
        """Raise SchemaError, with the place of the fault, if `value` does not match. Fetches no document."""
        from jsonschema import Draft202012Validator
        from referencing import Registry
        from referencing.exceptions import Unresolvable

        try:
            # Without a registry, jsonschema fetches the document that a `$ref` names.
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
    """Raise SchemaError for a keyword that a cell may not use."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "properties" and isinstance(value, Mapping):
                # The keys of `properties` are names, not keywords.
                for inner in value.values():
                    _refuse(inner)
            elif key in _REFUSED_KEYWORDS:
                raise SchemaError(
                    f"{key} is not supported; describe the shape without it and check in Python"
                )
            elif key not in ("const", "enum", "default", "examples"):
                _refuse(value)
    elif isinstance(schema, list):
        for value in schema:
            _refuse(value)
