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

from rlm.documents.formats import picture
from rlm.documents.formats.pdf import open_sample
from rlm.documents.formats.piece import Unreadable

__all__ = ["prepare", "render"]

_MAX_POINTS = 200 * 72
"""Points of a PDF page's side, as the format allows: 200 inches. Larger boxes are hostile."""
_MAX_SCALE = 4.0
"""Pixels of a PDF point, so that a stamp is not drawn as a poster."""
_JPEG_QUALITIES = (85, 70, 50, 30)


def prepare(kind: str) -> None:
    """Import and try what drawing a page of `kind` needs: later nothing can be opened."""
    picture.prepare()
    if kind == "pdf":
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
            drawn = _draw(kind, file, request["page"], request["side"])
            media_type, data = _encoded(drawn, request["most_bytes"])
        head: dict[str, Any] = {"media_type": media_type, "width": drawn.width, "height": drawn.height}
    except Unreadable as refused:
        head, data = {"refused": str(refused), "remedy": refused.remedy}, b""
    except MemoryError:
        head = {"refused": "too large to be drawn in the memory allowed", "remedy": "give a smaller copy"}
        data = b""
    except Exception as error:
        # The boundary: a library that fails on a malformed file must be reported, not end the process.
        reason = f"damaged ({type(error).__name__})"
        head, data = {"refused": reason, "remedy": "open it in its program and save it again"}, b""
    channel.sendall(json.dumps(head).encode() + b"\n" + data)


def _draw(kind: str, file: Any, page: int, side: int) -> Any:
    return _draw_pdf(file, page, side) if kind == "pdf" else _draw_picture(file, page, side)


def _draw_pdf(file: Any, number: int, side: int) -> Any:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file)
        page = document[number - 1]
    except (pypdfium2.PdfiumError, IndexError) as error:
        raise Unreadable(
            "a page that cannot be read", "get the PDF again, or print it to a new one"
        ) from error
    width, height = page.get_size()
    sides = (width, height)
    if not all(math.isfinite(one) and 1 <= one <= _MAX_POINTS for one in sides):
        raise Unreadable(f"a page of {width:,.0f} × {height:,.0f} points", "print it to a new PDF")
    if max(sides) > picture.MAX_RATIO * min(sides):
        raise Unreadable(
            f"a page of {width:,.0f} × {height:,.0f} points, a mere line", "print it to a new PDF"
        )
    scale = min(side / max(sides), _MAX_SCALE)
    return page.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB")


def _draw_picture(file: Any, number: int, side: int) -> Any:
    from PIL import Image

    opened: Any = picture.open_picture(file)
    if number > 1:
        try:
            opened.seek(number - 1)
        except EOFError as error:
            raise Unreadable(f"a picture without a frame {number}", "name one that it has") from error
        picture.check_pixels(opened.width, opened.height)
    opened.draft("RGB", (side, side))  # a JPEG is decoded at a fraction of its size
    opened = picture.upright(opened)
    opened.thumbnail((side, side), Image.Resampling.LANCZOS)
    return opened


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
    raise Unreadable("a picture that stays too large for a model", "give a smaller copy")


def _read_all(channel: socket.socket) -> bytes:
    data = b""
    while piece := channel.recv(4096):
        data += piece
    return data


def _give_up(*_: object) -> NoReturn:
    raise Unreadable("too complex: it takes too long to draw", "print it to a new PDF, or save it as PNG")
