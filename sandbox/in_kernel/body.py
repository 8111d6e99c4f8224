"""The context body: one UTF-8 file with an index, read through mmap by the host and by the kernel alike.

A context folder holds three files: `body` (UTF-8, no byte order mark), `index` (checkpoints, then where
pages, messages and headings begin) and `manifest.json`. The manifest is written last: a folder without one
is not a context.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from .places import HEADING_COLUMNS, MESSAGE_COLUMNS, PAGE_COLUMNS, Marks, Place, Table

__all__ = [
    "BLOCK",
    "BODY_NAME",
    "FORMAT",
    "INDEX_NAME",
    "MANIFEST_NAME",
    "Body",
    "BodyError",
    "Document",
    "Span",
    "count_chars",
]

BLOCK = 16 * 1024
"""Bytes from one checkpoint to the next."""
FORMAT = 2
BODY_NAME = "body"
INDEX_NAME = "index"
MANIFEST_NAME = "manifest.json"

_HEADER = 1_000  # characters: more than the longest header line of a message
_CONTINUATION = bytes(range(0x80, 0xC0))


class BodyError(Exception):
    """A folder is not a finished context folder, or its files do not fit together."""


class Span(NamedTuple):
    """A stretch of the body, in characters: 0-based, end-exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """One document of the body; `start` and `end` are characters of the body.

    Documents stand in the body's order, without gaps: each starts where the one before it ends.
    `kind` is text, markdown, code, csv, json, jsonl, html, pdf, docx, epub, chat or card; `messages` and
    `pages` are how many it has, where it has such.
    """

    index: int
    name: str
    kind: str
    start: int
    end: int
    messages: int | None = None
    pages: int | None = None


def count_chars(block: bytes) -> int:
    """How many characters begin in `block`, a piece of valid UTF-8 cut anywhere."""
    return len(block) if block.isascii() else len(block.translate(None, _CONTINUATION))


