"""Reads PDF pages with PDFium."""

from __future__ import annotations

import ctypes
import io
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pypdfium2
from pypdfium2 import raw

from rlm.documents.formats.flow import link_target
from rlm.documents.formats.page_rows import page_text
from rlm.documents.formats.piece import (
    LOOK_REMEDY,
    RECOGNIZE_REMEDY,
    Ended,
    Fault,
    Page,
    Piece,
    Problem,
    Text,
)

__all__ = ["broken_pages", "open_pdf", "open_sample", "prepare", "read_pages", "read_pdf", "text_of"]

_LINE_END = re.compile(r"\r\n?")
# PDFium replaces a hyphen at a line's end with this character.
_LINE_END_HYPHEN = re.compile("[\ufffe\x02]\n?")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_MOST_ANNOTATIONS = 10_000
"""Fields and comments of a page."""
_LONGEST_VALUE = 1 << 20
_CHECKED = frozenset({raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON})
_UNTYPED = frozenset({raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE})
"""Fields into which nobody writes."""
_NO_COMMENTS = frozenset({raw.FPDF_ANNOT_POPUP, raw.FPDF_ANNOT_WIDGET})


_PRINT = "get it again, or print it to a new PDF"
_RECOGNIZE = f"{RECOGNIZE_REMEDY} (or run ocrmypdf over it), or {LOOK_REMEDY}"
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
    """Yield the text of each page, the rows of tables on one line each, and at its end the values of form
    fields and the comments. Problems count the pages that cannot be read or hold no text.

    Raises Fault for a PDF that is locked or has no text at all.
    """
    return _read(file, are_seen=False)


def read_pages(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the text of each page, for a reader that sees pages: one without text is a page like others."""
    return _read(file, are_seen=True)


def open_pdf(file: BinaryIO) -> pypdfium2.PdfDocument:
    """Open a PDF. Raises Fault, and PDFium's errors."""
    try:
        document = pypdfium2.PdfDocument(file)
        document.init_forms()
        return document
    except pypdfium2.PdfiumError as error:
        # PDFium reports the reason only in this message.
        if "password" in str(error).lower() or "security" in str(error).lower():
            raise Fault("locked", "", "save a copy without one (qpdf --decrypt does it)") from error
        raise Fault("damaged", "it cannot be opened", _PRINT) from error


def _read(file: BinaryIO, *, are_seen: bool) -> Iterator[Piece]:
    document = open_pdf(file)
    count, empty, broken = len(document), 0, 0
    held_pages = 0
    for number in range(count):
        try:
            text, added = text_of(document, number)
        except pypdfium2.PdfiumError:
            broken += 1
            text = added = ""
        empty += not text
        text = "\n\n".join(filter(None, (text, added)))
        if held_pages == number and not text and not are_seen:
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
    is_bare = held_pages == count
    if broken == count or (is_bare and broken):
        raise Fault("damaged", "no page can be read", _PRINT)
    if is_bare:
        raise Fault("bare", "scanned pages?", _RECOGNIZE)
    yield from broken_pages(broken, count)
    if empty > broken and not are_seen:
        what = f"{empty - broken:,} of {count:,} pages hold no text (scanned?)"
        yield Problem(what, f"if they matter, {_RECOGNIZE}")
    yield Ended()


def broken_pages(broken: int, count: int) -> Iterator[Problem]:
    """Yield the problem of pages that cannot be read."""
    if broken:
        yield Problem(f"{broken:,} of {count:,} pages cannot be read", _PRINT)


def text_of(document: object, number: int) -> tuple[str, str]:
    """Return the text of a page, counted from 0, and that of its form fields and comments. Raises
    PdfiumError."""
    page = document[number]  # type: ignore[index]
    try:
        text_page = page.get_textpage()
        try:
            text = page_text(text_page)
        finally:
            text_page.close()
        added = "\n".join(_annotations(document, page, text))
    finally:
        page.close()
    text = _LINE_END_HYPHEN.sub("", _LINE_END.sub("\n", text))
    return "\n".join(line.rstrip() for line in _CONTROLS.sub("", text).split("\n")).strip("\n"), added


def _annotations(document: Any, page: Any, text: str) -> list[str]:
    """Return the filled fields and the comments of a page, and the links that its text does not show: a line
    for each, below one that names them."""
    fields, comments, links = [], [], []
    forms = document.formenv
    for number in range(min(raw.FPDFPage_GetAnnotCount(page), _MOST_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page, number)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            if kind == raw.FPDF_ANNOT_WIDGET:
                fields.append(_lone_field(annotation) if forms is None else _field(forms.raw, annotation))
            elif kind == raw.FPDF_ANNOT_LINK:
                links.append(link_target(_address(document, annotation), text).strip(" ()"))
            elif kind not in _NO_COMMENTS:
                words = _string(raw.FPDFAnnot_GetStringValue, annotation, b"Contents")
                author = _string(raw.FPDFAnnot_GetStringValue, annotation, b"T")
                comments.append(f"{author or 'Comment'}: {words}" if words else "")
        finally:
            raw.FPDFPage_CloseAnnot(annotation)
    lines = []
    for title, found in (("Form fields:", fields), ("Comments:", comments), ("Links:", links)):
        if kept := list(filter(None, dict.fromkeys(found) if found is links else found)):
            lines += [title, *kept]
    return lines


def _address(document: Any, link: Any) -> str:
    """Return the address of a link; "" for one within the document."""
    action = raw.FPDFLink_GetAction(raw.FPDFAnnot_GetLink(link))
    size = raw.FPDFAction_GetURIPath(document, action, None, 0) if action else 0
    if not 1 < size <= _LONGEST_VALUE:
        return ""
    buffer = ctypes.create_string_buffer(size)
    raw.FPDFAction_GetURIPath(document, action, buffer, size)
    return buffer.value.decode("utf-8", "replace")


def _field(forms: Any, annotation: Any) -> str:
    """Return `name: value` of a field, "" for an empty one."""
    kind = raw.FPDFAnnot_GetFormFieldType(forms, annotation)
    if kind in _UNTYPED or (kind in _CHECKED and not raw.FPDFAnnot_IsChecked(forms, annotation)):
        return ""
    value = _string(raw.FPDFAnnot_GetFormFieldValue, forms, annotation)
    name = _string(raw.FPDFAnnot_GetFormFieldAlternateName, forms, annotation) or _string(
        raw.FPDFAnnot_GetFormFieldName, forms, annotation
    )
    return f"{name}: {value}" if value else ""


def _lone_field(annotation: Any) -> str:
    """Return `name: value` of a field whose form is missing: a page that was cut out of its document."""
    kind, name, value = (
        _string(raw.FPDFAnnot_GetStringValue, annotation, key) for key in (b"FT", b"T", b"V")
    )
    return f"{name}: {value}" if value and kind != "Btn" else ""


def _string(get: Callable[..., int], *of: Any) -> str:
    """Return a string of PDFium on one line: its length is asked for first."""
    size = get(*of, None, 0)
    if not 2 < size <= _LONGEST_VALUE:
        return ""
    buffer = ctypes.create_string_buffer(size)
    get(*of, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    text = buffer.raw[: size - 2].decode("utf-16-le", "replace")
    return " ".join(_CONTROLS.sub(" ", text).split())
