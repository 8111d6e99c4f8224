"""Reads JSON Schemas, and checks answers against them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal

from rlm.lazy_dataclass import dataclass
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.host.nesting import is_nested_deeper

__all__ = ["MAX_VALUE_CHARS", "AnswerSchema", "SchemaError", "parse_reply", "read_schema", "size_of"]

_FENCE = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)
_CLOSING_FENCE = re.compile(r"^[ \t]*+```", re.MULTILINE)

_MAX_SCHEMA_CHARS = 20_000
"""The schema is a part of every child's prompt."""

MAX_VALUE_CHARS = 1_000_000
"""Characters of a checked value as JSON."""

MAX_DEPTH = 100
"""Levels of lists and objects within each other, in a schema and in a checked value."""

SECONDS = 2.0
"""Seconds of computing to read a schema, and to check a value."""


class SchemaError(Exception):
    """An invalid schema, or an answer that does not match one. The message is one line for a model."""


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """A JSON Schema of draft 2020-12 that refers only to itself. `text` is its form in a prompt."""

    schema: Mapping[str, Any]
    text: str

    @classmethod
    def of(cls, given: Any, *, author: Literal["cell", "caller", "pydantic"] = "cell") -> AnswerSchema:
        """Read a JSON Schema, or a short form of one (`{"name": "str", "tags": ["str"]}`), in which all names
        are required. Raises SchemaError.

        What a cell wrote may wait for other checks: read it off the event loop, by `read_schema`. An unknown
        keyword is a mistake of a cell, and of another tool's from a caller. What pydantic writes
        has regular expressions of its own, which only pydantic checks.
        """
        # jsonschema takes 50 ms to import, and most runs have no schema.
        from rlm.answers.bounded_validator import (
            CHECKED,
            TooLong,
            find_fault,
            find_schema_fault,
            limited,
        )
        from rlm.answers.schema_shorthand import ShorthandError, expand

        try:
            _schema_text(given)
            with limited(SECONDS, takes_turns=author == "cell"):
                schema = expand(given)
                schema.pop("$id", None)  # a name to fetch it by
                text = _schema_text(schema)
                fault = find_schema_fault(schema, strict=author == "cell", patterns=author != "pydantic")
                if fault is None:
                    # Shows references without an end before any reply is paid for.
                    find_fault(schema, None)
        except ShorthandError as error:
            raise SchemaError(str(error)) from error
        except TooLong as error:
            raise SchemaError(f"it takes more than {SECONDS:g} s of computing. Make it simpler") from error
        except RecursionError as error:
            raise SchemaError("it is nested too deeply, or refers to itself without an end") from error
        if fault is not None:
            raise SchemaError(f"it is no JSON Schema: {fault}")
        if schema and not CHECKED & set(schema):
            raise SchemaError(f"it says nothing of a value: no key of it ({', '.join(schema)}) is a keyword")
        return cls(schema, text)

    async def check(self, value: Any) -> None:
        """Raise SchemaError, with the place of the fault, if a JSON value does not match, or if it is not
        checked in 2 s of computing."""
        await run_in_daemon_thread(lambda: self.check_now(value, takes_turns=True), name="rlm-schema")

    def check_now(self, value: Any, *, takes_turns: bool = False) -> None:
        """Check like `check`, on this thread. With `takes_turns` it may wait for other checks."""
        from rlm.answers.bounded_validator import TooLong, find_fault, limited

        size_of(value)
        try:
            with limited(SECONDS, takes_turns=takes_turns):
                fault = find_fault(self.schema, value)
        except TooLong as error:
            raise SchemaError(
                f"The value could not be checked against the schema in {SECONDS:g} s. Give a smaller value."
            ) from error
        except RecursionError as error:
            raise SchemaError("The value is nested too deeply.") from error
        except (ArithmeticError, ValueError) as error:
            # For example `multipleOf` with a number of 400 digits.
            raise SchemaError(f"The value cannot be compared with the schema: {error!s:.200}") from error
        if fault is not None:
            raise SchemaError(f"The value does not match the schema at {fault}")

    async def read(self, reply: str) -> Any:
        """Parse a model's reply, or its fenced block, as JSON and check it. Raises SchemaError."""
        value = parse_reply(reply)
        await self.check(value)
        return value


async def read_schema(given: Any) -> AnswerSchema:
    """Read a schema that a model wrote, as `AnswerSchema.of`, off the event loop. Raises SchemaError."""
    return await run_in_daemon_thread(lambda: AnswerSchema.of(given), name="rlm-schema")


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


def _schema_text(given: Any) -> str:
    if is_nested_deeper(given, MAX_DEPTH):
        raise SchemaError(f"it is nested deeper than {MAX_DEPTH} levels. Flatten it")
    try:
        text = json.dumps(given, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SchemaError(f"it is not JSON: {error}") from error
    if len(text) > _MAX_SCHEMA_CHARS:
        raise SchemaError(f"it has {len(text):,} characters; {_MAX_SCHEMA_CHARS:,} are the limit")
    return text


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
