"""Checks JSON Schemas, and checks answers against them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rlm.answers.schema_keywords import ForbiddenSchema, count_parts
from rlm.answers.schema_shorthand import ShorthandError, expand
from rlm.lazy_dataclass import dataclass
from rlm.sandbox.host.nesting import is_nested_deeper

__all__ = ["MAX_VALUE_CHARS", "AnswerSchema", "SchemaError", "parse_reply", "size_of"]

_FENCE = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)
_CLOSING_FENCE = re.compile(r"^[ \t]*+```", re.MULTILINE)

_MAX_SCHEMA_CHARS = 20_000
"""The schema is a part of every child's prompt."""

MAX_VALUE_CHARS = 1_000_000
"""Characters of a checked value as JSON."""

MAX_DEPTH = 100
"""Levels of lists and objects within each other in a checked value."""


class SchemaError(Exception):
    """An invalid schema, or an answer that does not match one. The message is one line for a model."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A checked JSON Schema. `text` is its form in a prompt.

    A check takes at most `parts` comparisons for each character of a value. `parts` is None if no such bound
    is known, which only a trusted schema may be: it may use references and regular expressions.
    """

    schema: Mapping[str, Any]
    text: str
    parts: int | None = None

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
            parts = _count_parts(schema, trusted)
            if trusted:
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
        except (TypeError, ValueError) as error:
            raise SchemaError(f"it is not JSON: {error}") from error
        return cls(schema, text, parts)

    def check(self, value: Any) -> None:
        """Raise SchemaError, with the place of the fault, if `value` does not match. Fetches no document.

        `value` is a JSON value as `parse_reply` or `size_of` accepts it.
        """
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
        except (ArithmeticError, ValueError) as error:
            # For example `multipleOf` with a number of 400 digits.
            raise SchemaError(f"The value cannot be compared with the schema: {error!s:.200}") from error
        except Unresolvable as error:
            raise SchemaError(f"{error.ref} is not in the schema, and nothing is fetched") from error
        if fault is not None:
            place = "".join(f"[{step!r}]" for step in fault.absolute_path) or "the value"
            raise SchemaError(f"The value does not match the schema at {place:.300}: {fault.message[:300]}")


def parse_reply(reply: str) -> Any:
    """Return the JSON value of a reply, or of its fenced block.

    Raises SchemaError for anything else, and for a value that is too large, too deep, or not finite.
    """
    text = _unfenced(reply)
    if len(text) > MAX_VALUE_CHARS:
        raise _too_large(len(text))
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"Your last answer was not JSON ({error}); answer with the JSON value alone."
        ) from error
    size_of(value)
    return value


def size_of(value: Any) -> int:
    """Return the characters of `value` as JSON. Raises SchemaError if it is too large or too deep, or has a
    number that JSON cannot hold."""
    if is_nested_deeper(value, MAX_DEPTH):
        raise SchemaError(f"The value is nested deeper than {MAX_DEPTH} levels. Flatten it.")
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise SchemaError(f"The value has a number that JSON cannot hold ({error}).") from error
    if size > MAX_VALUE_CHARS:
        raise _too_large(size)
    return size


def _too_large(size: int) -> SchemaError:
    return SchemaError(
        f"The value has {size:,} characters as JSON; {MAX_VALUE_CHARS:,} are the limit. Give less."
    )


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _unfenced(reply: str) -> str:
    """Return the text of the first fenced block, or all of `reply`. Reads it a fixed number of times."""
    opened = _FENCE.search(reply)
    if opened is None:
        return reply
    closed = _CLOSING_FENCE.search(reply, opened.end())
    return reply if closed is None else reply[opened.end() : closed.start()]


def _count_parts(schema: Any, trusted: bool) -> int | None:
    """Return the parts of a schema, or None for a trusted schema without a bound. Raises SchemaError."""
    try:
        return count_parts(schema)
    except ForbiddenSchema as error:
        if trusted:
            return None
        raise SchemaError(str(error)) from error
