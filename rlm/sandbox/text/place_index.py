"""Looks up page, message and headings of an offset in mapped tables.

The index of a context holds three tables after its checkpoints. A row is a few unsigned 64-bit numbers; the
first is a character of the body, and rows are in the body's order. Millions of messages cost pages of a file,
not objects.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "HEADING_COLUMNS",
    "MESSAGE_COLUMNS",
    "PAGE_COLUMNS",
    "Marks",
    "MessageHeader",
    "Place",
    "Table",
    "packed",
]

PAGE_COLUMNS = 1
"""start"""
MESSAGE_COLUMNS = 3
"""start, end, lengths of number, role, author and time in its header line"""
HEADING_COLUMNS = 3
"""start, (level, offset of the title, its length), row of the heading above it plus 1 (0: there is none)"""

_BITS = 16
_MASK = (1 << _BITS) - 1
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a character in its document.

    `line` counts from 1 over the whole body, `page` and `message` from 1 within the document. `heading_path`
    starts at the top heading. A field is None or empty if the document has no such information.
    """

    document: str
    kind: str
    line: int
    page: int | None = None
    message: int | None = None
    role: str = ""
    author: str = ""
    time: str = ""
    heading_path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """The first line of a message: `[3] user/Anna 2026-05-01 10:00`. Unknown parts are left out."""

    number: int
    role: str = ""
    author: str = ""
    time: str = ""

    def rendered(self) -> tuple[str, int]:
        """Return the line with its line end, and the packed lengths of its parts for the table."""
        number = f"[{self.number}]"
        role, author, time = (_tame(part) for part in (self.role, self.author, self.time))
        line = number
        if role or author:
            line += f" {role}"
        if author:
            line += f"/{author}" if role else author
        if time:
            line += f" {time}"
        return line + "\n", packed(len(number), len(role), len(author), len(time))


def packed(*parts: int) -> int:
    """Pack up to four numbers below 65,536 into one."""
    whole = 0
    for at, part in enumerate(parts):
        whole |= min(part, _MASK) << (_BITS * at)
    return whole


def _unpacked(whole: int) -> tuple[int, int, int, int]:
    return tuple(whole >> (_BITS * at) & _MASK for at in range(4))  # type: ignore[return-value]


def _tame(part: str) -> str:
    """Return `part` as one line of limited length."""
    return " ".join(part.split())[:_LONGEST].strip()


class Table(Sequence[int]):
    """The first column of a table, for bisection. `row` returns the other columns.

    The first `places` columns are characters of the body. A window of a table holds `rows` rows from `first`
    on, and counts characters from `shift`.
    """

    __slots__ = ("_cells", "_columns", "_places", "_rows", "_shift", "first")

    def __init__(
        self,
        cells: Any,
        columns: int,
        places: int = 1,
        *,
        first: int = 0,
        rows: int | None = None,
        shift: int = 0,
    ) -> None:
        self._cells = cells
        self._columns = columns
        self._places = places
        self._rows = len(cells) // columns if rows is None else rows
        self._shift = shift
        self.first = first

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            return [self[index] for index in range(start, stop, step)]
        if not 0 <= at < self._rows:
            raise IndexError(at)
        return int(self._cells[(self.first + at) * self._columns]) - self._shift

    def row(self, at: int) -> tuple[int, ...]:
        """Return all columns of a row."""
        start = (self.first + at) * self._columns
        cells = self._cells[start : start + self._columns]
        return tuple(
            cell - self._shift if column < self._places else cell for column, cell in enumerate(cells)
        )

    def last(self, char: int, start: int) -> int | None:
        """Return the last row that begins at or before `char` and not before `start`."""
        found = bisect_right(self, char) - 1
        return found if found >= 0 and self[found] >= start else None

    def between(self, start: int, end: int) -> range:
        """Return the rows that begin from `start` on and before `end`."""
        return range(bisect_left(self, start), bisect_left(self, end))

    def window(self, start: int, end: int) -> Table:
        """Return the rows that begin between these characters, with offsets from `start`."""
        rows = self.between(start, end)
        return Table(
            self._cells,
            self._columns,
            self._places,
            first=self.first + rows.start,
            rows=len(rows),
            shift=self._shift + start,
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """The tables of one body: the starts of pages, messages and headings."""

    pages: Table
    messages: Table
    headings: Table

    def window(self, start: int, end: int) -> Marks:
        """Return the rows that begin between these characters, with offsets from `start`."""
        return Marks(
            self.pages.window(start, end), self.messages.window(start, end), self.headings.window(start, end)
        )

    def page(self, char: int, document_start: int) -> int | None:
        """Return the number (from 1) of the page that holds `char`, or None."""
        found = self.pages.last(char, document_start)
        return None if found is None else found - bisect_left(self.pages, document_start) + 1

    def message(self, char: int, document_start: int) -> int | None:
        """Return the row of the message that holds `char`, or None between messages."""
        found = self.messages.last(char, document_start)
        return None if found is None or char >= self.messages.row(found)[1] else found

    def header(self, row: int, line: str) -> MessageHeader:
        """Parse the first line of the message in `row`."""
        number, role, author, time = _unpacked(self.messages.row(row)[2])
        role_at = number + 1
        author_at = role_at + role + (1 if role else 0)
        time_at = len(line.rstrip("\n")) - time
        return MessageHeader(
            number=int(line[1 : number - 1]),
            role=line[role_at : role_at + role],
            author=line[author_at : author_at + author],
            time=line[time_at : time_at + time],
        )

    def path(self, char: int, document_start: int) -> tuple[int, ...]:
        """Return the rows of the headings above `char`, the top one first."""
        rows: list[int] = []
        found = self.headings.last(char, document_start)
        while found is not None:
            rows.append(found)
            above = self.headings.row(found)[2] - self.headings.first
            # A row may only point back, so that a damaged index cannot cause an endless loop.
            found = above - 1 if 0 < above <= found else None
        return tuple(reversed(rows))

    def title(self, row: int) -> tuple[int, int]:
        """Return start and end of the title of the heading in `row`."""
        start, facts, _ = self.headings.row(row)
        _, offset, length, _ = _unpacked(facts)
        return start + offset, start + offset + length

    def level(self, row: int) -> int:
        """Return the level (from 1) of the heading in `row`."""
        return _unpacked(self.headings.row(row)[1])[0]
