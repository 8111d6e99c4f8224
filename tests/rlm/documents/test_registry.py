"""Test that a document format is one row of the table and one reader module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from document_tree import text_of

from rlm.documents import kind, load
from rlm.documents.formats import registry
from rlm.documents.formats.registry import FORMATS, DocumentFormat
from rlm.documents.kind import kind_of
from rlm.errors import DocumentError
from rlm.sandbox.in_kernel.handle import Handle

READER = """
import os
from rlm.documents.formats.piece import Ended, Heading, Text

def read_notes(file, size):
    text = file.read().removeprefix(b"NOTES\\0").decode()
    if "crash" in text:
        os._exit(1)
    yield Heading(1, "Notes")
    yield Text(text)
    yield Ended()
"""
NOTES = DocumentFormat(
    "notes",
    frozenset({".notes"}),
    article="a notebook",
    magic=re.compile(rb"NOTES\0"),
    reader="notes_reader:read_notes",
    is_binary=True,
)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for notebooks, a format that this test adds: its reader, and its row."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "notes_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.setattr(registry, "FORMATS", (*FORMATS, NOTES))
    monkeypatch.setitem(registry._BY_KIND, "notes", NOTES)
    monkeypatch.setitem(kind._BY_SUFFIX, ".notes", NOTES)
    monkeypatch.setattr(kind, "_MAGIC", {flag: kind._any_magic(is_binary=flag) for flag in (False, True)})
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def test_a_row_and_a_reader_add_a_format(notes: Path, tmp_path: Path) -> None:
    (notes / "a.notes").write_bytes(b"NOTES\0first\n# not a heading\n")
    (notes / "b.txt").write_bytes(b"NOTES\0second\n")
    loaded = load([notes], tmp_path / "c")
    assert [(one.name, one.kind) for one in loaded.context.documents] == [
        ("a.notes", "notes"),
        ("b.txt", "notes"),
    ]
    assert text_of(loaded) == "# Notes\nfirst\n# not a heading\n# Notes\nsecond\n"
    with loaded.context.open() as body:
        assert body.heading_path(10) == ("Notes",)
        # Only the headings of the index are borders of chunks.
        text = body.text(0, body.chars)
        starts = {chunk.start for chunk in Handle(body).chunk(40, by="headings")}
        assert starts == {0, text.index("# Notes\nsecond")}


def test_a_reader_that_crashes_is_named_by_the_row(notes: Path, tmp_path: Path) -> None:
    (notes / "a.notes").write_bytes(b"NOTES\0crash")
    with pytest.raises(DocumentError, match="is a notebook"):
        load([notes / "a.notes"], tmp_path / "c")


@pytest.mark.parametrize(
    ("name", "first", "kind"),
    [
        ("a.txt", b" \n%PDF-1.7", "pdf"),
        ("a.pdf", b"no magic", "pdf"),
        ("a.txt", b"PK\x03\x04" + b"." * 26 + b"mimetypeapplication/epub+zip", "epub"),
        ("a", b"PK\x03\x04" + b"." * 9_000 + b"word/document.xml", "docx"),
        ("a", b"PK\x03\x04 docProps/app.xml \n [Content_Types].xml", "docx"),
        ("a.zip", b"PK\x03\x04" + b"." * 26 + b"b.docx PK\x03\x04 word/document.xml", "zip"),
        ("a.zip", b"PK\x03\x04 docProps/app.xml", "zip"),
        ("a.pages", b"PK\x03\x04 a document without a reader", "text"),
        ("app.log.1", b"\x1f\x8b\x08\x00", "gzip"),
        ("backup", b"." * 257 + b"ustar", "tar"),
        ("a", b"PK\x03\x04 [Content_Types].xml docProps/app.xml ppt/presentation.xml", "pptx"),
        ("a", b"PK\x03\x04 word/document.xml word/embeddings/ppt/slides/", "docx"),
        ("a", b"PK\x03\x04" + b"." * 26 + b"mimetypeapplication/vnd.oasis.opendocument.textPK", "odt"),
        ("a", b"{\\rtf1 text}", "rtf"),
        ("a.txt", b"{\\rtf1 text}", "rtf"),
        ("a.py", b"{\\rtf1 text}", "code"),
        ("a", b"\xef\xbb\xbfWEBVTT\n", "subtitles"),
        ("a.txt", b"1\r\n00:00:01,000 --> 00:00:02,000\r\n", "text"),
        ("page", b"\xef\xbb\xbf <!-- a comment -->\n<!DOCTYPE html>", "html"),
        ("page.txt", b"<html>", "text"),
        ("A.HTM", b"text", "html"),
        ("a.py", b"%PDF-", "pdf"),
    ],
)
def test_the_kind_follows_from_suffix_and_magic(name: str, first: bytes, kind: str) -> None:
    assert kind_of(name, first) == kind
