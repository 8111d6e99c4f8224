"""Rendering of one document into the body, by its kind."""

from __future__ import annotations

import codecs
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rlm.documents.chat import form_of, render
from rlm.documents.encoding import Decoder
from rlm.documents.formats.containers.members import Members
from rlm.documents.formats.converter import Converter, Room
from rlm.documents.formats.office.latex import LatexWriter
from rlm.documents.formats.piece import Heading, Note, Page, Text, Unread, Unreadable
from rlm.documents.formats.registry import format_of
from rlm.documents.loaded import GuessedEncoding, Loaded, Skipped
from rlm.documents.markdown import MarkdownWriter
from rlm.lazy_dataclass import dataclass
from rlm.sandbox.context.writer import ContextFile, ContextFileWriter

__all__ = ["LINE_WRITERS", "Account", "Given", "Rendered", "Rendering"]

_RECENT = 2
"""Lines that are not repeated."""
LINE_WRITERS: dict[str, type[MarkdownWriter] | type[LatexWriter]] = {
    "markdown": MarkdownWriter,
    "latex": LatexWriter,
}
"""Kinds of text that stay as they are, and whose headings are indexed."""

Given = Iterator[bytes | str]
"""The content of a document in blocks."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """Facts about a rendered document: the characters that could not be decoded, the guessed encoding, and
    notes. `members` are the documents in its file, which are still to be read."""

    replaced: int = 0
    guessed: str | None = None
    notes: tuple[Note, ...] = ()
    members: Members | None = None


class Rendering:
    """Writes documents into a context. `begin` is called with the kind before the first text of a
    document, and `keep` with the file of a document that has pages, once it is written."""

    def __init__(
        self,
        writer: ContextFileWriter,
        converter: Converter,
        begin: Callable[[str], None],
        tick: Callable[[], None],
        spool: Path,
        keep: Callable[[BinaryIO], None] | None = None,
    ) -> None:
        self._writer = writer
        self._converter = converter
        self._begin = begin
        self._tick = tick
        self._spool = spool
        self._keep = keep

    def render(
        self,
        kind: str,
        given: Given,
        file: BinaryIO | None,
        *,
        search_chats: bool,
        outer: Room | None = None,
    ) -> Rendered:
        """Write the document with the blocks `given`. `file` holds the same content if the document is a
        file. `outer` is the room of the file that it is in.

        With `search_chats`, JSON may be rendered as a chat. Raises Unreadable before anything is written.
        """
        if format_of(kind).is_converted:
            if file is not None:
                return self._convert(kind, file, outer)
            with self._spool_blocks(given) as spooled:
                return self._convert(kind, spooled, outer)
        decoder = Decoder()
        if search_chats:
            texts = _Texts(decoder, given)
            head = next(texts).removeprefix("\ufeff")
            form = form_of(head, lines=kind == "jsonl")
            if form is not None:
                self._begin(form.partition(":")[0])
                fault = render(itertools.chain((head,), texts), form, self._writer)
                return Rendered(texts.replaced, decoder.guessed, (Note(fault),) if fault else ())
            self._begin(kind)
            self._writer.write(head)
            for text in texts:
                self._writer.write(text)
            return Rendered(texts.replaced, decoder.guessed)
        self._begin(kind)
        if kind in LINE_WRITERS:
            marking = LINE_WRITERS[kind](self._writer)
            for block in given:
                fed = block if isinstance(block, str) else decoder.feed(block)
                marking.feed(fed.encode("utf-8", "surrogatepass") if isinstance(fed, str) else fed)
            marking.feed(decoder.finish().encode())
            marking.finish()
        else:
            for block in given:
                self._writer.write(block if isinstance(block, str) else decoder.feed(block))
            self._writer.write(decoder.finish())
        return Rendered(decoder.replaced, decoder.guessed)

    def render_member(self, kind: str, members: Members) -> Rendered:
        """Write a member whose text the reader of its file yields. Raises Unreadable before anything is
        written."""
        begun, notes = self._write_pieces(kind, members)
        if not begun:
            raise Unreadable("empty", "")
        return Rendered(notes=notes)

    def _convert(self, kind: str, file: BinaryIO, outer: Room | None) -> Rendered:
        row = format_of(kind)
        size = os.fstat(file.fileno()).st_size
        room = Room(row, size, outer)
        pieces = self._converter.pieces(file.fileno(), size, kind, self._tick, room)
        members = Members(pieces, room)
        begun, notes = self._write_pieces(kind, members)
        if not begun and not members.has_next:
            what = f"{row.article} without any file" if row.is_container else "without any text"
            raise Unreadable(what, "name a file that holds text")
        if begun and self._keep is not None and row.page_reader:
            self._keep(file)
        ended = members.ended
        return Rendered(ended.replaced, ended.guessed, notes, members if members.has_next else None)

    def _write_pieces(self, kind: str, members: Members) -> tuple[bool, tuple[Note, ...]]:
        """Write the text up to the next member. Return whether there was any, and the notes. Raises
        Unreadable if the whole text cannot be read."""
        begun = False
        notes: list[Note] = []
        writer = self._writer
        for piece in members.content():
            if isinstance(piece, Text | Heading | Page) and not begun:
                if isinstance(piece, Text) and not piece.text.strip():
                    continue
                begun = True
                self._begin(kind)
            match piece:
                case Text(text):
                    writer.write(text)
                case Heading(level, title):
                    if title:
                        writer.write_heading(level, title)
                case Page():
                    writer.begin_page()
                case Note():
                    notes.append(piece)
                case Unread(reason, remedy):
                    if not begun:
                        raise Unreadable(reason, remedy)
                    notes.append(Note(Unreadable(reason, remedy).cut_note))
        fault = members.fault
        if fault is not None:
            if not begun:
                raise fault
            notes.append(Note(fault.cut_note))
        return begun, tuple(notes)

    def _spool_blocks(self, given: Given) -> BinaryIO:
        """Write the blocks to a file without a name."""
        spooled = tempfile.TemporaryFile(dir=self._spool)  # noqa: SIM115
        for block in given:
            spooled.write(block.encode("utf-8", "replace") if isinstance(block, str) else block)
        spooled.flush()
        return spooled


class _Texts(Iterator[str]):
    """Decodes blocks to text. `replaced` counts the characters that could not be decoded."""

    def __init__(self, decoder: Decoder, given: Given) -> None:
        self._texts = self._decode(decoder, given)
        self._replaced = 0
        self._decoder = decoder

    @property
    def replaced(self) -> int:
        return self._replaced + self._decoder.replaced

    def __next__(self) -> str:
        return next(self._texts)

    def _decode(self, decoder: Decoder, given: Given) -> Iterator[str]:
        utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        for block in given:
            fed = block if isinstance(block, str) else decoder.feed(block)
            if isinstance(fed, bytes):
                text = utf8.decode(fed)
                if "\ufffd" in text:
                    self._replaced += max(0, text.count("\ufffd") - fed.count(b"\xef\xbf\xbd"))
            else:
                text = fed
            if text:
                yield text
        yield utf8.decode(b"", True) + decoder.finish()


class Account:
    """Collects skipped files, notes and remarks, each a line that begins with the name of its document."""

    def __init__(self) -> None:
        self.skipped: list[Skipped] = []
        self.notes: list[str] = []
        self.remarks: list[str] = []
        self.in_part: list[str] = []
        self.guessed: list[GuessedEncoding] = []
        self.replaced = 0

    def note(self, name: str, *notes: str) -> None:
        """Add lines about what was not read of a document."""
        self.note_all(name, map(Note, notes))

    def note_all(self, name: str, notes: Iterable[Note]) -> None:
        """Add what a reader noted."""
        for note in notes:
            lines = self.remarks if note.is_remark else self.notes
            # A file that is only packed has the name of its content.
            if (line := f"{name}: {note.message}") not in lines[-_RECENT:]:
                lines.append(line)
                if not note.is_remark:
                    self.in_part.append(name)

    def note_encoding(self, name: str, replaced: int, guessed: str | None) -> None:
        """Add the characters that could not be decoded, and the guessed encoding."""
        self.replaced += replaced
        if guessed is not None:
            self.guessed.append(GuessedEncoding(name, guessed))

    def loaded(self, context: ContextFile, warning: str) -> Loaded:
        """Return the finished context with what is to be told of it. `warning` comes first."""
        return Loaded(
            context,
            tuple(self.skipped),
            context.replaced + self.replaced,
            tuple(self.guessed),
            tuple(self.notes),
            remarks=tuple(filter(None, (warning, *self.remarks))),
            in_part=tuple(dict.fromkeys(self.in_part)),
        )
