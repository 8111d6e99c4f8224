"""Send one request to a provider and read the streamed reply. A failed attempt is returned as data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from rlm.escaping import encodable
from rlm.models.base import Reply, ReplyListener
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.errors import AttemptFailure, ErrorMapper, TransportFailure, error_in, read_error
from rlm.models.http.reply_limits import MAX_EVENT, BoundedText, ReplyTooLarge, parse_json, stream_bytes

if TYPE_CHECKING:
    from rlm.models.http.session import HttpResponse

__all__ = ["EventDecoder", "LineDecoder", "ReplyProgress", "StreamDecoder", "collect_reply"]

_END = b"[DONE]"
_REPORT_SECONDS = 1.0
_END_SECONDS = 1.0
"""Seconds that a server has to close a finished stream. A connection can be reused only after a clean end."""


class StreamDecoder(Protocol):
    """Decodes the bytes of a stream. `feed` returns the JSON of the events that end in a chunk, and raises
    ReplyTooLarge before an event takes too much memory."""

    def feed(self, chunk: bytes) -> list[bytes]: ...


async def collect_reply(
    response: HttpResponse,
    decoder: StreamDecoder,
    stream_type: str,
    accumulator: StreamAccumulator,
    mapper: ErrorMapper,
    *,
    max_output_tokens: int,
    listener: ReplyListener,
) -> Reply | AttemptFailure:
    """Collect the reply in a response. Reads no more than a reply of `max_output_tokens`, its thinking
    included, can take. `listener` hears of what arrives."""
    failure: AttemptFailure | None = None
    progress = ReplyProgress(accumulator.text, listener)
    try:
        async with aclosing(response):
            if stream_type in response.content_type:
                limit = stream_bytes(max_output_tokens)
                failure = await _read_stream(response, decoder, accumulator, mapper, limit, progress)
            else:
                answer = _parse_json(await response.read()) if "json" in response.content_type else None
                error = error_in(answer)
                if error is not None:
                    failure = mapper.map_stream_error(*read_error(error))
                elif answer is None or not accumulator.accept_json(answer):
                    failure = mapper.map_wrong_type(response.content_type)
    except Exception as error:  # the boundary to the provider: it may send anything
        failure = mapper.map_exception(error)
    except BaseException:
        progress.close(failed=True)
        raise
    reply = None if failure is not None else accumulator.reply()
    progress.close(failed=reply is None)
    return reply or replace(failure or mapper.describe("dropped"), spent=accumulator.spent)


async def _read_stream(
    response: HttpResponse,
    decoder: StreamDecoder,
    accumulator: StreamAccumulator,
    mapper: ErrorMapper,
    limit: int,
    progress: ReplyProgress,
) -> AttemptFailure | None:
    size = 0
    async with aclosing(response.chunks()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:
                raise ReplyTooLarge(f"a stream of more than {limit:,} bytes")
            events = decoder.feed(chunk)
            for data in events:
                is_end = data.strip() == _END
                event = None if is_end else parse_json(data)
                error = error_in(event)
                if error is not None:
                    return mapper.map_stream_error(*read_error(error))
                if is_end or accumulator.add(event):
                    await _drain(chunks)
                    return None
            progress.update(len(events))
    # A last event may lack its end. What the connection cut off is no JSON.
    with suppress(ValueError, ReplyTooLarge):
        for data in decoder.feed(b"\n\n"):
            accumulator.add(parse_json(data))
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


_BYTE_ORDER_MARK = "\ufeff".encode()
_LINE_OVERHEAD = 40
"""Bytes that a line takes in memory besides its own."""


class EventDecoder:
    """Returns the data of each event once it is complete. An incomplete event at the end is dropped."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that end in `chunk`, in order. Raises ReplyTooLarge."""
        if self._size + len(self._rest) > MAX_EVENT:
            raise ReplyTooLarge(f"an event of more than {MAX_EVENT:,} bytes")
        rest = self._rest
        rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            return []
        lines = rest.splitlines(keepends=True)
        # A carriage return at the end may be the first half of a CRLF.
        self._rest = bytearray() if rest.endswith(b"\n") else lines.pop()
        events = []
        for line in lines:
            text = line.rstrip(b"\r\n").removeprefix(_BYTE_ORDER_MARK)
            if text.startswith(b"data:"):
                self._data.append(bytes(text[5:]).removeprefix(b" "))
                self._size += _LINE_OVERHEAD + len(text)
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
                self._size = 0
        return events


class LineDecoder:
    """Decodes a stream of lines, each of which is one JSON object."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in `chunk`, in order. Raises ReplyTooLarge."""
        if len(self._rest) > MAX_EVENT:
            raise ReplyTooLarge(f"a line of more than {MAX_EVENT:,} bytes")
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        return [bytes(line) for line in lines if line.strip()]


_DELTA_SECONDS = 0.05
_HIGH_SURROGATES = ("\ud800", "\udbff")


class ReplyProgress:
    """Tells `listener` how many pieces a reply has brought, and what its `text` has grown by.

    The first piece of text is passed on at once. Concatenated, the pieces are the text: a surrogate pair
    whose halves arrive apart is passed on whole.
    """

    def __init__(self, text: BoundedText, listener: ReplyListener) -> None:
        self._text = text
        self._listener = listener
        self._position = self._tokens = 0
        self._reported = time.monotonic()
        self._held = ""
        self._has_passed = False
        self._timer: asyncio.TimerHandle | None = None

    def update(self, events: int = 0) -> None:
        """Pass on the new text soon. Call it when `events` have been added."""
        self._tokens += events
        if self._listener.on_tokens is not None and time.monotonic() - self._reported >= _REPORT_SECONDS:
            self._listener.on_tokens(self._tokens)
            self._tokens, self._reported = 0, time.monotonic()
        if self._timer is None and self._position != self._text.pieces and self._listener.on_text is not None:
            self._pass()
            self._timer = asyncio.get_running_loop().call_later(_DELTA_SECONDS, self._tick)

    def close(self, *, failed: bool) -> None:
        """Pass on the rest, or say that what was passed on is void."""
        if self._timer is not None:
            self._timer.cancel()
        if not failed:
            self._pass(is_end=True)
        elif self._has_passed and self._listener.on_text is not None:
            self._listener.on_text(None)

    def _tick(self) -> None:
        self._timer = None
        self.update()

    def _pass(self, *, is_end: bool = False) -> None:
        if self._listener.on_text is None:
            return
        piece = self._held + self._text.since(self._position)
        self._position = self._text.pieces
        split = not is_end and bool(piece) and _HIGH_SURROGATES[0] <= piece[-1] <= _HIGH_SURROGATES[1]
        piece, self._held = (piece[:-1], piece[-1]) if split else (piece, "")
        if piece:
            self._has_passed = True
            self._listener.on_text(encodable(piece))
