"""Draws one page in a confined process, and sends it as a picture that models read.

Pillow and PDFium, written in C, process untrusted bytes here. The process can open nothing, so `prepare`
imports and tries every codec before. Pixels are checked before any is decoded: a small file may claim to hold
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
from collections.abc import Sequence
from typing import Any, NoReturn

__all__ = ["PICTURE_FORMATS", "Refused", "open_picture", "prepare", "render"]

PICTURE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "TIFF")
MAX_PIXELS = 100_000_000
"""Pixels of a picture that is decoded."""
_MAX_POINTS = 200 * 72
"""Points of a PDF page's side, as the format allows: 200 inches. Larger boxes are hostile."""
_MAX_SCALE = 4.0
"""Pixels of a PDF point, so that a stamp is not drawn as a poster."""
_MAX_RATIO = 200
_JPEG_QUALITIES = (85, 70, 50, 30)


class Refused(Exception):
    """A page that is not drawn. The message follows "is"; `remedy` is for the user."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


def prepare(kind: str) -> None:
    """Import and try what drawing a page of `kind` needs: later nothing can be opened."""
    from PIL import Image

    warnings.simplefilter("ignore")
    Image.init()
    sample = Image.new("RGB", (8, 8), "white")
    for name in PICTURE_FORMATS:
        file = io.BytesIO()
        sample.save(file, name)
        file.seek(0)
        with Image.open(file, formats=(name,)) as opened:
            opened.convert("RGB").resize((4, 4), Image.Resampling.LANCZOS)
    if kind == "pdf":
        from rlm.documents.formats.pdf import open_sample

        page = open_sample()[0]
        page.render(scale=1).to_pil()


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
            picture = _draw(kind, file, request["page"], request["side"])
            media_type, data = _encoded(picture, request["most_bytes"])
        head: dict[str, Any] = {"media_type": media_type, "width": picture.width, "height": picture.height}
    except Refused as refused:
        head, data = {"refused": str(refused), "remedy": refused.remedy}, b""
    except MemoryError:
        head = {"refused": "too large to be drawn in the memory allowed", "remedy": "give a smaller copy"}
        data = b""
    except Exception as error:
        # The boundary: a library that fails on a malformed file must be reported, not end the process.
        reason = f"damaged ({type(error).__name__})"
        head, data = {"refused": reason, "remedy": "open it in its program and save it again"}, b""
    channel.sendall(json.dumps(head).encode() + b"\n" + data)


def open_picture(file: Any) -> Any:
    """Open a picture without decoding it. Raises Refused for other formats, and for too many pixels."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # checked below, with a reason that names the limit
    try:
        picture = Image.open(file, formats=PICTURE_FORMATS)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise Refused("a picture that cannot be opened (damaged?)", "save it again as PNG or JPEG") from error
    _check_pixels(picture.width, picture.height)
    return picture


def _check_pixels(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise Refused("a picture without pixels", "save it again as PNG or JPEG")
    if width * height > MAX_PIXELS:
        raise Refused(
            f"a picture of {width:,} × {height:,} pixels (at most {MAX_PIXELS:,} are decoded)",
            "give a smaller copy",
        )
    if max(width, height) > _MAX_RATIO * min(width, height):
        raise Refused(f"a picture of {width:,} × {height:,} pixels, a mere line", "cut it into parts")


def _draw(kind: str, file: Any, page: int, side: int) -> Any:
    return _draw_pdf(file, page, side) if kind == "pdf" else _draw_picture(file, page, side)


def _draw_pdf(file: Any, number: int, side: int) -> Any:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file)
        page = document[number - 1]
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise Refused("a page that cannot be read", "get the PDF again, or print it to a new one") from error
    width, height = page.get_size()
    sides = (width, height)
    if not all(math.isfinite(one) and 1 <= one <= _MAX_POINTS for one in sides):
        raise Refused(f"a page of {width:,.0f} × {height:,.0f} points", "print it to a new PDF")
    if max(sides) > _MAX_RATIO * min(sides):
        raise Refused(f"a page of {width:,.0f} × {height:,.0f} points, a mere line", "print it to a new PDF")
    scale = min(side / max(sides), _MAX_SCALE)
    return page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")


def _draw_picture(file: Any, number: int, side: int) -> Any:
    from PIL import Image, ImageOps

    picture = open_picture(file)
    if number > 1:
        try:
            picture.seek(number - 1)
        except EOFError as error:
            raise Refused(f"a picture without a frame {number}", "name one that it has") from error
        _check_pixels(picture.width, picture.height)
    picture.draft("RGB", (side, side))  # a JPEG is decoded at a fraction of its size
    picture = ImageOps.exif_transpose(picture)
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        paper = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(paper, picture)
    elif picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        low, high = picture.getextrema()
        spread = max(high - low, 1)
        picture = picture.convert("F").point(lambda value: value * (255 / spread) - low * 255 / spread)
    picture = picture.convert("RGB")
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    return picture


def _encoded(picture: Any, most_bytes: int) -> tuple[str, bytes]:
    """Return media type and bytes: PNG keeps the edges of letters; JPEG is for what is too large for it."""
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=False)
    if file.tell() <= most_bytes:
        return "image/png", file.getvalue()
    for quality in _JPEG_QUALITIES:
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality)
        if file.tell() <= most_bytes:
            return "image/jpeg", file.getvalue()
    raise Refused("a picture that stays too large for a model", "give a smaller copy")


def _read_all(channel: socket.socket) -> bytes:
    data = b""
    while piece := channel.recv(4096):
        data += piece
    return data


def _give_up(*_: object) -> NoReturn:
    raise Refused("too complex: it takes too long to draw", "print it to a new PDF, or save it as PNG")
