"""Builds the text of a document: lines, paragraphs, headings, rows of tables, and the notes below them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rlm.documents.formats.csv_lines import LINE_END
from rlm.documents.formats.piece import Heading, Piece, Text, text_of

__all__ = [
    "LONGEST_CELL",
    "SEPARATOR",
    "Flow",
    "cell_of_lines",
    "field_target",
    "link_target",
    "row_line",
    "rows",
    "table_lines",
]

SEPARATOR = " | "
LONGEST_CELL = 1_000
"""Characters. A longer cell is a part of a page, not of a table."""
_MAX_CELLS = 10_000
_WEB_LINK = re.compile(r"(?:https?|ftp|mailto|tel):", re.I)
_LONGEST_LINK = 2_000
_SHOWN_OF_FIELD = 50
"""Words of a line that may be those of its last field."""
_FIELD = re.compile(r'\s*HYPERLINK\s+"([^"]{1,2000})"')
_SPACE = re.compile(r"[ \t\r\n\f]+")


class Flow:
    """Collects pieces. One blank line parts what is put apart, and none is at the start.

    `level` is that of the open line if it is a heading, `mark` what stands before the text of a note.
    """

    def __init__(self, mark: str = "") -> None:
        self.pieces: list[Piece] = []
        self.level = 0
        self.mark = mark
        self.words: list[str] = []
        """The words of the open line."""
        self._cells: list[str] = []
        self._after: list[str] = []
        self._is_blank = True
        self._wants_blank = False
        self._gap = False

    def fold(self, text: str) -> None:
        """Add text to the open line, with its white space folded, also over the border to the next words."""
        folded = _SPACE.sub(" ", text)
        self._gap = self._gap or folded[:1] == " "
        if words := folded.strip(" "):
            if self._gap and self.words and not self.words[-1].endswith(("\t", " ")):
                self.words.append(" ")
            self.words.append(words)
            self._gap = folded[-1:] == " "

    def mark_line(self, text: str) -> None:
        """Add a bullet or a tab to the open line, unchanged."""
        self.words.append(text)
        self._gap = False

    def put(self, text: str, *, level: int = 0, is_apart: bool = True) -> None:
        """Add a paragraph, a line that is not apart from those around it, or a heading."""
        if (self._wants_blank or is_apart) and not self._is_blank:
            self.pieces.append(Text("\n"))
        self.pieces.append(Heading(min(level, 6), " ".join(text.split())) if level else Text(f"{text}\n"))
        # No blank line follows a heading, unless it is wanted.
        self._is_blank = not text or (level > 0 and not is_apart)
        self._wants_blank = is_apart

    def part(self) -> None:
        """Let a blank line come before what follows."""
        self._wants_blank = True

    def end_line(self, *, is_apart: bool = False, keep: bool = False) -> None:
        """Put the open line, if it holds anything. With `keep` an empty line counts."""
        text = "".join(self.words)
        self.words.clear()
        self._gap = False
        if text.strip() or (keep and not self._is_blank):
            level, self.level = self.level, 0
            self.put(text.rstrip(" \t"), level=level, is_apart=is_apart)

    def put_table(self, table: Sequence[list[str]], *, has_header: bool) -> None:
        """Add a table, each row on a line."""
        self.put("\n".join(table_lines(table, has_header=has_header)))

    def extend(self, pieces: Iterable[Piece]) -> None:
        """Add what another part of the document holds."""
        before = len(self.pieces)
        self.pieces += pieces
        self._is_blank = self._is_blank and len(self.pieces) == before
        self._wants_blank = True

    def add_after(self, text: str) -> None:
        """Add text that belongs below the open paragraph or row: a note, a text box, a chart."""
        if text.strip():
            self._after.append(text.strip("\n"))

    def end_notes(self, *, is_apart: bool = False) -> None:
        """Put what belongs below the paragraph or row before."""
        after, self._after = self._after, []
        for text in after:
            self.put(text, is_apart=is_apart)
        if after:
            self.part()

    def move_notes(self, other: Flow) -> None:
        """Let the notes of a cell stand below the table that it is in."""
        other._after += self._after
        self._after = []

    def end_cell(self) -> None:
        """End a cell of a table, whose text is the open line."""
        if len(self._cells) < _MAX_CELLS:
            self._cells.append("".join(self.words))
        else:
            self._cells[-1] += " " + "".join(self.words)
        self.words.clear()

    @property
    def is_in_row(self) -> bool:
        """Return whether a cell of a row has ended, and the row has not."""
        return bool(self._cells)

    def end_row(self) -> None:
        """End a row of a table."""
        if line := rows([self._cells]).rstrip("\n"):
            self.put(line, is_apart=False)
        self._cells.clear()
        self.end_notes()

    def end(self) -> None:
        """End what is open."""
        if self._cells:
            self.end_cell()
            self.end_row()
        self.end_line()
        self.end_notes()

    def take(self) -> list[Piece]:
        """Return the pieces and forget them."""
        taken, self.pieces = self.pieces, []
        return taken

    def text(self) -> str:
        """Return the text of the pieces."""
        return text_of(self.pieces)


def rows(table: Sequence[Sequence[str]]) -> str:
    """Return a table as lines, its cells between ` | `. Rows without text are left out."""
    lines = (row_line([" ".join(cell.split()) for cell in row]) for row in table if any(map(str.strip, row)))
    return "".join(f"{line}\n" for line in lines)


def row_line(cells: list[str]) -> str:
    """Return a row as a line, without the empty cells at its end."""
    while cells and not cells[-1]:
        cells = cells[:-1]
    return SEPARATOR.join(cells)


def cell_of_lines(lines: Sequence[str]) -> str:
    """Return the lines of a cell as one."""
    return f" {LINE_END} ".join(stripped for line in lines if (stripped := line.strip()))


def table_lines(table: Sequence[list[str]], *, has_header: bool) -> Iterator[str]:
    """Yield each row as a line. A table whose first row is a header is written as Markdown writes one, with
    bars around its rows and a rule below the header: its rows can be read as records."""
    width = len(table[0]) if has_header and table and len(table[0]) > 1 else 0
    for at, row in enumerate(table):
        yield _bars([*row, *[""] * (width - len(row))]) if width else row_line(row)
        if width and not at:
            yield _bars(["---"] * width)


def _bars(cells: list[str]) -> str:
    return f"| {SEPARATOR.join(cells)} |"


def link_target(address: str, text: str) -> str:
    """Return ` (address)` for a link that leads to another place than its text says; else ""."""
    address = " ".join(address.split())
    bare = re.sub(r"^(?:mailto:|tel:|https?://)|/$", "", address, flags=re.I)
    if not _WEB_LINK.match(address) or len(address) > _LONGEST_LINK or bare in text:
        return ""
    return f" ({address.removeprefix('mailto:')})"


def field_target(instruction: str, words: Sequence[str]) -> str:
    """Return ` (address)` for a link that is a field of Word. `words` are those up to its end."""
    found = _FIELD.match(instruction)
    return link_target(found[1], "".join(words[-_SHOWN_OF_FIELD:])) if found else ""
