"""Pieces as frames of bytes between the process that reads a format and the one that asked."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from rlm.documents.formats.piece import Ended, Heading, Note, Page, Piece, Text, Unreadable

__all__ = ["LARGEST", "FrameError", "packed", "read_piece"]

LARGEST = 4 << 20
"""Bytes of the largest frame."""

_HEAD = struct.Struct("!cI")
_TEXT = LARGEST // 4  # characters


class FrameError(Exception):
    """The bytes are no frame: whoever sent them is broken, or taken over."""


def packed(piece: Piece | Unreadable) -> bytes:
    """The frames of one piece; a long text becomes several."""
    match piece:
        case Text(text):
            parts = (text[at : at + _TEXT] for at in range(0, len(text), _TEXT))
            return b"".join(_frame(b"T", _encoded(part)) for part in parts)
        case Heading(level, title):
            return _frame(b"H", bytes([level]) + _encoded(title[:_TEXT]))
        case Page():
            return _frame(b"P", b"")
        case Note(message):
            return _frame(b"N", _encoded(message))
        case Ended(replaced, guessed):
            return _frame(b"E", json.dumps([replaced, guessed]).encode())
        case Unreadable():
            return _frame(b"U", json.dumps([str(piece), piece.remedy]).encode())


def read_piece(read: Callable[[int], bytes]) -> Piece | Unreadable:
    """The next piece; `read` gives exactly so many bytes. Raises FrameError."""
    kind, size = _HEAD.unpack(read(_HEAD.size))
    if size > LARGEST:
        raise FrameError(f"a frame of {size:,} bytes")
    data = read(size)
    try:
        match kind:
            case b"T":
                return Text(data.decode())
            case b"H":
                return Heading(min(6, max(1, data[0])), " ".join(data[1:].decode().split()))
            case b"P":
                return Page()
            case b"N":
                return Note(" ".join(data.decode().split())[:500])
            case b"E":
                replaced, guessed = json.loads(data)
                return Ended(int(replaced), None if guessed is None else str(guessed)[:40])
            case b"U":
                reason, remedy = json.loads(data)
                return Unreadable(str(reason)[:500], str(remedy)[:500])
    except (ValueError, TypeError, IndexError) as error:
        raise FrameError("a damaged frame") from error
    raise FrameError(f"a frame of kind {kind!r}")


def _frame(kind: bytes, data: bytes) -> bytes:
    return _HEAD.pack(kind, len(data)) + data


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
