"""Encoding of pieces as frames between the worker process and its client."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from rlm.documents.formats.piece import (
    Data,
    Ended,
    Heading,
    Member,
    Note,
    Page,
    Piece,
    Text,
    Unread,
    Unreadable,
)

__all__ = ["LARGEST", "FrameError", "packed", "read_piece"]

LARGEST = 4 << 20
"""The bytes of the largest frame."""

_HEAD = struct.Struct("!cI")
_TEXT = LARGEST // 4  # characters
_LONGEST_NAME = 4_000  # characters


class FrameError(Exception):
    """The bytes are not a frame: the worker is broken or compromised."""


def packed(piece: Piece | Unreadable) -> bytes:
    """Return the frames of one piece. Long texts and data become several."""
    match piece:
        case Data(data):
            if len(data) <= LARGEST:
                return _frame(b"D", data)
            return b"".join(_frame(b"D", data[at : at + LARGEST]) for at in range(0, len(data), LARGEST))
        case Text(text):
            parts = (text[at : at + _TEXT] for at in range(0, len(text), _TEXT))
            return b"".join(_frame(b"T", _encode(part)) for part in parts)
        case Heading(level, title):
            return _frame(b"H", bytes([min(6, max(1, level))]) + _encode(title[:_TEXT]))
        case Page():
            return _frame(b"P", b"")
        case Note(message, is_remark):
            return _frame(b"R" if is_remark else b"N", _encode(message))
        case Member(name, kind):
            return _frame(b"M", json.dumps([name[:_LONGEST_NAME], kind]).encode())
        case Unread(reason, remedy):
            return _frame(b"S", json.dumps([reason, remedy]).encode())
        case Ended(replaced, guessed):
            return _frame(b"E", json.dumps([replaced, guessed]).encode())
        case Unreadable():
            return _frame(b"U", json.dumps([str(piece), piece.remedy]).encode())


def read_piece(read: Callable[[int], bytes]) -> Piece | Unreadable:
    """Return the next piece. `read` returns exactly the given number of bytes. Raises FrameError."""
    kind, size = _HEAD.unpack(read(_HEAD.size))
    if size > LARGEST:
        raise FrameError(f"a frame of {size:,} bytes")
    data = read(size)
    try:
        match kind:
            case b"D":
                return Data(data)
            case b"T":
                return Text(data.decode())
            case b"H":
                return Heading(min(6, max(1, data[0])), " ".join(data[1:].decode().split()))
            case b"P":
                return Page()
            case b"N" | b"R":
                return Note(" ".join(data.decode().split())[:500], kind == b"R")
            case b"M":
                name, member_kind = json.loads(data)
                return Member(str(name)[:_LONGEST_NAME], str(member_kind)[:40])
            case b"S":
                reason, remedy = json.loads(data)
                return Unread(str(reason)[:500], str(remedy)[:500])
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


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
