"""Make a PDF by hand, with no more than the standard requires; and scans and pictures."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

__all__ = ["PAGES", "pdf_by_hand", "picture_of", "png_that_claims", "save_picture", "scanned_pdf"]

PAGES = [
    "The first page names Ada.\nTwo lines of it.",
    "The second page names Grace.",
    "The third names Edsger.",
]


def pdf_by_hand(path: Path, pages: list[str]) -> None:
    """Return a PDF as simple as a small program writes it: no compression, no embedded fonts."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        shown = " T* ".join(f"({line}) Tj" for line in text.splitlines())
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode()
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    out += (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (
            len(objects) + 1,
            table,
            len(objects) + 1,
            len(out),
        )
    )
    path.write_bytes(out)


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
