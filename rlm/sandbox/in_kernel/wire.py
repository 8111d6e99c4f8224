"""The wire format: a 4-byte little-endian length, then that many bytes of UTF-8 JSON.

The helper channel (kernel and driver) and the watcher's channel (watcher and driver) use it. On the channel
of cells (kernel and watcher) a frame holds the parts of one of Jupyter's messages, each after its own length.
A size is checked before anything is allocated. Decoding raises WireError for any invalid input, and nothing
else.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from typing import Any

MAX_FRAME = 16 * 2**20
"""Bytes of one frame's body. More is an error on either side."""

MAX_CALL = 4 * 2**20
"""Bytes of one frame from a kernel: it limits what hostile code can make the driver hold."""

MAX_WEIGHT = 24 * 2**20
"""Bytes that the values of one frame may take as Python objects, in addition to their text. In memory a list
is 20 times as large as on the wire, a dict 30 times."""

MAX_PARTS = 16
"""Parts of one message on the channel of cells."""

MAX_PIECES = 10_000
"""Spans and texts of one slice."""

MAX_EVIDENCE = 1_000
"""Spans and quotes of one answer."""

MAX_OFFSET = 2**53

_LENGTH = struct.Struct("<I")
HEADER_SIZE = _LENGTH.size


class WireError(Exception):
    """Bytes that are not a frame, or a value that does not fit in one."""


def too_many_pieces(count: int) -> str:
    """Return the reason why a slice of that many pieces is refused, with the remedy."""
    return (
        f"the slice has {count:,} pieces, and a child takes at most {MAX_PIECES:,}. Give the 1,000 that "
        "matter, for example search(pattern, max_hits=1000), or give sub_query_batch several smaller lists"
    )


def too_much_evidence(count: int) -> str:
    """Return the reason why that many pieces of evidence are refused, with the remedy."""
    return (
        f"evidence holds {count:,} pieces, and an answer takes at most {MAX_EVIDENCE:,}. Give those that "
        "prove it, for example hits[:100]"
    )


def weight(data: bytes) -> int:
    """Estimate the bytes that the lists, dicts and items of a JSON text take when decoded.

    The characters of strings do not count. The estimate is never more than a third too low.
    """
    weighed = _weigh(data)
    if weighed > MAX_WEIGHT:
        # Commas inside strings weigh nothing. Leaving them out is slow, so it is done only if it matters,
        # and without building new objects: the input may be hostile.
        for string in _STRINGS.finditer(data):
            if string.end() - string.start() > _LONG:
                weighed -= _weigh(string[0])
    return weighed


def encode(message: dict[str, Any], limit: int = MAX_FRAME) -> bytes:
    """The frame of `message`. Lone surrogates become escapes, so that any Python string can cross."""
    try:
        body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = body.encode()
    except UnicodeEncodeError:
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"not a JSON value: {error}") from error
    if len(data) > limit:
        raise WireError(f"{len(data):,} bytes do not fit one frame of {limit:,}")
    if weight(data) > MAX_WEIGHT:
        raise WireError("it has too many pieces for one frame")
    return _LENGTH.pack(len(data)) + data


def body_size(header: bytes, limit: int = MAX_FRAME) -> int:
    """How many bytes follow `header` (of HEADER_SIZE bytes)."""
    (size,) = _LENGTH.unpack(header)
    if size > limit:
        raise WireError(f"a frame of {size:,} bytes was announced; {limit:,} are the limit")
    return int(size)


def decode(data: bytes) -> dict[str, Any]:
    """The message in a frame's body. Always a mapping with string keys."""
    if weight(data) > MAX_WEIGHT:
        raise WireError("a frame of too many pieces")
    try:
        message = _DECODER.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {type(error).__name__}") from error
    if not isinstance(message, dict):
        raise WireError("a frame must hold a JSON object")
    return message


def pack_parts(parts: Iterable[bytes]) -> bytes:
    """Return the frame of a message of several parts."""
    body = b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    return _LENGTH.pack(len(body)) + body


def split_parts(body: bytes) -> list[bytes]:
    """Return the parts in a frame's body."""
    parts: list[bytes] = []
    at = 0
    while at < len(body):
        if len(body) - at < HEADER_SIZE or len(parts) == MAX_PARTS:
            raise WireError("not the parts of a message")
        end = at + HEADER_SIZE + _LENGTH.unpack_from(body, at)[0]
        if end > len(body):
            raise WireError("a part is longer than its frame")
        parts.append(bytes(body[at + HEADER_SIZE : end]))
        at = end
    return parts


def _weigh(data: bytes) -> int:
    return 240 * data.count(b"{") + 72 * data.count(b"[") + 48 * data.count(b",") + 25 * data.count(b'"')


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
_LONG = 32
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
