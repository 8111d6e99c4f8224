"""Make pictures and scanned PDFs: text that only eyes can read."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

__all__ = ["picture_of", "png_that_claims", "save_picture", "scanned_pdf"]


def picture_of(*lines: str, size: tuple[int, int] = (1240, 1754)) -> Any:
    """Return a picture of typed lines, black on white."""
    from PIL import Image, ImageDraw

    picture = Image.new("L", size, 255)
    drawing = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        drawing.text((80, 80 + 60 * number), line, fill=0, font_size=36)
    return picture


def save_picture(path: Path, *lines: str) -> Path:
    picture_of(*lines).save(path)
    return path


def scanned_pdf(path: Path, *pages: list[str], text: dict[int, str] | None = None) -> Path:
    """Write a PDF whose pages are pictures of lines. `text` adds a text layer to the page of a number."""
    from reportlab.lib.utils import ImageReader
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(595, 842), invariant=1)
    for number, lines in enumerate(pages, 1):
        canvas.drawImage(ImageReader(picture_of(*lines)), 0, 0, 595, 842)
        if text and number in text:
            canvas.drawString(40, 100, text[number])
        canvas.showPage()
    canvas.save()
    return path


def png_that_claims(width: int, height: int) -> bytes:
    """Return a small PNG whose header claims that size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    rows = zlib.compress(b"\0" * 5_000_000, 9)
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
