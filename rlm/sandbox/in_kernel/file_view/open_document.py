"""A document that is open for reading, as a text file of Python is."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from ..body.body import Body, Document, Span
from ..context_handle.access_log import AccessLog
from ..context_handle.lines import iterate_lines
from ..context_handle.records import Text

__all__ = ["MAX_TEXT", "OpenDocument", "too_large"]

MAX_TEXT = 20_000_000
"""Characters that are returned at once."""
_BLOCK = 64 * 1024


def too_large(name: str, chars: int) -> ValueError:
    """Return the error of a read that would return too much, with the better ways."""
    return ValueError(
        f"{name} has {chars:,} characters to read, and up to {MAX_TEXT:,} are returned at once: iterate over "
        f"its lines (for line in f.open()), f.open().read(n) in steps, or search(pattern, within=f), "
        "count(), chunk(within=f)"
    )


class OpenDocument(io.TextIOBase):
    """A text file over one document. Lines keep their line end, and are texts with their `.span`.

    Line ends are those of the document, as `open(newline="\\n")` reads them. Positions are characters from
    its start. Nothing is held but the line that is read.
    """

    def __init__(self, body: Body, log: AccessLog, document: Document) -> None:
        self._body = body
        self._log = log
        self._document = document
        self._at = document.start
        self._lines: Iterator[tuple[int, str]] | None = None

    @property
    def name(self) -> str:
        """The name of the document."""
        return self._document.name

    @property
    def mode(self) -> str:
        """How it was opened."""
        return "r"

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the text."""
        return "utf-8"

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> Text:
        """Return the next `size` characters, or all that are left. Raises ValueError for more than
        20,000,000."""
        self._check_open()
        left = self._document.end - self._at
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > MAX_TEXT:
            raise too_large(self._document.name, wanted)
        text = self._text(self._at, self._at + wanted)
        self._move(self._at + wanted)
        return text

    def readline(self, size: int | None = -1) -> Text:  # type: ignore[override]
        """Return the next line with its line end, or "" at the end."""
        self._check_open()
        if size is not None and size >= 0:
            line = self.read(min(size, _BLOCK))
            cut = line.find("\n") + 1
            if cut:
                self._move(line.start + cut)
                line = Text(line[:cut], Span(line.start, line.start + cut))
            return line
        start, text = next(self._coming(), (self._at, ""))
        self._at = start + len(text)
        self._log.read(start, self._at)
        return Text(text, Span(start, self._at))

    def readlines(self, hint: int | None = -1) -> list[Text]:  # type: ignore[override]
        """Return the lines that are left. Raises ValueError for more than 20,000,000 characters."""
        left = self._document.end - self._at
        if left > MAX_TEXT and (hint is None or hint <= 0):
            raise too_large(self._document.name, left)
        return super().readlines(-1 if hint is None else hint)  # type: ignore[return-value]

    def __iter__(self) -> Iterator[Text]:  # type: ignore[override]
        self._check_open()
        record = self._log.read
        while True:
            lines = self._coming()
            for start, line in lines:
                self._at = end = start + len(line)
                record(start, end)
                yield Text(line, Span(start, end))
                if self._lines is not lines:  # moved meanwhile
                    break
            else:
                return

    def __next__(self) -> Text:  # type: ignore[override]
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def tell(self) -> int:
        """Return the position, in characters."""
        self._check_open()
        return self._at - self._document.start

    def seek(self, position: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, counted from the start, from here or from the end. Return it."""
        self._check_open()
        bases = {0: self._document.start, 1: self._at, 2: self._document.end}
        if whence not in bases:
            raise ValueError(f"whence is {whence!r}: give 0 (start), 1 (here) or 2 (end)")
        self._move(min(max(bases[whence] + position, self._document.start), self._document.end))
        return self.tell()

    def __repr__(self) -> str:
        return f"<{self._document.name!r}, open for reading>"

    def _move(self, at: int) -> None:
        if at != self._at:
            self._at = at
            self._lines = None

    def _coming(self) -> Iterator[tuple[int, str]]:
        """Return the lines from here on."""
        if self._lines is None:
            body = self._body
            self._lines = iterate_lines(body, body.byte_of(self._at), body.byte_of(self._document.end))
        return self._lines

    def _text(self, start: int, end: int) -> Text:
        self._log.read(start, end)
        return Text(self._body.text(start, end), Span(start, end))

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file.")

    def __reduce__(self) -> Any:
        raise TypeError("an open document cannot be copied: open it again")
