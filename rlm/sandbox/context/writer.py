"""Writes a context folder (body, index, manifest) in one streaming pass."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import re
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self

from rlm.sandbox.context.body_file import BodyFile
from rlm.sandbox.context.source_file import SourceFacts, SourceFile
from rlm.sandbox.errors import ContextFileError, SourceChanged
from rlm.sandbox.text.body import (
    BODY_NAME,
    FORMAT,
    INDEX_NAME,
    MANIFEST_NAME,
    SOURCE_NAME,
    Body,
    BodyError,
    Document,
    open_files,
)
from rlm.sandbox.text.place_index import (
    HEADING_COLUMNS,
    MESSAGE_COLUMNS,
    PAGE_COLUMNS,
    MessageHeader,
    packed,
)

__all__ = ["ContextFile", "ContextFileWriter", "NotPlain"]

_PIECE = 1 << 20
_BOM = codecs.BOM_UTF8
_MARK = "\ufffd"
_SURROGATE = re.compile("[\ud800-\udfff]")
_HELD = 1 << 20
"""Bytes of rows that are kept in memory before they go to a file."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A finished context folder.

    `replaced` counts the U+FFFD that replace invalid bytes or lone surrogates of the sources. `sha256` is
    that of the body's bytes. `table_bytes` is the size of the page, message and heading tables.
    """

    folder: Path
    chars: int
    bytes: int
    lines: int
    sha256: str
    documents: tuple[Document, ...]
    replaced: int = 0
    table_bytes: int = 0

    @classmethod
    def of(cls, folder: Path, *, replaced: int = 0, table_bytes: int = 0) -> Self:
        """Return the finished context in `folder`. Raises BodyError, and SourceChanged."""
        with Body.open(folder, _watch) as body:
            return cls(
                folder,
                body.chars,
                body.bytes,
                body.lines,
                body.sha256,
                body.documents,
                replaced,
                table_bytes,
            )

    def open(self) -> Body:
        """Open the body for reading. The caller closes it. Raises ContextFileError, and SourceChanged if it
        is read in place and changed."""
        try:
            return Body.open(self.folder, _watch)
        except BodyError as error:
            if (gone := self._lost_source()) is not None:
                raise gone from error
            raise ContextFileError(str(error)) from error

    def open_files(self) -> Iterator[BinaryIO]:
        """Open body, index and manifest, for another process. Raises OSError, and SourceChanged."""
        try:
            body, *others = open_files(self.folder)
        except OSError as error:
            if (gone := self._lost_source()) is not None:
                raise gone from error
            raise
        with contextlib.ExitStack() as opened:
            for file in (body, *others):
                opened.enter_context(file)
            with contextlib.suppress(FileNotFoundError):
                facts = SourceFacts.from_json((self.folder / SOURCE_NAME).read_bytes())
                # Whether it was written to is checked by the driver, with each read and after each cell.
                SourceFile.check_identity(body.fileno(), facts)
            opened.pop_all()
        return iter((body, *others))

    def _lost_source(self) -> SourceChanged | None:
        """Return the error if the file that is read in place is gone."""
        try:
            facts = SourceFacts.from_json((self.folder / SOURCE_NAME).read_bytes())
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return None if (self.folder / BODY_NAME).is_file() else SourceChanged(facts.path, "was removed")


class NotPlain(Exception):
    """A file cannot be read in place: its text is not UTF-8, or not all of it was written as it is."""


def _watch(descriptor: int, facts: bytes, sha256: str) -> SourceFile:
    return SourceFile(descriptor, SourceFacts.from_json(facts), sha256)


class ContextFileWriter:
    """Streams documents into a new context folder (mode 0700, files 0600). Memory stays below 64 MB.

    Bytes are decoded as UTF-8. Invalid sequences and lone surrogates become U+FFFD and are counted. The
    leading byte order mark of a document is dropped. A document without a final newline gets one if a
    document with text follows; the newline belongs to the first of the two.

    `begin_page`, `begin_message` and `heading` mark the text that is written next. That text must not be
    empty and must be in the same document.

    With `source`, the text is that of this file, and stays there: only the index is written. `finish` raises
    NotPlain if the text is not the file, byte for byte.

    The folder cannot be opened as a context until `finish` returns. Leaving the context manager aborts
    unless `finish` was called. Every failed write raises ContextFileError.
    """

    def __init__(self, folder: Path, source: SourceFacts | None = None) -> None:
        self._folder = folder
        self._source = source
        self._documents: list[Document] = []
        self._open: Document | None = None
        self._pending = b""
        self._fresh = self._needs_break = False
        self._originals: dict[int, str] = {}
        self._first_page = self._first_message = 0
        self._replaced = 0
        self._message: tuple[int, int] | None = None
        self._above: list[tuple[int, int]] = []
        self._finished = False
        with self._writing("create"):
            self._made = not folder.exists()
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
            if (folder / BODY_NAME).exists():
                raise ContextFileError(f"{folder} already holds a context: choose another folder")
            self._body = BodyFile(None if source else self._create(BODY_NAME))
        self._pages = _Rows(folder, PAGE_COLUMNS)
        self._messages = _Rows(folder, MESSAGE_COLUMNS)
        self._headings = _Rows(folder, HEADING_COLUMNS)

    def begin_document(
        self, name: str, kind: str = "text", *, headings_indexed: bool = False, place: str = ""
    ) -> None:
        """Start a document. Ends the one that is open. `headings_indexed` and `place` are as in Document."""
        if self._open is not None:
            self.end_document()
        start = self._body.chars
        self._open = Document(
            len(self._documents), name, kind, start, start, headings_indexed=headings_indexed, place=place
        )
        self._fresh = self._needs_break = True
        self._above = []
        self._first_page, self._first_message = len(self._pages), len(self._messages)

    def note_original(self, sha256: str) -> None:
        """Note the hash of the file of the open document, whose pages can be drawn."""
        self._originals[len(self._documents)] = sha256

    def begin_page(self) -> None:
        """Start a page of the open document with the text written next."""
        self._flush()
        with self._writing("write"):
            self._pages.append(self._body.chars)

    def begin_message(self, header: MessageHeader) -> None:
        """Write the header line of a message. Its text goes on until the next message or `end_message`."""
        self.end_message()
        self._flush()
        line, lengths = header.rendered()
        self._message = (self._body.chars, lengths)
        self.write(line)

    def end_message(self) -> None:
        """End the open message, if there is one."""
        if self._message is None:
            return
        with self._writing("write"):
            self._write_bytes(b"", final=True)
            start, lengths = self._message
            self._messages.append(start, self._body.chars, lengths)
        self._message = None

    def heading(self, level: int, length: int, offset: int = 0) -> None:
        """Mark the text written next as a heading of this level (1 is the top).

        Its title starts `offset` characters into that text and has `length` characters.
        """
        self._flush()
        while self._above and self._above[-1][0] >= level:
            self._above.pop()
        above = self._above[-1][1] if self._above else 0
        with self._writing("write"):
            self._headings.append(self._body.chars, packed(level, offset, length), above)
        self._above.append((level, len(self._headings)))

    def write_heading(self, level: int, title: str) -> None:
        """Write a Markdown heading on its own line. `title` is one line, not empty."""
        self.heading(level, len(title), offset=level + 1)
        self.write(f"{'#' * level} {title}\n")

    def write(self, data: bytes | str) -> None:
        """Add text to the open document. A UTF-8 sequence may be split between calls."""
        if self._open is None:
            raise ContextFileError("no document is open: call begin_document first")
        with self._writing("write"):
            for at in range(0, len(data), _PIECE):
                piece = data[at : at + _PIECE]
                if isinstance(piece, str):
                    self._write_text(piece)
                else:
                    self._write_bytes(piece, final=False)

    def add_body(self, body: Body, named: Callable[[str], str] = str) -> None:
        """Append all documents of another context with their pages, messages and headings.

        `named` maps the old name of a document to the new one.
        """
        tables = (body.marks.pages, body.marks.messages, body.marks.headings)
        above = len(self._headings)
        for document in body.documents:
            self.begin_document(
                named(document.name),
                document.kind,
                headings_indexed=document.headings_indexed,
                place=document.place,
            )
            if document.start == document.end:
                continue
            # The byte order mark was dropped when the text was read: a U+FEFF here is text.
            self._fresh = False
            self._flush()
            shift = self._body.chars - document.start
            pages, messages, headings = (table.between(document.start, document.end) for table in tables)
            with self._writing("write"):
                for row in pages:
                    self._pages.append(body.marks.pages[row] + shift)
                for row in messages:
                    start, end, lengths = body.marks.messages.row(row)
                    self._messages.append(start + shift, end + shift, lengths)
                for row in headings:
                    start, title, parent = body.marks.headings.row(row)
                    self._headings.append(start + shift, title, parent and parent + above)
                for at in range(document.start, document.end, _PIECE):
                    self._write_text(body.text(at, min(at + _PIECE, document.end)))

    def end_document(self) -> None:
        """End the open document. An incomplete UTF-8 sequence becomes one U+FFFD."""
        if self._open is None:
            raise ContextFileError("no document is open: call begin_document first")
        with self._writing("write"):
            self._write_bytes(b"", final=True)
        self.end_message()
        self._documents.append(
            replace(
                self._open,
                end=self._body.chars,
                messages=len(self._messages) - self._first_message or None,
                pages=len(self._pages) - self._first_page or None,
            )
        )
        self._open = None

    def finish(self) -> ContextFile:
        """Write index and manifest. Return the finished context."""
        if self._open is not None:
            self.end_document()
        if self._source is not None and (self._replaced or self._body.bytes != self._source.size):
            raise NotPlain
        with self._writing("finish"):
            sha256 = self._body.finish()
            if self._source is not None:
                (self._folder / BODY_NAME).symlink_to(self._source.path)
                with self._create(SOURCE_NAME) as facts:
                    facts.write(self._source.to_json().encode())
        done = ContextFile(
            folder=self._folder,
            chars=self._body.chars,
            bytes=self._body.bytes,
            lines=self._body.lines + (not self._body.ends_line),
            sha256=sha256,
            documents=tuple(self._documents),
            replaced=self._replaced,
            table_bytes=sum(table.size for table in self._tables()),
        )
        with self._writing("finish"):
            with self._create(INDEX_NAME) as index:
                for marks in (self._body.char_marks, self._body.line_marks):
                    index.write(marks)
                for table in self._tables():
                    table.move_to(index)
            # The rename comes last: a half-written folder has no manifest.
            with self._create(MANIFEST_NAME + ".part") as manifest:
                manifest.write(json.dumps(self._manifest(done)).encode())
            (self._folder / (MANIFEST_NAME + ".part")).rename(self._folder / MANIFEST_NAME)
        self._finished = True
        return done

    def abort(self) -> None:
        """Remove the written files, and the folder if this writer created it. Safe to call twice."""
        with contextlib.suppress(OSError):
            self._body.close()
        with contextlib.suppress(OSError):
            for table in self._tables():
                table.close()
        with contextlib.suppress(OSError):
            for name in (BODY_NAME, SOURCE_NAME, INDEX_NAME, MANIFEST_NAME + ".part", MANIFEST_NAME):
                (self._folder / name).unlink(missing_ok=True)
            if self._made:
                self._folder.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            self.abort()

    def _manifest(self, done: ContextFile) -> dict[str, object]:
        return {
            "format": FORMAT,
            "chars": done.chars,
            "bytes": done.bytes,
            "lines": done.lines,
            "sha256": done.sha256,
            "replaced": done.replaced,
            "pages": len(self._pages),
            "messages": len(self._messages),
            "headings": len(self._headings),
            "documents": [
                [d.name, d.kind, d.start, d.end, d.messages, d.pages, d.headings_indexed, d.place]
                for d in done.documents
            ],
            **({"originals": self._originals} if self._originals else {}),
            **({"in_place": True} if self._source else {}),
        }

    def _tables(self) -> tuple[_Rows, ...]:
        return self._pages, self._messages, self._headings

    def _flush(self) -> None:
        """Flush pending bytes, so that `_chars` is where the next text starts."""
        if self._open is None:
            raise ContextFileError("no document is open: call begin_document first")
        with self._writing("write"):
            self._write_bytes(b"", final=True)
            self._end_previous()

    def _write_text(self, text: str) -> None:
        if self._pending:
            self._write_bytes(b"", final=True)
        if self._fresh:
            text = text.removeprefix("\ufeff")
        try:
            self._append(text.encode())
        except UnicodeEncodeError:
            text, count = _SURROGATE.subn(_MARK, text)
            self._replaced += count
            self._append(text.encode())

    def _write_bytes(self, data: bytes, *, final: bool) -> None:
        data, self._pending = self._pending + data, b""
        if self._fresh:
            if len(data) < len(_BOM) and _BOM.startswith(data) and not final:
                self._pending = data
                return
            data = data.removeprefix(_BOM)
        try:
            used = self._append(data, final=final)
        except UnicodeDecodeError:
            text, used = codecs.utf_8_decode(data, "replace", final)
            self._replaced += text.count(_MARK) - data[:used].count(_MARK.encode())
            self._append(text.encode())
        self._pending = data[used:]

    def _append(self, data: bytes, *, final: bool = True) -> int:
        """Add whole characters, as BodyFile does, after the line end that the last document may need."""
        if not data:
            return 0
        self._fresh = False
        self._end_previous()
        return self._body.write(data, final=final)

    def _end_previous(self) -> None:
        """End the last line of the previous document, before the first text of this one."""
        if self._needs_break:
            self._needs_break = False
            if not self._body.ends_line:
                self._body.write(b"\n")
                self._close_line()

    def _close_line(self) -> None:
        """Give the new newline to the last document with text, and shift the empty ones after it."""
        assert self._open is not None
        self._open = replace(self._open, start=self._body.chars, end=self._body.chars)
        for at in range(len(self._documents) - 1, -1, -1):
            before = self._documents[at]
            if before.start < before.end:
                self._documents[at] = replace(before, end=self._body.chars)
                break
            self._documents[at] = replace(before, start=self._body.chars, end=self._body.chars)

    def _create(self, name: str) -> IO[bytes]:
        descriptor = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "wb", buffering=_PIECE)

    def _writing(self, action: str) -> _Writing:
        return _Writing(self._folder, action)


class _Writing:
    """Reports a failed write as ContextFileError. It is a class, because entering a generator costs more."""

    __slots__ = ("_action", "_folder")

    def __init__(self, folder: Path, action: str) -> None:
        self._folder, self._action = folder, action

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise ContextFileError(
                f"cannot {self._action} the context in {self._folder}: {error.strerror or error}. "
                "Free space or use another folder."
            ) from error


class _Rows:
    """Rows of numbers, in memory or in a file in the folder, until the index is written. There may be
    millions."""

    def __init__(self, folder: Path, columns: int) -> None:
        self._row = struct.Struct(f"={columns}Q")
        self._rows = 0
        self._file = tempfile.SpooledTemporaryFile(max_size=_HELD, dir=str(folder))  # noqa: SIM115 - see close
        self.close = self._file.close

    def __len__(self) -> int:
        return self._rows

    @property
    def size(self) -> int:
        """Return the size of all rows in bytes."""
        return self._row.size * self._rows

    def append(self, *row: int) -> None:
        """Add one row."""
        self._file.write(self._row.pack(*row))
        self._rows += 1

    def move_to(self, index: IO[bytes]) -> None:
        """Write all rows to `index` and drop them."""
        self._file.seek(0)
        shutil.copyfileobj(self._file, index, _HELD)
        self._file.close()
