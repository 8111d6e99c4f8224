"""Reads DOCX with mammoth: headings, lists, tables and footnotes. What it drops is read by `word_parts`."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.parsers.expat import ExpatError

import mammoth

from rlm.documents.formats import html
from rlm.documents.formats.archive import Archive, refuse_compound
from rlm.documents.formats.html import pieces_of_markup
from rlm.documents.formats.office.word_parts import main_part, pieces_beside
from rlm.documents.formats.piece import Piece, Unreadable

__all__ = ["prepare", "read_docx"]

_STYLE_MAP = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


_SAMPLE = (
    "<w:document xmlns:w='http://schemas.openxmlformats.org/wordprocessingml/2006/main'><w:body><w:p><w:r>"
    "<w:t>a</w:t></w:r></w:p></w:body></w:document>"
)


def prepare() -> None:
    """Import what reading needs, by reading a small document: later nothing can be opened."""
    html.prepare()
    sample = io.BytesIO()
    with zipfile.ZipFile(sample, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", _SAMPLE)
    list(read_docx(sample, sample.seek(0, 2)))


def read_docx(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a Word document. Raises Unreadable."""
    refuse_compound(file, "a DOCX", ".docx")
    archive = Archive(file, size, "a DOCX")
    for name in archive.names():
        if name.endswith((".xml", ".rels")):
            archive.xml(name)
    if main_part(archive) not in archive:
        raise Unreadable(
            "a zip archive but not a DOCX",
            "name a Word document, or unpack the archive and name its text files",
        )
    file.seek(0)
    try:
        result = mammoth.convert_to_html(
            io.BytesIO(file.read()),  # without a file name, mammoth opens no linked files
            convert_image=mammoth.images.img_element(_no_source),
            style_map=_STYLE_MAP,
        )
        shown = list(pieces_of_markup(result.value, titled=False))
        beside = list(pieces_beside(archive, shown))
    except RecursionError as error:
        raise Unreadable("a DOCX nested too deeply", "open it in its program and save it again") from error
    except ExpatError as error:
        raise Unreadable("a DOCX that is damaged", "open it in its program and save it again") from error
    yield from shown
    yield from beside


def _no_source(image: Any) -> dict[str, str]:
    """Return the attributes of a picture besides its description, which is kept."""
    return {}
