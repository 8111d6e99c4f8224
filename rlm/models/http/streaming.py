"""Send one request to a provider and read the streamed reply. A failed attempt is returned as data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

from rlm.models.base import Reply, ReplyListener
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.clients.failures import StatusFailure, TransportFailure, Unsigned
from rlm.models.http.clients.shared_clients import Response, SharedClient
from rlm.models.http.concessions import describe_refusal
from rlm.models.http.deltas import TextDeltas
from rlm.models.http.error_mapping import AttemptFailure, ErrorMapper
from rlm.models.http.reply_limits import ReplyTooLarge, parse_json, stream_bytes
from rlm.models.http.wire_messages import field

__all__ = ["map_failure", "read_error", "stream_completion"]

_END = b"[DONE]"
_REFUSALS = (400, 404, 413, 422)
"""Statuses of a request that may pass without one of its fields."""
_KIND_CHARS = 100
_MESSAGE_CHARS = 10_000
_REPORT_SECONDS = 1.0
_END_SECONDS = 1.0
"""Seconds that a server has to close a finished stream. A connection can be reused only after a clean end."""


async def stream_completion(
    shared: SharedClient,
    body: dict[str, Any],
    accumulator: StreamAccumulator,
    mapper: ErrorMapper,
    *,
    max_output_tokens: int,
    headers: Mapping[str, str] | None = None,
    listener: ReplyListener | None = None,
) -> Reply | AttemptFailure:
    """Send `body` with `headers` besides the usual ones, and collect the reply. Reads no more than a reply of
    `max_output_tokens`, its thinking included, can take. `listener` hears of what arrives."""
    failure: AttemptFailure | None
    on_tokens = None if listener is None else listener.on_tokens
    on_text = None if listener is None else listener.on_text
    deltas = None if on_text is None else TextDeltas(accumulator.text, on_text)
    try:
        async with aclosing(await shared.post(body, headers or {})) as response:
            limit = stream_bytes(max_output_tokens)
            failure = await _read_stream(shared, response, accumulator, mapper, limit, on_tokens, deltas)
    except Exception as error:  # the boundary to the provider: it may send anything
        failure = map_failure(error, mapper)
    except BaseException:
        if deltas is not None:
            deltas.close(failed=True)
        raise
    reply = None if failure is not None else accumulator.reply()
    if deltas is not None:
        deltas.close(failed=reply is None)
    return reply or replace(failure or mapper.map_dropped(), spent=accumulator.spent)


def map_failure(error: Exception, mapper: ErrorMapper) -> AttemptFailure:
    """Map what sending a request, or reading its response, raised."""
    if isinstance(error, StatusFailure):
        kinds, detail = read_error(error.body)
        failure = mapper.map_status(error.status, kinds=kinds, detail=detail, headers=error.headers)
        if error.status not in _REFUSALS:
            return failure
        return replace(failure, refusal=mapper.strip_secrets(describe_refusal(error.body) or detail))
    if isinstance(error, TransportFailure):
        return mapper.map_transport(error)
    if isinstance(error, ReplyTooLarge):
        return mapper.map_too_large(error)
    if isinstance(error, Unsigned):
        return mapper.map_unsigned(error.__cause__ or error)
    return mapper.map_garbled(error)


async def _read_stream(
    shared: SharedClient,
    response: Response,
    accumulator: StreamAccumulator,
    mapper: ErrorMapper,
    limit: int,
    on_tokens: Callable[[int], None] | None,
    deltas: TextDeltas | None,
) -> AttemptFailure | None:
    content_type = response.content_type
    if shared.stream_type not in content_type:
        is_whole = "json" in content_type and accumulator.accept_json(_parse_json(await response.read()))
        return None if is_whole else mapper.map_wrong_type(content_type)
    decoder = shared.make_decoder()
    size = pieces = 0
    reported = time.monotonic()
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise ReplyTooLarge(f"a stream of more than {limit:,} bytes")
            for data in decoder.feed(chunk):
                event = None if data == _END else parse_json(data)
                error = _error_in(event)
                if error is not None:
                    return mapper.map_stream_error(*read_error(error))
                if data == _END or accumulator.add(event):
                    await _drain(chunks)
                    return None
                pieces += 1
            if deltas is not None:
                deltas.update()
            if on_tokens is not None and time.monotonic() - reported >= _REPORT_SECONDS:
                on_tokens(pieces)
                pieces, reported = 0, time.monotonic()
    return None


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read the stream to its end so that the connection can be reused. Errors no longer matter: the reply is
    complete."""
    with suppress(TimeoutError, ReplyTooLarge, TransportFailure):
        async with asyncio.timeout(_END_SECONDS):
            async for _ in chunks:
                pass


def _parse_json(body: bytes) -> object:
    try:
        return parse_json(body)
    except ValueError:
        return None


def _error_in(event: object) -> object:
    """Return the error that an event of a stream reports, in any of the protocols; else None."""
    if not isinstance(event, dict):
        return None
    if field(event, "error") or field(event, "type") == "error":
        return event
    return field(event, "response") if field(event, "type") == "response.failed" else None


def read_error(answer: object) -> tuple[tuple[str, ...], str]:
    """Return the kinds of a server's error, and its message."""
    if isinstance(answer, list):  # Google's compatible servers send a list of one error
        answer = answer[0] if answer else None
    error = field(answer, "error") or answer
    fields = (field(error, "code"), field(error, "type"), field(field(error, "details"), "error_code"))
    kinds = tuple(str(kind)[:_KIND_CHARS] for kind in fields if isinstance(kind, str | int) and kind)
    message = error if isinstance(error, str) else field(error, "message") or _read_detail(error)
    return kinds, message[:_MESSAGE_CHARS] if isinstance(message, str) else ""


def _read_detail(error: object) -> str:
    """Return the message of a server that is made with FastAPI, which names the field first."""
    detail = field(error, "detail")
    if isinstance(detail, str):
        return detail
    first = detail[0] if isinstance(detail, list) and detail else None
    place, message = field(first, "loc"), field(first, "msg")
    if not isinstance(message, str):
        return ""
    steps = [str(step)[:_KIND_CHARS] for step in place] if isinstance(place, list) else []
    return f"{'.'.join(steps[:10])}: {message}" if steps else message
