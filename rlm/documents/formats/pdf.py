"""Reading of PDF pages with PDFium."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.formats.piece import Ended, Note, Page, Piece, Text, Unreadable

__all__ = ["read_pdf"]

_LINE_END = re.compile(r"\r\n?")
# PDFium's mark for a hyphen at the end of a line.
_BROKEN_WORD = re.compile("[\ufffe\x02]\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def read_pdf(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the text of each page. A note counts the pages that cannot be read or hold no text.

    Raises Unreadable for a PDF that cannot be opened or has no text at all.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(file)
    except pypdfium2.PdfiumError as error:
        # PDFium reports the reason only in this message.
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise Unreadable(
                "a PDF protected by a password", "save a copy without one (qpdf --decrypt does it)"
            ) from error
        raise Unreadable(
            "a PDF that can't be opened (damaged or truncated)", "get it again, or print it to a new PDF"
        ) from error
    count, empty, broken = len(document), 0, 0
    waiting = 0
    for number in range(count):
        try:
            text = _text_of(document, number)
        except pypdfium2.PdfiumError:
            broken += 1
            text = ""
        empty += not text
        if empty == number + 1:
            # Hold pages back until there is text: a scanned document must be refused before anything is
            # written.
            waiting += 1
            continue
        for _ in range(waiting):
            yield Page()
            yield Text("\n")
        waiting = 0
        yield Page()
        yield Text(f"{text}\n\n" if text else "\n")
    if empty == count:
        if broken:
            raise Unreadable(
                "a PDF none of whose pages can be read", "get it again, or print it to a new PDF"
            )
        raise Unreadable(
            "a PDF without text (scanned pages?)", "run text recognition over it (ocrmypdf does)"
        )
    if broken:
        yield Note(f"{broken:,} of {count:,} pages can't be read: get it again, or print it to a new PDF")
    if empty > broken:
        yield Note(
            f"{empty - broken:,} of {count:,} pages hold no text (scanned?): run text recognition over it "
            "(ocrmypdf does) if they matter"
        )
    yield Ended()


def _text_of(document: object, number: int) -> str:
    page = document[number]  # type: ignore[index]
    try:
        sheet = page.get_textpage()
        try:
            text = sheet.get_text_bounded()
        finally:
            sheet.close()
    finally:
        page.close()
    text = _BROKEN_WORD.sub("", _LINE_END.sub("\n", text))
    return "\n".join(line.rstrip() for line in _CONTROLS.sub("", text).split("\n")).strip("\n")
