"""The one wire format: a 4-byte little-endian length, then that many bytes of UTF-8 JSON.

Spoken on the helper channel (kernel and driver) and on the broker's channel (broker and driver). A size
is checked before anything is allocated, and nothing a peer sends can make decoding raise but WireError.
"""

from __future__ import annotations

import json
import struct
from typing import Any

MAX_FRAME = 16 * 2**20
"""Bytes of one frame's body; more is an error on either side."""

_LENGTH = struct.Struct("<I")
HEADER_SIZE = _LENGTH.size


class WireError(Exception):
    """Bytes that are no frame, or a value that does not fit one."""


def encode(message: dict[str, Any]) -> bytes:
    """The frame of `message`. Lone surrogates become escapes, so that any Python string can cross."""
    try:
        body = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = body.encode()
    except UnicodeEncodeError:
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"not a JSON value: {error}") from error
    if len(data) > MAX_FRAME:
        raise WireError(f"{len(data):,} bytes do not fit one frame of {MAX_FRAME:,}")
    return _LENGTH.pack(len(data)) + data


def body_size(header: bytes) -> int:
    """How many bytes follow `header` (of HEADER_SIZE bytes)."""
    (size,) = _LENGTH.unpack(header)
    if size > MAX_FRAME:
        raise WireError(f"a frame of {size:,} bytes was announced; {MAX_FRAME:,} are the limit")
    return int(size)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def decode(data: bytes) -> dict[str, Any]:
    """The message in a frame's body. Always a mapping with string keys."""
    try:
        message = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {type(error).__name__}") from error
    if not isinstance(message, dict):
        raise WireError("a frame must hold a JSON object")
    return message
