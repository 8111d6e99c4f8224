"""Looks up quotes in the text, off the event loop and within a bounded time. Both may be hostile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Literal

from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.quotes import MAX_NEAR, Budget, Found, Wanted, find_quotes
from rlm.sandbox.types import Span

__all__ = ["Fault", "Wanted", "find_places"]

SEARCH_SECONDS = 3.0
"""Seconds of computing of a search."""
_SEARCHED_PER_SECOND = 50_000_000
"""Bytes of text for which a search gets another second."""
_MAX_NEAR_CHARS = 20_000
"""A longer span does not say where to look."""

_MOMENT = 0.05
"""Seconds of computing that a search may take at once. Longer ones run one at a time."""

_STOP_SECONDS = 1.5
"""Seconds that a cancelled search gets to end. One piece of its work takes far less."""

_turn = threading.Lock()

Fault = Literal["missing", "common", "too_long", "unsearched"]
"""Why a quote has no span. `common`: it stands in too many places. `unsearched`: it was not looked up in
time."""


async def find_places(quotes: Sequence[Wanted], body: Body, near: Sequence[Span] = ()) -> list[Span | Fault]:
    """Return the span of each quote, as `find_quotes` chooses it, or why there is none. Takes at most 3 s of
    computing, and 20 s more for a gigabyte."""
    if not quotes:
        return []
    hints = [
        (body.byte_of(span.start), body.byte_of(span.end))
        for span in near
        if 0 <= span.start < span.end <= min(body.chars, span.start + _MAX_NEAR_CHARS)
    ][:MAX_NEAR]

    stopped = threading.Event()

    def search(wanted: Sequence[Wanted], seconds: float) -> list[Found]:
        return find_quotes(wanted, body.read, body.bytes, hints, budget=Budget(seconds, stopped.is_set))

    def search_in_turn() -> list[Found]:
        found = search(quotes, _MOMENT)
        rest = [number for number, one in enumerate(found) if one.status == "unsearched"]
        if rest:
            with _turn:
                seconds = SEARCH_SECONDS + body.bytes / _SEARCHED_PER_SECOND
                again = search([quotes[number] for number in rest], seconds)
            for number, one in zip(rest, again, strict=True):
                found[number] = one
        return found

    searching = asyncio.ensure_future(run_in_daemon_thread(search_in_turn, name="rlm-quotes"))
    try:
        places = await asyncio.shield(searching)
    except asyncio.CancelledError:
        # A thread that is in RE2 when the process ends would abort it.
        stopped.set()
        await asyncio.wait([searching], timeout=_STOP_SECONDS)
        raise
    return [
        Span(body.char_of(one.start), body.char_of(one.end)) if one.status == "found" else one.status
        for one in places
    ]
