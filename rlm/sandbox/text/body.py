"""The context body: one UTF-8 file with an index. Host and kernel both read it through mmap.

A context folder holds three files: `body` (UTF-8, no byte order mark), `index` (checkpoints and the tables
of pages, messages and headings) and `manifest.json`. The manifest is written last, so a folder without one
is not a finished context.

The body of a large plain file may be that file itself, read in place: then `body` is a link to it, and a
fourth file, `source.json`, holds the facts by which the host notices a change. It never reaches the kernel.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Protocol

from .checkpoints import BLOCK, Checkpoints
from .place_index import HEADING_COLUMNS, MESSAGE_COLUMNS, PAGE_COLUMNS, Marks, Place, Table

__all__ = [
    "BODY_NAME",
    "FORMAT",
    "INDEX_NAME",
    "MANIFEST_NAME",
    "SOURCE_NAME",
    "Body",
    "BodyError",
    "Document",
    "Span",
    "Watch",
    "WatchedFile",
    "open_files",
]

FORMAT = 3
BODY_NAME = "body"
INDEX_NAME = "index"
MANIFEST_NAME = "manifest.json"
SOURCE_NAME = "source.json"


class WatchedFile(Protocol):
    """A user's file that is read in place. It may change at any time, so the driver must not map it: a
    mapping of a file that was cut off kills the process that reads it."""

    def read(self, low: int, high: int) -> bytes:
        """Return bytes of the indexed text. Raises the host's error if the file is no longer what it was."""

    def check(self) -> None:
        """Raise the host's error if the file changed."""

    @property
    def has_grown_or_moved(self) -> bool:
        """Whether the file was written, renamed or removed, while the indexed text is still the same."""


Watch = Callable[[int, bytes, str], WatchedFile]
"""Returns the file to read, from the body's descriptor, the content of `source.json` and the body's hash.
Raises the host's error if the file changed. Raises ValueError, KeyError or TypeError for damaged facts."""

_PIECE = 1 << 20
_HEADER = 1_000  # characters: more than the longest header line of a message
_LINE = 256
"""Bytes that are read first to find the borders of a line."""
_MOST = 8 << 20
"""Bytes read after which the pages are released."""
_LEAST = 64 << 10  # reading a single byte maps this much


class BodyError(Exception):
    """A folder is not a finished context folder, or its files are inconsistent."""


