"""The one wire format: a 4-byte little-endian length, then that many bytes of UTF-8 JSON.

Spoken on the helper channel (kernel and driver) and on the broker's channel (broker and driver). A size
is checked before anything is allocated, and nothing a peer sends can make decoding raise but WireError.
"""

from __future__ import annotations

import json
import re
import struct
from typing import Any

MAX_FRAME = 16 * 2**20
"""Bytes of one frame's body; more is an error on either side."""

MAX_CALL = 4 * 2**20
"""Bytes of one frame that a kernel sends: what hostile code can make the driver hold of it."""

MAX_WEIGHT = 24 * 2**20
"""Bytes that the values of one frame may take as Python objects, beside their text. A list is 20 times as
large in memory as on the wire, a dict 30 times."""

_LENGTH = struct.Struct("<I")
HEADER_SIZE = _LENGTH.size


class WireError(Exception):
    """Bytes that are no frame, or a value that does not fit one."""


def weight(data: bytes) -> int:
    """About how many bytes the lists, dicts and items of a JSON text take when decoded, strings' own
    characters not counted. Never too little by more than a third, whatever the text."""
    weighed = _weigh(data)
    if weighed > MAX_WEIGHT:
        # A text full of commas weighs nothing. To leave it out is slow, so it is done only where it matters,
        # and makes nothing new: what is weighed here may be hostile.
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


def _weigh(data: bytes) -> int:
    return 240 * data.count(b"{") + 72 * data.count(b"[") + 48 * data.count(b",") + 25 * data.count(b'"')


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)
_LONG = 32
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