class Body:
    """The text of a context, read-only and never loaded whole.

    `chars`, `bytes`, `lines` are its sizes; `ascii` says whether every character is one byte; `raw` is
    the mapped file, for searching; `marks` are the tables behind `place`. A line ends at
    "\\n" alone (a "\\r" is an ordinary character), and lines are counted as by `str.split("\\n")` less a
    final empty piece: "a\\nb" and "a\\nb\\n" have two, "" has none. Safe to use from several threads.
    """

    __slots__ = (
        "_char_marks",
        "_line_marks",
        "ascii",
        "bytes",
        "chars",
        "documents",
        "lines",
        "marks",
        "raw",
        "sha256",
    )

    def __init__(
        self, raw: mmap.mmap | bytes, char_marks: Any, line_marks: Any, marks: Marks, facts: dict[str, Any]
    ) -> None:
        self.raw = raw
        self._char_marks = char_marks
        self._line_marks = line_marks
        self.marks = marks
        self.chars: int = facts["chars"]
        self.bytes: int = facts["bytes"]
        self.lines: int = facts["lines"]
        self.sha256: str = facts["sha256"]
        self.ascii = self.chars == self.bytes
        self.documents = tuple(Document(index, *fields) for index, fields in enumerate(facts["documents"]))

    @classmethod
    def open(cls, folder: Path | str) -> Body:
        """Map the context in `folder`. Raises BodyError when it is missing, unfinished or damaged."""
        folder = Path(folder)
        try:
            with (
                (folder / BODY_NAME).open("rb") as body,
                (folder / INDEX_NAME).open("rb") as index,
                (folder / MANIFEST_NAME).open("rb") as manifest,
            ):
                return cls.open_descriptors(
                    body.fileno(), index.fileno(), manifest.fileno(), name=str(folder)
                )
        except OSError as error:
            raise BodyError(
                f"{folder} is not a finished context folder: {error.strerror or error}"
            ) from error

    @classmethod
    def open_descriptors(cls, body: int, index: int, manifest: int, *, name: str = "the context") -> Body:
        """Map a context by open descriptors of its three files; they stay the caller's to close. `name` is
        what errors call it. Raises BodyError when the files are damaged, OSError when they can't be read."""
        try:
            with open(manifest, "rb", closefd=False) as file:
                facts = json.load(file)
            if facts["format"] != FORMAT:
                raise BodyError(f"{name}: context format {facts['format']} is not {FORMAT}: make it again")
            raw = _mapped(body)
            blocks = facts["bytes"] // BLOCK + 1
            char_marks, line_marks, pages, messages, headings = _columns(
                index,
                (
                    blocks,
                    blocks,
                    facts["pages"] * PAGE_COLUMNS,
                    facts["messages"] * MESSAGE_COLUMNS,
                    facts["headings"] * HEADING_COLUMNS,
                ),
            )
            marks = Marks(
                Table(pages, PAGE_COLUMNS),
                Table(messages, MESSAGE_COLUMNS),
                Table(headings, HEADING_COLUMNS),
            )
            if len(raw) != facts["bytes"]:
                raise BodyError(f"{name}: the body has {len(raw)} bytes, its manifest says {facts['bytes']}")
            return cls(raw, char_marks, line_marks, marks, facts)
        except (ValueError, KeyError, TypeError) as error:
            raise BodyError(
                f"{name}: its {MANIFEST_NAME} or {INDEX_NAME} is damaged: make it again"
            ) from error

    def text(self, start: int, end: int) -> str:
        """The characters from `start` to `end`; both are clamped to the body, never counted from its end."""
        first = self.byte_of(start)
        return self.raw[first : max(first, self.byte_of(end))].decode()

    def byte_of(self, char: int) -> int:
        """The byte at which character `char` begins; `chars` and beyond give the end of the body."""
        if char <= 0:
            return 0
        if char >= self.chars:
            return self.bytes
        if self.ascii:
            return char
        mark = bisect_right(self._char_marks, char) - 1
        start = mark * BLOCK
        block = self.raw[start : start + BLOCK]
        # A block may begin inside a character: that one was counted in the block before.
        inside = next(i for i in range(4) if block[i] & 0xC0 != 0x80)
        wanted = char - self._char_marks[mark]
        return start + inside + len(block.decode("utf-8", "ignore")[:wanted].encode())

    def char_of(self, byte: int) -> int:
        """The first character that begins at `byte` or after it."""
        if byte <= 0:
            return 0
        if byte >= self.bytes:
            return self.chars
        if self.ascii:
            return byte
        mark = byte // BLOCK
        return int(self._char_marks[mark]) + count_chars(self.raw[mark * BLOCK : byte])

    def line_of(self, char: int) -> int:
        """The number (from 0) of the line that holds character `char`, its line end included.
        At `chars` it is the line that a further character would stand on."""
        return self.line_of_byte(self.byte_of(char))

    def line_of_byte(self, byte: int) -> int:
        """The number (from 0) of the line that holds the byte at `byte`."""
        mark = byte // BLOCK
        return int(self._line_marks[mark]) + self.raw[mark * BLOCK : byte].count(b"\n")

    def line_start(self, line: int) -> int:
        """The character at which line `line` begins; `lines` and beyond give `chars`."""
        return self.char_of(self.line_start_byte(line))

    def line_start_byte(self, line: int) -> int:
        """The byte at which line `line` begins; `lines` and beyond give `bytes`."""
        if line <= 0:
            return 0
        if line >= self.lines:
            return self.bytes
        mark = bisect_left(self._line_marks, line) - 1
        wanted = line - self._line_marks[mark]
        start = mark * BLOCK
        block = self.raw[start : start + BLOCK]
        # Halving: the smallest `high` with `wanted` line ends before it.
        low, high = 0, len(block)
        while low + 1 < high:
            middle = (low + high) // 2
            seen = block.count(b"\n", low, middle)
            if seen >= wanted:
                high = middle
            else:
                low, wanted = middle, wanted - seen
        return int(start + high)

    def document_at(self, char: int) -> Document | None:
        """The document that holds character `char`; None outside the body."""
        if not 0 <= char < self.chars:
            return None
        found = bisect_right(self.documents, char, key=_start_of) - 1
        return self.documents[found] if found >= 0 else None

    def place(self, char: int) -> Place | None:
        """What the character `char` stands in: document, line, page, message, headings. None outside the
        body. A few reads of the index, whatever the size."""
        document = self.document_at(char)
        if document is None:
            return None
        row = self.marks.message(char, document.start)
        header = None
        if row is not None:
            start = self.marks.messages[row]
            header = self.marks.header(row, self.text(start, start + _HEADER).partition("\n")[0])
        return Place(
            document=document.name,
            kind=document.kind,
            line=self.line_of(char) + 1,
            page=self.marks.page(char, document.start),
            message=header.number if header else None,
            role=header.role if header else "",
            author=header.author if header else "",
            time=header.time if header else "",
            heading_path=self.heading_path(char),
        )

    def heading_path(self, char: int) -> tuple[str, ...]:
        """The titles of the headings that `char` stands under, the top one first; () where the index has
        none (plain text and code are not searched for any)."""
        document = self.document_at(char)
        if document is None:
            return ()
        return tuple(
            " ".join(self.text(*self.marks.title(row)).split())
            for row in self.marks.path(char, document.start)
        )

    def close(self) -> None:
        """Unmap the files. Nothing may be read afterwards; safe to call twice."""
        if isinstance(self.raw, mmap.mmap):
            self.raw.close()

    def __enter__(self) -> Body:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _start_of(document: Document) -> int:
    return document.start


def _mapped(descriptor: int) -> mmap.mmap | bytes:
    # An empty file can't be mapped.
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if os.fstat(descriptor).st_size else b""


def _columns(descriptor: int, sizes: tuple[int, ...]) -> list[Any]:
    """The index cut into its columns of so many numbers each."""
    raw = _mapped(descriptor)
    if len(raw) != 8 * sum(sizes) or min(sizes) < 0:
        raise ValueError("index of the wrong size")
    if sys.byteorder == "big":
        swapped = array("Q", raw)
        swapped.byteswap()
        raw = swapped.tobytes()
    view = memoryview(raw).cast("Q")
    columns = []
    at = 0
    for size in sizes:
        columns.append(view[at : at + size])
        at += size
    return columns
