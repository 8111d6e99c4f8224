"""Checks what a model or a cell gives: values against schemas, and quotes against the text.

Both inputs may be hostile. A check whose work is small by a bound known before runs at once, in the driver.
Any other runs in a process that is killed when it takes too long (`checker`). The event loop never waits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from rlm.answers.checker.pool import shared_pool
from rlm.answers.checker.process import CheckFailed
from rlm.answers.json_schema import AnswerSchema, SchemaError, parse_reply, size_of
from rlm.lazy_dataclass import dataclass
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.in_kernel.quoting.quote_search import MAX_NEAR, Budget, Found, Wanted, find_quotes
from rlm.sandbox.types import Span

__all__ = ["QuotePlace", "Wanted", "check_value", "find_places", "read_reply"]

MAX_SCHEMA_WORK = 200_000
"""Comparisons of a schema check in the driver: parts of the schema times characters of the value."""
SCHEMA_SECONDS = 2.0

MAX_SEARCH_STEPS = 10_000_000
"""Steps of a search for quotes in the driver (`Budget`)."""
SEARCH_SECONDS = 3.0
"""Seconds of computing of a search in a process."""
_WAITED_SECONDS = 3
"""Seconds to wait for each second of computing: other work may keep the processors busy."""
_SEARCHED_PER_SECOND = 50_000_000
"""Bytes of text for which a search gets another second."""
_MAX_NEAR_CHARS = 20_000
"""A longer span does not say where to look."""

Status = Literal["found", "missing", "common", "too_long", "unsearched"]


@dataclass(frozen=True, slots=True)
class QuotePlace:
    """The result for one quote. Only a `found` one has a span.

    `common`: it stands in too many places. `unsearched`: it was not looked up in time.
    """

    status: Status
    span: Span | None = None


async def read_reply(schema: AnswerSchema, reply: str) -> Any:
    """Parse a model's reply, or its fenced block, as JSON and check it. Raises SchemaError."""
    value = parse_reply(reply)
    await check_value(schema, value)
    return value


async def check_value(schema: AnswerSchema, value: Any) -> None:
    """Raise SchemaError if a JSON value does not match, or if that cannot be known within 2 s."""
    size = size_of(value)
    if schema.parts is not None and schema.parts * size <= MAX_SCHEMA_WORK:
        schema.check(value)
        return
    request = {"kind": "schema", "schema": schema.text, "value": json.dumps(value)}
    try:
        answer = await shared_pool().ask(request, seconds=SCHEMA_SECONDS)
    except CheckFailed as error:
        raise SchemaError(
            f"The value could not be checked against the schema: {error}. Give a smaller value."
        ) from error
    fault = answer.get("error") or answer.get("fault")
    if fault is not None:
        raise SchemaError(str(fault)[:1_000])


async def find_places(quotes: Sequence[Wanted], body: Body, near: Sequence[Span] = ()) -> list[QuotePlace]:
    """Return the place of each quote, as `find_quotes` chooses it. Takes at most 3 s of computing, and
    20 s more for a gigabyte."""
    if not quotes:
        return []
    hints = [
        (body.byte_of(span.start), body.byte_of(span.end))
        for span in near
        if 0 <= span.start < span.end <= min(body.chars, span.start + _MAX_NEAR_CHARS)
    ][:MAX_NEAR]
    found = find_quotes(quotes, body.read, body.bytes, hints, budget=Budget(MAX_SEARCH_STEPS))
    rest = [number for number, one in enumerate(found) if one.status == "unsearched"]
    if rest and body.descriptor is not None:
        for number, one in zip(rest, await _ask([quotes[at] for at in rest], body, hints), strict=True):
            found[number] = one
    return [
        QuotePlace(one.status, Span(body.char_of(one.start), body.char_of(one.end)))
        if one.status == "found"
        else QuotePlace(one.status)
        for one in found
    ]


async def _ask(quotes: Sequence[Wanted], body: Body, hints: Sequence[tuple[int, int]]) -> list[Found]:
    request = {
        "kind": "quotes",
        "quotes": [[quote.text, quote.max_places] for quote in quotes],
        "near": hints,
        "start": body.first_byte,
        "size": body.bytes,
    }
    seconds = SEARCH_SECONDS + body.bytes / _SEARCHED_PER_SECOND
    try:
        answer = await shared_pool().ask(
            {**request, "computing": seconds}, descriptor=body.descriptor, seconds=_WAITED_SECONDS * seconds
        )
        found = [_checked(one, body.bytes) for one in answer["found"]]
        if len(found) == len(quotes):
            return found
    except (CheckFailed, KeyError, TypeError, ValueError):
        pass  # it took too long or too much memory, or the process was taken over
    return [Found("unsearched")] * len(quotes)


def _checked(answer: Any, size: int) -> Found:
    """Return one result of the process. Raises TypeError or ValueError."""
    status, start, end = answer
    if status == "found" and 0 <= int(start) < int(end) <= size:
        return Found("found", int(start), int(end))
    if status in ("missing", "common", "too_long", "unsearched"):
        return Found(status)
    raise ValueError("no result of a search")
