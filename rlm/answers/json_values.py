"""Reads the JSON value of a model's reply, within bounds."""

from __future__ import annotations

import json
import re
from typing import Any

from rlm.sandbox.host.requests import is_nested_deeper

__all__ = ["MAX_DEPTH", "MAX_VALUE_CHARS", "SchemaError", "parse_reply", "size_of"]

MAX_VALUE_CHARS = 1_000_000
"""Characters of a checked value as JSON."""
MAX_DEPTH = 100
"""Levels of lists and objects within each other, in a schema and in a checked value."""
_FENCE = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)
_CLOSING_FENCE = re.compile(r"^[ \t]*+```", re.MULTILINE)


class SchemaError(Exception):
    """An invalid schema, or an answer that does not match one. The message is one line for a model."""


def parse_reply(reply: str) -> Any:
    """Return the JSON value of a reply, or of its first fenced block.

    Raises SchemaError for anything else, and for a value that is too large, too deep, or not finite.
    """
    opened = _FENCE.search(reply)
    closed = None if opened is None else _CLOSING_FENCE.search(reply, opened.end())
    text = reply if opened is None or closed is None else reply[opened.end() : closed.start()]
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
