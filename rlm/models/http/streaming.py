"""One request to a provider and its streamed answer. What goes wrong comes back as a Failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from rlm.models.base import Reply, TokenUsage
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.shared_clients import SharedClient
from rlm.models.http.sse import EventDecoder
from rlm.models.http.wire_messages import field

if TYPE_CHECKING:
    import httpx2

__all__ = ["StreamAccumulator", "stream_completion"]

_END = b"[DONE]"
_END_SECONDS = 1.0
"""How long a server that has said all may take to end its answer: then its connection can be used again."""


class StreamAccumulator(Protocol):
    """What the events of one stream add up to. `take` is total, whatever a server calls an event."""

    def add(self, event: object) -> bool:
        """Whether it was the last."""

    def accept_json(self, answer: object) -> bool:
        """An answer that came as JSON although a stream was asked for; False when it is none."""

    def reply(self) -> Reply | None:
        """None as long as it is not whole."""

    @property
    def spent(self) -> TokenUsage:
        """What the provider will charge for it so far, as far as that is known."""


async def stream_completion(
    shared: SharedClient, body: dict[str, Any], accumulator: StreamAccumulator, mapper: ErrorMapper
) -> Reply | AttemptFailure:
    """Send `body` and gather the answer."""
    import httpx2

    failure: AttemptFailure | None
    try:
        async with aclosing(await shared.post(body)) as response:
            failure = await _read(response, accumulator, mapper)
    except shared.errors.APIStatusError as error:
        shared.has_answered = True
        kinds, detail = _complaint(error.body)
        headers = error.response.headers
        failure = mapper.status(error.status_code, kinds=kinds, detail=detail, headers=headers)
    except (shared.errors.APIConnectionError, httpx2.RequestError, httpx2.StreamError) as error:
        failure = mapper.transport(error)
    except Exception as error:  # the provider's edge: nothing of what was sent can be trusted
        failure = mapper.garbled(error)
    reply = None if failure is not None else accumulator.reply()
    return reply or replace(failure or mapper.dropped(), spent=accumulator.spent)


async def _read(
    response: httpx2.Response, accumulator: StreamAccumulator, mapper: ErrorMapper
) -> AttemptFailure | None:
    content_type = response.headers.get("content-type", "")
    if "event-stream" not in content_type:
        whole = "json" in content_type and accumulator.accept_json(_json(await response.aread()))
        return None if whole else mapper.not_a_stream(content_type)
    decoder = EventDecoder()
    chunks = response.aiter_bytes()
    async for chunk in chunks:
        for data in decoder.feed(chunk):
            event = None if data == _END else json.loads(data.decode())
            if field(event, "error"):
                return mapper.in_stream(*_complaint(event))
            if data == _END or accumulator.add(event):
                await _drain(chunks)
                return None
    return None


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """All is said: whatever becomes of the connection now, the reply stands."""
    import httpx2

    with suppress(TimeoutError, httpx2.TransportError):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in chunks:
                pass


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _complaint(answer: object) -> tuple[tuple[str, ...], str]:
    """What kinds of error a server names, and its own words."""
    error = field(answer, "error") or answer
    named = (field(error, "code"), field(error, "type"), field(field(error, "details"), "error_code"))
    kinds = tuple(str(kind) for kind in named if isinstance(kind, str | int) and kind)
    words = error if isinstance(error, str) else field(error, "message")
    return kinds, words if isinstance(words, str) else ""
