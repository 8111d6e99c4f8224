"""Reads PDF pages with PDFium."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import BinaryIO

import pypdfium2

from rlm.documents.formats.piece import (
    LOOK_REMEDY,
    RECOGNIZE_REMEDY,
    Ended,
    Note,
    Page,
    Piece,
    Text,
    Unreadable,
)
from rlm.documents.formats.tables.page_rows import page_text

__all__ = ["open_pdf", "open_sample", "prepare", "read_pages", "read_pdf", "text_of"]

_LINE_END = re.compile(r"\r\n?")
# PDFium replaces a hyphen at a line's end with this character.
_LINE_END_HYPHEN = re.compile("[\ufffe\x02]\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


_SAMPLE = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R"
    b"/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>endobj\n"
    b"4 0 obj<</Length 27>>stream\nBT /F 9 Tf 9 9 Td (a) Tj ET\nendstream endobj\n"
    b"trailer<</Root 1 0 R>>\n%%EOF"
)


def prepare() -> None:
    """Load PDFium by reading a small document: later nothing can be opened."""
    list(read_pdf(io.BytesIO(_SAMPLE), len(_SAMPLE)))


def open_sample() -> pypdfium2.PdfDocument:
    """Return a small document, to try what will be needed: PDFium's callbacks cannot be made later."""
    return pypdfium2.PdfDocument(io.BytesIO(_SAMPLE))


def read_pdf(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the text of each page, the rows of tables on one line each.

    A note counts the pages that cannot be
    read or hold no text.

    Raises Unreadable for a PDF that cannot be opened or has no text at all.
    """
    return _read(file, are_seen=False)


def read_pages(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the text of each page, for a reader that sees pages: one without text is a page like others."""
    return _read(file, are_seen=True)


def open_pdf(file: BinaryIO) -> pypdfium2.PdfDocument:
    """Open a PDF. Raises Unreadable."""
    try:
        return pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        # PDFium reports the reason only in this message.
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise Unreadable(
                "a PDF protected by a password", "save a copy without one (qpdf --decrypt does it)"
            ) from error
        raise Unreadable(
            "a PDF that cannot be opened (damaged or truncated)", "get it again, or print it to a new PDF"
        ) from error


def _read(file: BinaryIO, *, are_seen: bool) -> Iterator[Piece]:
    document = open_pdf(file)
    count, empty, broken = len(document), 0, 0
    held_pages = 0
    for number in range(count):
        try:
            text = text_of(document, number)
        except pypdfium2.PdfiumError:
            broken += 1
            text = ""
        empty += not text
        if empty == number + 1 and not are_seen:
            # Hold pages back until one has text, because a scanned document must be refused before anything
            # is written.
            held_pages += 1
            continue
        for _ in range(held_pages):
            yield Page()
            yield Text("\n")
        held_pages = 0
        yield Page()
        yield Text(f"{text}\n\n" if text else "\n")
    if broken == count or (empty == count and broken and not are_seen):
        raise Unreadable("a PDF without any readable page", "get it again, or print it to a new PDF")
    if empty == count and not are_seen:
        raise Unreadable(
            "a PDF without text (scanned pages?)",
            f"{RECOGNIZE_REMEDY} (or run ocrmypdf over it), or {LOOK_REMEDY}",
        )
    if broken:
        yield Note(f"{broken:,} of {count:,} pages cannot be read: get it again, or print it to a new PDF")
    if empty > broken and not are_seen:
        yield Note(
            f"{empty - broken:,} of {count:,} pages hold no text (scanned?): if they matter, "
            f"{RECOGNIZE_REMEDY} (or run ocrmypdf over it), or {LOOK_REMEDY}"
        )
    yield Ended()


def text_of(document: object, number: int) -> str:
    """Return the text of a page, counted from 0. Raises PdfiumError."""
    page = document[number]  # type: ignore[index]
    try:
        text_page = page.get_textpage()
        try:
            text = page_text(text_page)
        finally:
            text_page.close()
    finally:
        page.close()
    text = _LINE_END_HYPHEN.sub("", _LINE_END.sub("\n", text))
    return "\n".join(line.rstrip() for line in _CONTROLS.sub("", text).split("\n")).strip("\n")
