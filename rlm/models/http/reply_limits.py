"""Bounds what a server may send, because all of it passes through the memory of this process."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from rlm.escaping import encodable
from rlm.sandbox.in_kernel.wire import MAX_WEIGHT, weight

__all__ = [
    "MAX_COUNT",
    "MAX_EVENT",
    "RESULTS_TYPE",
    "STREAM_TYPES",
    "BoundedText",
    "Inflater",
    "ReplyTooLarge",
    "max_body",
    "parse_json",
    "stream_bytes",
]

MAX_STREAM = 256 * 2**20
"""Bytes of a stream of events, whatever the output limit of the request. A stream is not kept."""
MAX_EVENT = 4 * 2**20
"""Bytes of one event of a stream, or of a reply that is one JSON value."""
STREAM_TYPES = ("text/event-stream", "application/x-ndjson", "application/vnd.amazon.eventstream")
MAX_RESULTS = 16 * 2**30
"""Bytes of the results of a batch, whatever its size. They are not kept."""
MAX_ERROR = 256 * 2**10
"""Bytes of the body of an error."""

MAX_COUNT = 10**9
"""Tokens that a server may report for one reply. Larger numbers do not fit the sums and prices of a run."""

_STREAM_BASE = 4 * 2**20
_STREAM_BYTES_PER_TOKEN = 2_000
"""A provider wraps each token in an event of some 300 bytes."""

_CHARS_PER_TOKEN = 16
_CHARS_BASE = 4_000
_PIECE = 1 << 16


class ReplyTooLarge(Exception):
    """A server sent more than any honest reply holds. The message says what and how much."""


RESULTS_TYPE = "application/x-jsonl"
"""What a request for the results of a batch accepts. Its caller bounds them, line by line."""


def max_body(status: int, content_type: str, accepted: str = "") -> int:
    """Return how many bytes the body of a response may have. `accepted` is the type that was asked for."""
    if status >= 300:
        return MAX_ERROR
    if accepted == RESULTS_TYPE:
        return MAX_RESULTS
    return MAX_STREAM if content_type.partition(";")[0] in STREAM_TYPES else MAX_EVENT


def stream_bytes(max_output_tokens: int) -> int:
    """Return how many bytes the stream of a reply may have."""
    return min(MAX_STREAM, _STREAM_BASE + _STREAM_BYTES_PER_TOKEN * max_output_tokens)


def parse_json(data: bytes) -> Any:
    """Parse JSON. Raises ReplyTooLarge before its values take too much memory, and ValueError."""
    if len(data) > MAX_EVENT or weight(data) > MAX_WEIGHT:
        raise ReplyTooLarge(f"an event of {len(data):,} bytes")
    return json.loads(data.decode("utf-8-sig"))


class Inflater:
    """Decompresses a body of `encoding` (gzip or deflate) in small pieces. A body without one passes as it
    is. Raises ReplyTooLarge for any other encoding, because nothing else was asked for."""

    def __init__(self, encoding: str) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "deflate"):
            raise ReplyTooLarge(f"the content encoding {encoding[:40]!r}")
        self._zlib = None if encoding in ("", "identity") else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed bytes. Raises zlib.error."""
        if self._zlib is None:
            yield data
            return
        while data:
            yield self._zlib.decompress(data, _PIECE)
            data = self._zlib.unconsumed_tail


class BoundedText:
    """Collects the pieces of a reply. Keeps no more characters than `max_output_tokens` can hold."""

    def __init__(self, max_output_tokens: int) -> None:
        self._room = _CHARS_BASE + _CHARS_PER_TOKEN * max_output_tokens
        self._pieces: list[str] = []

    @property
    def is_full(self) -> bool:
        """Return whether a piece was cut or dropped."""
        return self._room < 0

    def add(self, piece: str) -> None:
        """Add a piece, as far as there is room."""
        if piece and self._room >= 0:
            self._pieces.append(piece[: self._room])
            self._room -= len(piece)

    @property
    def pieces(self) -> int:
        """Return the number of pieces so far."""
        return len(self._pieces)

    def since(self, position: int) -> str:
        """Return the pieces from `position` on, as they came. Half a surrogate pair may be among them."""
        return "".join(self._pieces[position:])

    def __str__(self) -> str:
        # A server may send the halves of a surrogate pair in two pieces, or one half alone.
        return encodable("".join(self._pieces))
