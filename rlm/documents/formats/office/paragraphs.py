"""Collects paragraphs, table rows and headings of a text that comes as a stream of words."""

from __future__ import annotations

from rlm.documents.formats.office_xml.xml import rows
from rlm.documents.formats.piece import Heading, Piece, Text, text_of

__all__ = ["Paragraphs"]

_MAX_CELLS = 10_000


class Paragraphs:
    """The paragraphs of a text, and their pieces. `level` is that of the open paragraph if it is a heading,
    `mark` what stands before the text of a note."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.level = 0
        self.is_in_table = False
        self.mark = ""
        self._words: list[str] = []
        self._cells: list[str] = []
        self._after: list[str] = []

    def add(self, text: str) -> None:
        """Add text to the open paragraph."""
        self._words.append(text)

    def add_after(self, text: str) -> None:
        """Add text that belongs below the open paragraph: a note."""
        if text.strip():
            self._after.append(text)

    def reset(self) -> None:
        """Begin a paragraph without properties."""
        self.level = 0
        self.is_in_table = False

    def end_paragraph(self) -> None:
        """End the paragraph. Within a table, the cell goes on."""
        if self.is_in_table or self._cells:
            self._words.append(" ")
            return
        text = "".join(self._words).strip(" \r\n")
        self._words.clear()
        if text.strip():
            heading = Heading(min(self.level, 6), " ".join(text.split())) if self.level else None
            self.pieces.append(heading or Text(f"{text}\n"))
        elif self.pieces and not _is_blank(self.pieces[-1]):
            self.pieces.append(Text("\n"))
        self._end_notes()

    def end_cell(self) -> None:
        """End a cell of a table."""
        if len(self._cells) < _MAX_CELLS:
            self._cells.append("".join(self._words))
        else:
            self._cells[-1] += " " + "".join(self._words)
        self._words.clear()

    def end_row(self) -> None:
        """End a row of a table."""
        if line := rows([self._cells]):
            self.pieces.append(Text(line))
        self._cells.clear()
        self._end_notes()

    def end(self) -> None:
        """End what is open."""
        self.is_in_table = False
        if self._cells:
            self.end_cell()
            self.end_row()
        if "".join(self._words).strip():
            self.end_paragraph()
        self._end_notes()

    def take(self) -> list[Piece]:
        """Return the pieces and forget them."""
        taken, self.pieces = self.pieces, []
        return taken

    def text(self) -> str:
        """Return the text of the pieces."""
        return text_of(self.pieces)

    def _end_notes(self) -> None:
        if self._after:
            self.pieces.append(Text("".join(self._after)))
            self._after.clear()


def _is_blank(piece: Piece) -> bool:
    return isinstance(piece, Text) and piece.text == "\n"
