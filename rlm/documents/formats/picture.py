"""Reads picture files, and draws pages as pictures that models read.

Pillow and PDFium, written in C, process untrusted bytes here. The process can open nothing, so `prepare`
imports and tries every codec before. Pixels are counted before any is decoded: a small file may claim to hold
billions.
"""

from __future__ import annotations

import io
import json
import math
import os
import signal
import socket
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NoReturn

import pypdfium2

from rlm.documents.formats.pdf import open_sample
from rlm.documents.formats.piece import Ended, Fault, Page, Piece, Problem, Text

__all__ = ["draw_page", "frame_of", "frames_of", "open_picture", "prepare", "read_picture", "render"]

_MAX_RATIO = 200
"""The longer side of a picture or page, in its shorter sides."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF")
_MAX_PIXELS = 100_000_000
"""Pixels of a picture that is decoded."""
_MAX_FRAMES = 1_000
_ANIMATED = frozenset({"GIF", "PNG", "WEBP"})
"""Formats whose frames are a film. Of it, the first one is a page; the frames of a TIFF are pages."""
_MAX_POINTS = 200 * 72
"""Points of a PDF page's side, as the format allows: 200 inches. Larger boxes are hostile."""
_MAX_SCALE = 4.0
"""Pixels of a PDF point, so that a stamp is not drawn as a poster."""
_JPEG_QUALITIES = (85, 70, 50, 30)


def prepare(kind: str = "") -> None:
    """Import and try every codec, and for pages of a PDF PDFium: later nothing can be opened."""
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
    if kind == "pdf":
        open_sample()[0].render(scale=1).to_pil()


def read_picture(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield a page for each frame, with a line that names its size. Raises Fault."""
    picture = open_picture(file)
    frames = frames_of(picture)
    for number in range(frames):
        if number:
            picture.seek(number)
        yield Page()
        yield Text(f"[picture, {picture.width:,} × {picture.height:,} pixels, {picture.format}]\n")
    if frames == _MAX_FRAMES:
        yield Problem(f"only its first {_MAX_FRAMES:,} pages are there", "split the file")
    yield Ended()


def frames_of(picture: Any) -> int:
    """Return the number of frames that are pages."""
    return 1 if picture.format in _ANIMATED else min(getattr(picture, "n_frames", 1), _MAX_FRAMES)


def _upright(picture: Any) -> Any:
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
    """Open a picture without decoding it. Raises Fault for too many pixels, and Pillow's errors."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # checked below, with a reason that names the limit
    picture = Image.open(file, formats=_FORMATS)
    _check_pixels(picture.width, picture.height)
    return picture


def _check_pixels(width: int, height: int) -> None:
    """Raise Fault for a picture that is not decoded: without pixels, too large, or a mere line."""
    if width * height < 1 or width * height > _MAX_PIXELS:
        what = f"{width:,} × {height:,} pixels, and at most {_MAX_PIXELS:,} are decoded"
        raise Fault("large", what, "give a smaller copy")
    if max(width, height) > _MAX_RATIO * min(width, height):
        raise Fault("large", f"{width:,} × {height:,} pixels, a mere line", "cut it into parts")


def render(kind: str, channel: socket.socket, files: Sequence[int]) -> None:
    """Draw a page of the document that is open as the first of `files`.

    Reads a JSON request: page (from 1), side (the most pixels of the longer side), most_bytes. Sends a line
    of JSON, with media_type, width and height, and the bytes; or a line with refused and remedy.
    """
    signal.signal(signal.SIGXCPU, _give_up)
    warnings.simplefilter("ignore")
    request = json.loads(_read_all(channel))
    try:
        with os.fdopen(files[0], "rb") as file:
            drawn = _draw(kind, file, request["page"], request["side"])
            media_type, data = _encoded(drawn, request["most_bytes"])
        head: dict[str, Any] = {"media_type": media_type, "width": drawn.width, "height": drawn.height}
    except Exception as error:
        # The boundary: a library that fails on a malformed file must be reported, not end the process.
        if isinstance(error, MemoryError):
            error = Fault("large", "for the memory allowed", "give a smaller copy")
        elif not isinstance(error, Fault):
            error = Fault("damaged", type(error).__name__)
        problem = error.of("a page" if kind == "pdf" else "a picture").problem
        head, data = {"refused": problem.what, "remedy": problem.remedy}, b""
    channel.sendall(json.dumps(head).encode() + b"\n" + data)


def _draw(kind: str, file: Any, page: int, side: int) -> Any:
    """Return a page, at most `side` pixels long."""
    if kind != "pdf":
        return frame_of(open_picture(file), page, side)
    return draw_page(pypdfium2.PdfDocument(file)[page - 1], side, _MAX_SCALE).to_pil().convert("RGB")


def draw_page(page: Any, side: int, most_scale: float) -> Any:
    """Return the bitmap of a PDF page, at most `side` pixels long. Raises Fault, and PDFium's errors."""
    width, height = page.get_size()
    sides = (width, height)
    if not all(math.isfinite(one) and 1 <= one <= _MAX_POINTS for one in sides):
        raise Fault("large", f"{width:,.0f} × {height:,.0f} points", "print it to a new PDF")
    if max(sides) > _MAX_RATIO * min(sides):
        what = f"{width:,.0f} × {height:,.0f} points, a mere line"
        raise Fault("large", what, "print it to a new PDF")
    return page.render(scale=min(side / max(sides), most_scale), rev_byteorder=True)


def frame_of(picture: Any, number: int, side: int) -> Any:
    """Return a frame (from 1) as it is seen, at most `side` pixels long. Raises what Pillow does."""
    from PIL import Image

    if number > 1:
        picture.seek(number - 1)
        _check_pixels(picture.width, picture.height)
    picture.draft("RGB", (side, side))  # a JPEG is decoded at a fraction of its size
    seen = _upright(picture)
    seen.thumbnail((side, side), Image.Resampling.LANCZOS)
    return seen


def _encoded(drawn: Any, most_bytes: int) -> tuple[str, bytes]:
    """Return media type and bytes: PNG keeps the edges of letters; JPEG is for what is too large for it."""
    file = io.BytesIO()
    drawn.save(file, "PNG", optimize=False)
    if file.tell() <= most_bytes:
        return "image/png", file.getvalue()
    for quality in _JPEG_QUALITIES:
        file = io.BytesIO()
        drawn.save(file, "JPEG", quality=quality)
        if file.tell() <= most_bytes:
            return "image/jpeg", file.getvalue()
    raise Fault("large", "for a model", "give a smaller copy")


def _read_all(channel: socket.socket) -> bytes:
    data = b""
    while piece := channel.recv(4096):
        data += piece
    return data


def _give_up(*_: object) -> NoReturn:
    raise Fault("slow", "to draw", "print it to a new PDF, or save it as PNG")