class Span(NamedTuple):
    """A range of the body in characters: 0-based, end-exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """One document of the body. `start` and `end` are characters of the body.

    Documents are in the body's order without gaps. `kind` is text, markdown, code, csv, json, jsonl, html,
    pdf, docx, epub, chat, card, board or commits. `messages` and `pages` are their numbers, or None if the
    kind has none.
    With `headings_indexed` the index holds every heading. Other lines only look like headings. `place` says
    how a place in it is named: by the cells of a `sheet`, the rows of a `table`, or those of a `member table`
    in a file; "" by its lines.
    """

    index: int
    name: str
    kind: str
    start: int
    end: int
    messages: int | None = None
    pages: int | None = None
    headings_indexed: bool = False
    place: str = ""

    @property
    def has_records(self) -> bool:
        """Whether each of its lines is a row of data."""
        return self.kind in ("csv", "jsonl")


class Body:
    """The text of a context: read-only, never loaded whole, safe to use from several threads.

    `chars`, `bytes` and `lines` are its sizes. `ascii` is whether every character is one byte. `buffer` is
    the mapping of its bytes, for engines that need the buffer protocol. `marks` are the tables behind
    `place`. `watched` is the file that the host reads in place, else None. Then only `read` is safe.

    A line ends at "\\n" only; a "\\r" is an ordinary character. "a\\nb" and "a\\nb\\n" have two lines, "" has
    none. A `window` of a body is a body too: it counts everything from its start and shares the files.
    """

    __slots__ = (
        "_byte",
        "_char",
        "_line",
        "_mapped",
        "_passed",
        "_points",
        "_sha256",
        "ascii",
        "buffer",
        "bytes",
        "chars",
        "documents",
        "lines",
        "marks",
        "watched",
    )

    def __init__(
        self,
        points: Checkpoints,
        marks: Marks,
        documents: tuple[Document, ...],
        sha256: str,
        mapped: mmap.mmap | bytes,
        watched: WatchedFile | None,
    ) -> None:
        self._points = points
        self._mapped = mapped
        self._byte = self._char = self._line = self._passed = 0
        self._sha256 = sha256
        self.watched = watched
        self.buffer: mmap.mmap | bytes | memoryview = mapped
        self.marks = marks
        self.chars, self.bytes, self.lines = points.chars, points.bytes, points.lines
        self.ascii = self.chars == self.bytes
        self.documents = documents

    @classmethod
    def open(cls, folder: Path | str, watch: Watch | None = None) -> Body:
        """Map the context in `folder`. `watch` opens a file that is read in place. Raises BodyError if the
        context is missing, unfinished or damaged, or is read in place and there is no `watch`."""
        folder = Path(folder)
        try:
            with ExitStack() as stack:
                body, index, manifest = (stack.enter_context(file) for file in open_files(folder))
                source = folder / SOURCE_NAME
                facts = source.read_bytes() if source.exists() else None
                return cls.open_descriptors(
                    body.fileno(),
                    index.fileno(),
                    manifest.fileno(),
                    name=str(folder),
                    source=facts,
                    watch=watch,
                )
        except OSError as error:
            raise BodyError(
                f"{folder} is not a finished context folder: {error.strerror or error}"
            ) from error

    @classmethod
    def open_descriptors(
        cls,
        body: int,
        index: int,
        manifest: int,
        *,
        name: str = "the context",
        source: bytes | None = None,
        watch: Watch | None = None,
    ) -> Body:
        """Map a context from descriptors of its three files, which the caller closes.

        `name` is its name in errors. `source` is the content of its `source.json`, for a host that watches
        the file of the body. Raises BodyError if the files are damaged, OSError if they cannot be read.
        """
        try:
            with open(manifest, "rb", closefd=False) as file:
                facts = json.load(file)
            if facts["format"] != FORMAT:
                raise BodyError(f"{name}: context format {facts['format']} is not {FORMAT}: make it again")
            watched: WatchedFile | None = None
            if source is not None:
                if watch is None:
                    raise BodyError(f"{name} is read in place, and nothing watches its file")
                watched = watch(body, source, facts["sha256"])
            size, found = facts["bytes"], os.fstat(body).st_size
            # A file that is read in place may have grown. The new part is not text of the body.
            if found < size or (found > size and facts.get("in_place") is not True):
                raise BodyError(f"{name}: the body has {found} bytes, its manifest says {size}")
            mapped = _map_file(body, size)
            blocks = size // BLOCK + 1
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
                Table(messages, MESSAGE_COLUMNS, places=2),
                Table(headings, HEADING_COLUMNS),
            )
            points = Checkpoints(
                watched.read if watched else lambda low, high: mapped[low:high],
                char_marks,
                line_marks,
                chars=facts["chars"],
                bytes=size,
                lines=facts["lines"],
            )
            documents = tuple(Document(index, *fields) for index, fields in enumerate(facts["documents"]))
            return cls(points, marks, documents, facts["sha256"], mapped, watched)
        except (ValueError, KeyError, TypeError) as error:
            raise BodyError(
                f"{name}: its {MANIFEST_NAME} or {INDEX_NAME} is damaged: make it again"
            ) from error

    def window(self, start: int, end: int) -> Body:
        """Return the characters from `start` to `end`, clamped, as a body. Copies no bytes.

        Close it before this body.
        """
        start = min(max(start, 0), self.chars)
        end = min(max(end, start), self.chars)
        first, last = self.byte_of(start), self.byte_of(end)
        documents = tuple(self._clip_documents(start, end))
        other = Body(self._points, self.marks.window(start, end), documents, "", self._mapped, self.watched)
        other._byte, other._char = self._byte + first, self._char + start
        other._line = self._line + self.line_of_byte(first)
        other.buffer = memoryview(self._mapped)[other._byte : other._byte + last - first]
        other.chars, other.bytes = end - start, last - first
        other.lines = self.line_of_byte(last - 1) - self.line_of_byte(first) + 1 if last > first else 0
        other.ascii = other.chars == other.bytes
        return other

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the bytes, in hexadecimal. A window computes it on first use."""
        if not self._sha256:
            digest = hashlib.sha256()
            for low in range(0, self.bytes, _PIECE):
                digest.update(self.read(low, min(low + _PIECE, self.bytes)))
            self._sha256 = digest.hexdigest()
        return self._sha256

    def text(self, start: int, end: int) -> str:
        """Return the characters from `start` to `end`. Both are clamped; negative values count as 0."""
        return self.read(self.byte_of(start), self.byte_of(end)).decode()

    def read(self, low: int, high: int) -> bytes:
        """Return the bytes from `low` to `high`, which is clamped."""
        self.passed(high - low)
        return self._points.read(self._byte + low, self._byte + max(low, min(high, self.bytes)))

    def passed(self, size: int) -> None:
        """Release the pages of the mapping behind the reader, who read `size` bytes of it in a row.

        The system's page cache keeps the data for all processes. Without the release, a process that has read
        a gigabyte would count as using a gigabyte, and could be killed for it. Pages return when read.
        """
        self._passed += max(size, _LEAST)
        if self._passed > _MOST:
            self._passed = 0
            if isinstance(self._mapped, mmap.mmap) and len(self._mapped) > _MOST:
                self._mapped.madvise(mmap.MADV_DONTNEED)

    def byte_of(self, char: int) -> int:
        """Return the byte at which character `char` begins. `chars` and beyond give the end of the body."""
        if char <= 0:
            return 0
        if char >= self.chars:
            return self.bytes
        return self._points.byte_of(self._char + char) - self._byte

    def char_of(self, byte: int) -> int:
        """Return the first character that begins at `byte` or after it."""
        if byte <= 0:
            return 0
        if byte >= self.bytes:
            return self.chars
        return self._points.char_of(self._byte + byte) - self._char

    def line_of(self, char: int) -> int:
        """Return the number (from 0) of the line that holds character `char` or its line end.

        At `chars` it is the line on which a further character would be.
        """
        return self.line_of_byte(self.byte_of(char))

    def line_of_byte(self, byte: int) -> int:
        """Return the number (from 0) of the line that holds this byte."""
        return self._points.line_of_byte(self._byte + byte) - self._line

    def line_bytes(self, byte: int) -> tuple[int, int]:
        """Return where the line that holds this byte starts and ends, in bytes, with its line end."""
        start, size = byte, _LINE
        while start:
            low = max(0, start - size)
            found = self.read(low, start).rfind(b"\n") + 1
            start, size = low + found, 2 * size
            if found:
                break
        end, size = byte, _LINE
        while end < self.bytes:
            found = self.read(end, end + size).find(b"\n") + 1
            end, size = end + (found or size), 2 * size
            if found:
                break
        return start, min(end, self.bytes)

    def line_start(self, line: int) -> int:
        """Return the character at which line `line` begins. `lines` and beyond give `chars`."""
        return self.char_of(self.line_start_byte(line))

    def line_start_byte(self, line: int) -> int:
        """Return the byte at which line `line` begins. `lines` and beyond give `bytes`."""
        if line <= 0:
            return 0
        if line >= self.lines:
            return self.bytes
        return self._points.line_start_byte(self._line + line) - self._byte

    def document_at(self, char: int) -> Document | None:
        """Return the document that holds character `char`, or None outside the body."""
        if not 0 <= char < self.chars:
            return None
        found = bisect_right(self.documents, char, key=_start_of) - 1
        return self.documents[found] if found >= 0 else None

    def place(self, char: int) -> Place | None:
        """Return document, line, page, message and headings of a character, or None outside the body.

        Takes a few reads of the index, whatever the size.
        """
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
        """Return the titles of the headings above `char`, the top one first.

        Empty if the index has none: plain text and code are not searched for headings.
        """
        document = self.document_at(char)
        if document is None:
            return ()
        return tuple(
            " ".join(self.text(*self.marks.title(row)).split())
            for row in self.marks.path(char, document.start)
        )

    def close(self) -> None:
        """Unmap the files, or release them if this is a window. Safe to call twice.

        Nothing may be read afterwards. A search on another thread keeps the files mapped until it ends.
        """
        with suppress(BufferError):
            if isinstance(self.buffer, memoryview):
                self.buffer.release()
            elif isinstance(self._mapped, mmap.mmap):
                self._mapped.close()

    def _clip_documents(self, start: int, end: int) -> Iterator[Document]:
        """Yield the parts of documents between `start` and `end`, with offsets from `start`."""
        number = 0
        for document in self.documents[max(0, bisect_right(self.documents, start, key=_start_of) - 1) :]:
            low, high = max(document.start, start), min(document.end, end)
            if document.start >= end:
                return
            if low >= high:
                continue
            messages, pages = (
                None if there is None else len(table.between(low, high))
                for there, table in (
                    (document.messages, self.marks.messages),
                    (document.pages, self.marks.pages),
                )
            )
            yield replace(
                document, index=number, start=low - start, end=high - start, messages=messages, pages=pages
            )
            number += 1

    def __enter__(self) -> Body:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _start_of(document: Document) -> int:
    return document.start


def open_files(folder: Path) -> Iterator[BinaryIO]:
    """Open body, index and manifest of a context folder. Raises OSError, also if one is no regular file."""
    for name in (BODY_NAME, INDEX_NAME, MANIFEST_NAME):
        # A file that is read in place may have been replaced by a pipe, whose opening would wait.
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        file = os.fdopen(descriptor, "rb")
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            file.close()
            raise OSError(f"its {name} is no regular file")
        yield file


def _map_file(descriptor: int, size: int) -> mmap.mmap | bytes:
    # An empty file cannot be mapped.
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b""


def _columns(descriptor: int, sizes: tuple[int, ...]) -> list[Any]:
    """Cut the index into columns of these sizes. Raises ValueError."""
    raw = _map_file(descriptor, os.fstat(descriptor).st_size)
    if len(raw) != 8 * sum(sizes) or min(sizes) < 0:
        raise ValueError("index of the wrong size")
    view = memoryview(raw).cast("Q")
    columns = []
    at = 0
    for size in sizes:
        columns.append(view[at : at + size])
        at += size
    return columns
