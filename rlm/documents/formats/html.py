"""Reading of HTML: each block on its own line, with headings, without scripts and styles."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import field
from typing import Any, BinaryIO

from selectolax.lexbor import LexborHTMLParser

from rlm.documents.encoding import decode_whole, prepare_encodings
from rlm.documents.formats.piece import Ended, Heading, Piece, Text, Unreadable, text_of
from rlm.documents.formats.tables.markup_rows import layout_tables, table_rows
from rlm.lazy_dataclass import dataclass

__all__ = ["decode_markup", "pieces_of_markup", "prepare", "read_html"]

_DEEPEST = 5_000
_FLUSH = 1_000
_SNIFFED = 4096
_CHARSET = re.compile(
    rb"""(?:<meta[^>]{0,200}?charset\s*=\s*["']?|<\?xml[^>]{0,200}?encoding\s*=\s*["'])([\w.:-]+)""",
    re.I,
)
# Elements that only their own end tag closes. Others may be left open by the thousand without nesting.
_NESTING = re.compile(
    r"<(/?)(?:div|span|section|article|main|aside|blockquote|ul|ol|dl|table|b|i|u|em|strong|font|small|big|center"
    r"|a|code|pre|form|svg|g|math|button|nobr|s|tt|sub|sup|fieldset|details|figure|header|footer|nav)[\s/>]",
    re.I,
)
_XHTML = re.compile(r"\A\s{0,200}<\?xml\s|\A[^\0]{0,4000}?<html\s[^>]{0,500}?\bxmlns\s?=", re.I)
_SELF_CLOSED = re.compile(
    r"<(title|script|style|textarea|iframe|noscript|template|object|canvas|audio|video|select|datalist)"
    r"(\s[^<>]{0,5000})?/>",
    re.I,
)
"""Elements whose content is no text, or no markup: left open they swallow the rest of the page."""
_BULLET = "- "
_MOST_ATTRIBUTES = 5_000
_LONG_TAG = re.compile(r"<[A-Za-z][^<>]{10000,}")
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
_SPACE = re.compile(r"[ \t\r\n\f]+")


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SILENT = _words(
    "script style noscript template svg head iframe object canvas audio video select datalist textarea"
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = _words(
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form header hr html li main menu nav ol p pre section summary table tbody tfoot thead tr ul "
    "caption"
)
_APART = _words("p ul ol dl table pre blockquote article section figure")
_PREFORMATTED = _words("pre xmp listing plaintext")


def prepare() -> None:
    """Import what reading needs: later nothing can be opened."""
    prepare_encodings()
    list(pieces_of_markup("<title>a</title><h1>b</h1><table><tr><td>c</td><td>d</td></tr></table>"))


def read_html(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the text of an HTML file. Its title comes first, unless it equals the first heading."""
    markup, replaced, guessed = decode_markup(file.read())
    yield from pieces_of_markup(markup)
    yield Ended(replaced, guessed)


def pieces_of_markup(markup: str, *, titled: bool = True) -> Iterator[Piece]:
    """Yield text and headings of one page of HTML. Raises Unreadable if it is nested too deeply."""
    if _XHTML.match(markup):
        # XML closes an element by `/>`. The parser of HTML ignores that.
        markup = _SELF_CLOSED.sub(r"<\1\2></\1>", markup)
    _check_depth(markup)
    _check_attributes(markup)
    tree = LexborHTMLParser(markup)
    writer = _Writer()
    title = tree.css_first("title") if titled else None
    if title is not None and (name := _fold(title.text())):
        first = tree.css_first("h1")
        if first is None or _fold(first.text()) != name:
            writer.words(name)
            writer.paragraph()
    layout = layout_tables(tree)
    yield from _walk(tree.body, writer, layout)
    yield from writer.finish()


def _walk(node: Any, writer: _Writer, layout: Collection[int]) -> Iterator[Piece]:
    """Write a node and what is in it. Yield what the writer has when it is much."""
    # Compare identities: comparing nodes compares their markup.
    top = node.mem_id if node is not None else None
    while node is not None:
        if node.tag == "table" and node.mem_id not in layout:
            _write_table(node, writer)
            entered = False
        else:
            entered = _enter(node, writer)
        if len(writer.done) >= _FLUSH:
            yield from writer.take()
        following = node.child if entered else None
        while following is None and node is not None:
            if entered:
                _leave(node, writer)
            if node.mem_id == top:
                node = None
                break
            following = node.next
            node = node.parent
            entered = True
        node = following


def _write_table(table: Any, writer: _Writer) -> None:
    """Write a table, each row on a line."""
    writer.paragraph()
    for line in table_rows(table, _lines_of):
        writer.mark(line)
        writer.line()
    writer.paragraph()


def _lines_of(cell: Any) -> list[str]:
    """Return the lines of a cell."""
    writer = _Writer()
    pieces = [*_walk(cell, writer, ()), *writer.finish()]
    text = text_of(pieces)
    return [line.strip() for line in text.split("\n")]


def decode_markup(data: bytes, label: str | None = None) -> tuple[str, int, str | None]:
    """Return the text of a page, the number of replaced characters, and the guessed encoding. `label` is
    what a mail says of it; without one, the page's own counts."""
    if not label and (named := _CHARSET.search(data[:_SNIFFED])):
        label = named[1].decode("ascii", "replace")
    return decode_whole(data, label)


def _check_depth(markup: str) -> None:
    """Raise Unreadable for deep nesting: the parser takes time quadratic in the depth."""
    depth = 0
    for tag in _NESTING.finditer(markup):
        if not tag[1]:
            depth += 1
            if depth > _DEEPEST:
                raise Unreadable(
                    f"HTML nested more than {_DEEPEST:,} deep",
                    "rename it to .txt to have its markup read as text",
                )
        elif depth:
            depth -= 1


def _check_attributes(markup: str) -> None:
    """Raise Unreadable for a tag with too many attributes: the parser compares each with all others."""
    for tag in _LONG_TAG.finditer(markup):
        bare = _QUOTED.sub("", tag[0])
        if max(len(bare.split()), bare.count("=")) > _MOST_ATTRIBUTES:
            raise Unreadable(
                f"HTML with more than {_MOST_ATTRIBUTES:,} attributes on one tag",
                "rename it to .txt to have its markup read as text",
            )


@dataclass(slots=True)
class _Writer:
    """Collects text, with white space folded and at most one blank line between blocks."""

    done: list[Piece] = field(default_factory=list)
    _line: list[str] = field(default_factory=list)
    _blank: bool = True
    _wants_blank: bool = False
    _gap: bool = False
    preformatted: int = 0
    heading: int = 0

    def words(self, text: str) -> None:
        if self.preformatted and not self.heading:
            lines = text.replace("\r\n", "\n").split("\n")
            for last, line in enumerate(lines, 1 - len(lines)):
                self._line.append(line)
                if last:
                    self.line(keep=True)
            return
        folded = _SPACE.sub(" ", text)
        if folded[:1] == " ":
            self._gap = True
        words = folded.strip(" ")
        if not words:
            return
        if self._gap and self._line and not self._line[-1].endswith(("\t", " ")):
            self._line.append(" ")
        self._line.append(words)
        self._gap = folded[-1:] == " "

    def mark(self, text: str) -> None:
        """Add a bullet or a tab, unchanged."""
        self._line.append(text)
        self._gap = False

    def line(self, *, keep: bool = False) -> None:
        """End the line, if there is one. With `keep` an empty line counts."""
        text = "".join(self._line).rstrip(" \t")
        is_empty = all(part.strip() == "" or part == _BULLET for part in self._line)
        self._line.clear()
        self._gap = False
        level, self.heading = self.heading, 0
        if is_empty and not (keep and not self._blank):
            self.heading = level
            return
        if (self._wants_blank or level) and not self._blank:
            self.done.append(Text("\n"))
        self._wants_blank = False
        self.done.append(Heading(level, text) if level else Text(text + "\n"))
        self._blank = not text
        if level:
            self._wants_blank = True

    def paragraph(self) -> None:
        """End the line. A blank line comes before the next."""
        self.line()
        self._wants_blank = True

    def finish(self) -> list[Piece]:
        """End the last line, and return what is left."""
        self.line()
        return self.take()

    def take(self) -> list[Piece]:
        """Return the finished pieces and forget them."""
        done, self.done = self.done, []
        return done


def _enter(node: Any, writer: _Writer) -> bool:
    """Write what begins a node. Return whether its children are to be visited."""
    tag = node.tag
    if tag == "-text":
        writer.words(node.text_content or "")
        return False
    if tag is None or tag.startswith("-") or tag in _SILENT:
        return False
    if tag == "math":
        # Its letters alone are no formula.
        writer.words(node.attributes.get("alttext") or _tex_of(node) or node.text())
        return False
    if tag == "br":
        writer.line(keep=True)
    elif tag == "img":
        if alt := _fold(node.attributes.get("alt") or ""):
            writer.words(f" [{alt}] ")
    elif tag in _HEADINGS:
        writer.paragraph()
        writer.heading = _HEADINGS[tag]
    elif tag in ("td", "th"):
        if node.prev is not None and _has_cell_before(node):
            writer.mark("\t")
    elif tag in _BLOCKS:
        if _fills_cell(node):
            return True
        (writer.paragraph if tag in _APART else writer.line)()
        if tag == "li":
            writer.mark(_BULLET)
        if tag in _PREFORMATTED:
            writer.preformatted += 1
    return True


def _leave(node: Any, writer: _Writer) -> None:
    tag = node.tag
    if tag in _HEADINGS:
        writer.line()
        writer.heading = 0
    elif tag in _BLOCKS and not _fills_cell(node):
        (writer.paragraph if tag in _APART else writer.line)()
        if tag in _PREFORMATTED:
            writer.preformatted = max(0, writer.preformatted - 1)


def _fills_cell(node: Any) -> bool:
    """Return whether it is the only paragraph of a table cell; then the row stays on one line."""
    parent = node.parent
    if node.tag not in ("p", "div") or parent is None or parent.tag not in ("td", "th"):
        return False
    return not _has_element(node.prev, "prev") and not _has_element(node.next, "next")


def _has_element(node: Any, way: str) -> bool:
    while node is not None:
        if not (node.tag or "-").startswith("-"):
            return True
        node = getattr(node, way)
    return False


def _has_cell_before(node: Any) -> bool:
    before = node.prev
    while before is not None:
        if before.tag in ("td", "th"):
            return True
        before = before.prev
    return False


def _tex_of(formula: Any) -> str:
    """Return the source in TeX that a formula carries, "" without one."""
    note = formula.css_first('annotation[encoding="application/x-tex"]')
    return "" if note is None else note.text()


def _fold(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
