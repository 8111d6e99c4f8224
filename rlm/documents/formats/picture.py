"""Reads a picture file: each frame is a page, whose text says only what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.formats.piece import Ended, Note, Page, Piece, Text, Unreadable
from rlm.documents.pictures import worker

__all__ = ["prepare", "read_picture"]

_MAX_FRAMES = 1_000
_ANIMATED = frozenset({"GIF", "PNG", "WEBP"})
"""Formats whose frames are a film. Of it, the first one is a page; the frames of a TIFF are pages."""


def prepare() -> None:
    """Import and try what opening a picture needs."""
    worker.prepare("image")


def read_picture(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a page for each frame, with a line that names its size. Raises Unreadable."""
    try:
        picture = worker.open_picture(file)
    except worker.Refused as refused:
        raise Unreadable(str(refused), refused.remedy) from refused
    frames = 1 if picture.format in _ANIMATED else min(getattr(picture, "n_frames", 1), _MAX_FRAMES)
    for number in range(frames):
        if number:
            picture.seek(number)
        yield Page()
        yield Text(f"[picture, {picture.width:,} × {picture.height:,} pixels, {picture.format}]\n")
    if frames == _MAX_FRAMES:
        yield Note(f"only its first {_MAX_FRAMES:,} pages are there: split the file")
    yield Ended()
