"""Reads a picture file: each frame is a page, whose text says only what it is.

Pixels are counted before any is decoded: a small file may claim to hold billions.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO

from rlm.documents.formats.piece import Ended, Note, Page, Piece, Text, Unreadable

__all__ = [
    "MAX_RATIO",
    "check_pixels",
    "frames_of",
    "open_picture",
    "prepare",
    "read_picture",
    "upright",
]

MAX_RATIO = 200
"""The longer side of a picture or page, in its shorter sides."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF")
_MAX_PIXELS = 100_000_000
"""Pixels of a picture that is decoded."""
_MAX_FRAMES = 1_000
_ANIMATED = frozenset({"GIF", "PNG", "WEBP"})
"""Formats whose frames are a film. Of it, the first one is a page; the frames of a TIFF are pages."""


def prepare() -> None:
    """Import and try every codec: later nothing can be opened."""
    from PIL import Image

    warnings.simplefilter("ignore")
    Image.init()
    sample = Image.new("RGB", (8, 8), "white")
    for name in _FORMATS:
        file = io.BytesIO()
        sample.save(file, name)
        file.seek(0)
        with Image.open(file, formats=(name,)) as opened:
            opened.convert("RGB").resize((4, 4), Image.Resampling.LANCZOS)


def read_picture(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a page for each frame, with a line that names its size. Raises Unreadable."""
    picture = open_picture(file)
    frames = frames_of(picture)
    for number in range(frames):
        if number:
            picture.seek(number)
        yield Page()
        yield Text(f"[picture, {picture.width:,} × {picture.height:,} pixels, {picture.format}]\n")
    if frames == _MAX_FRAMES:
        yield Note(f"only its first {_MAX_FRAMES:,} pages are there: split the file")
    yield Ended()


def frames_of(picture: Any) -> int:
    """Return the number of frames that are pages."""
    return 1 if picture.format in _ANIMATED else min(getattr(picture, "n_frames", 1), _MAX_FRAMES)


def upright(picture: Any) -> Any:
    """Return the picture as it is seen: turned as its file says, on white paper, in red, green and blue."""
    from PIL import Image, ImageOps

    picture = ImageOps.exif_transpose(picture)
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    elif picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        low, high = picture.getextrema()
        spread = max(high - low, 1)
        picture = picture.convert("F").point(lambda value: value * (255 / spread) - low * 255 / spread)
    return picture.convert("RGB")


def open_picture(file: Any) -> Any:
    """Open a picture without decoding it. Raises Unreadable for other formats, and for too many pixels."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # checked below, with a reason that names the limit
    try:
        picture = Image.open(file, formats=_FORMATS)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise Unreadable(
            "a picture that cannot be opened (damaged?)", "save it again as PNG or JPEG"
        ) from error
    check_pixels(picture.width, picture.height)
    return picture


def check_pixels(width: int, height: int) -> None:
    """Raise Unreadable for a picture that is not decoded: too large, or a mere line."""
    if width < 1 or height < 1:
        raise Unreadable("a picture without pixels", "save it again as PNG or JPEG")
    if width * height > _MAX_PIXELS:
        raise Unreadable(
            f"a picture of {width:,} × {height:,} pixels (at most {_MAX_PIXELS:,} are decoded)",
            "give a smaller copy",
        )
    if max(width, height) > MAX_RATIO * min(width, height):
        raise Unreadable(f"a picture of {width:,} × {height:,} pixels, a mere line", "cut it into parts")
