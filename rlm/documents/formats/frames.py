"""Encoding of pieces as frames between the worker process and its client."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from rlm.documents.formats.piece import Data, Ended, Fault, Heading, Member, Page, Piece, Problem, Text

__all__ = ["ELSEWHERE", "LARGEST", "FrameError", "packed", "read_piece"]

LARGEST = 4 << 20
"""The bytes of the largest frame."""
ELSEWHERE = "elsewhere"
"""The fault of a document that cannot be read in a process that reads others, too."""
_HEAD = struct.Struct("!cI")
_TEXT = LARGEST // 4  # characters
_FIELDS: dict[bytes, tuple[Any, dict[str, type]]] = {
    b"H": (Heading, {"level": int, "title": str}),
    b"P": (Page, {}),
    b"M": (Member, {"name": str, "kind": str, "place": str}),
    b"N": (Problem, {"what": str, "remedy": str, "kind": str}),
    b"E": (Ended, {"replaced": int, "guessed": str}),
    b"F": (Fault, {"name": str, "detail": str, "remedy": str}),
}
"""What small frames hold, as a list in JSON."""
_KINDS = ("missing", "partial", "remark")
"""Of the problems that a reader may tell."""
_LONGEST = {"name": 4_000, "title": 1_000_000}
_LONGEST_FIELD = 500


class FrameError(Exception):
    """The bytes are not a frame: the worker is broken or compromised."""


def packed(piece: Piece | Fault) -> bytes:
    """Return the frames of one piece. Long texts and data become several."""
    if isinstance(piece, Data):
        parts = [piece.data[at : at + LARGEST] for at in range(0, len(piece.data), LARGEST)]
        return b"".join(_HEAD.pack(b"D", len(part)) + part for part in parts)
    if isinstance(piece, Text):
        texts = (piece.text[at : at + _TEXT] for at in range(0, len(piece.text), _TEXT))
        parts = [text.encode("utf-8", "replace") for text in texts]
        return b"".join(_HEAD.pack(b"T", len(part)) + part for part in parts)
    tag, fields = next((tag, fields) for tag, (made, fields) in _FIELDS.items() if isinstance(piece, made))
    values = [getattr(piece, name) for name in fields]
    data = json.dumps([value[:_TEXT] if isinstance(value, str) else value for value in values]).encode()
    return _HEAD.pack(tag, len(data)) + data


def read_piece(read: Callable[[int], bytes]) -> Piece | Fault:
    """Return the next piece. `read` returns exactly the given number of bytes. Raises FrameError."""
    tag, size = _HEAD.unpack(read(_HEAD.size))
    if size > LARGEST:
        raise FrameError(f"a frame of {size:,} bytes")
    data = read(size)
    try:
        if tag == b"D":
            return Data(data)
        if tag == b"T":
            return Text(data.decode())
        made, fields = _FIELDS[tag]
        piece: Piece | Fault = made(
            *(_checked(*pair) for pair in zip(fields.items(), json.loads(data), strict=True))
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FrameError(f"a damaged frame of kind {tag!r}") from error
    if isinstance(piece, Problem) and piece.kind not in _KINDS:
        raise FrameError(f"a problem of kind {piece.kind!r}")
    return piece


def _checked(field: tuple[str, Any], value: Any) -> Any:
    """Return a field of a piece: a name as it is, other text on one line, a level from 1 to 6."""
    name, kind = field
    if type(value) is not kind:
        raise TypeError(name)
    if kind is str:
        limit = _LONGEST.get(name, _LONGEST_FIELD)
        # Characters that UTF-8 cannot hold would end the loading.
        text = value.encode("utf-8", "replace").decode()
        return text[:limit] if name == "name" else " ".join(text.split())[:limit]
    return min(6, max(1, value)) if name == "level" else value
