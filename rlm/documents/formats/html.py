"""Reading of HTML: each block on its own line, with headings, without scripts and styles."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, BinaryIO

from selectolax.lexbor import LexborHTMLParser

from rlm.documents.encoding import decode_whole
from rlm.documents.formats.flow import LONGEST_CELL, Flow, cell_of_lines, link_target, table_lines
from rlm.documents.formats.numbering import FORMS, written
from rlm.documents.formats.piece import Ended, Fault, Piece, text_of

__all__ = ["decode_markup", "pieces_of_markup", "read_html"]

parse: Callable[[str], Any] = LexborHTMLParser
"""Gives the tree of a page. It is written in C: a process that reads several documents replaces it."""
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
_MOST_ATTRIBUTES = 5_000
_LONG_TAG = re.compile(r"<[A-Za-z][^<>]{10000,}")
_QUOTED = re.compile(r""""[^"]*"|'[^']*'""")
_MARKUP_AS_TEXT = "rename it to .txt to have its markup read as text"
_SPANNED_COLUMNS, _SPANNED_ROWS = 100, 10_000
_PARTS_OF_PAGES = "table table, table h1, table h2, table h3, table h4, table h5, table h6, table pre"
_BULLET = "- "
_LABEL = re.compile(r"- |-?\w{1,20}\. ")
_INTEGER = re.compile(r"\s*(-?\d{1,9})")


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_SILENT = _words("script style noscript template head iframe object canvas audio video datalist")
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = _words(
    "address article aside blockquote body center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form header hr html li main menu nav ol option p pre section summary table tbody tfoot thead tr "
    "ul caption"
)
_APART = _words("p ul ol dl table pre blockquote article section figure")
_PREFORMATTED = _words("pre xmp listing plaintext textarea")
_UNTYPED = _words("hidden password checkbox radio file image")
"""Inputs whose value nobody sees."""


def read_html(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the text of an HTML file. Its title comes first, unless it equals the first heading."""
    markup, replaced, guessed = decode_markup(file.read())
    yield from pieces_of_markup(markup)
    yield Ended(replaced, guessed)


def decode_markup(data: bytes, label: str | None = None) -> tuple[str, int, str]:
    """Return the text of a page, the number of replaced characters, and the guessed encoding. `label` is
    what a mail says of it; without one, the page's own counts."""
    if not label and (named := _CHARSET.search(data[:_SNIFFED])):
        label = named[1].decode("ascii", "replace")
    return decode_whole(data, label)


def pieces_of_markup(markup: str, *, titled: bool = True) -> Iterator[Piece]:
    """Yield text and headings of one page of HTML. Raises Fault if it is nested too deeply."""
    if _XHTML.match(markup):
        # XML closes an element by `/>`. The parser of HTML ignores that.
        markup = _SELF_CLOSED.sub(r"<\1\2></\1>", markup)
    _check_depth(markup)
    _check_attributes(markup)
    tree = parse(markup)
    page = _Page()
    title = tree.css_first("title") if titled else None
    if title is not None and (name := _fold(title.text())):
        first = tree.css_first("h1")
        if first is None or _fold(first.text()) != name:
            page.flow.put(name)
    yield from page.walk(tree.body, _layout_tables(tree))
    page.flow.end()
    yield from page.flow.take()


class _Page:
    """Writes the elements of a page."""

    def __init__(self) -> None:
        self.flow = Flow()
        self._preformatted = 0
        self._numbers: dict[int, int] = {}
        """The number of the last item of each ordered list."""

    def walk(self, node: Any, layout: Collection[int]) -> Iterator[Piece]:
        """Write a node and what is in it. Yield what there is when it is much."""
        # Compare identities: comparing nodes compares their markup.
        top = node.mem_id if node is not None else None
        while node is not None:
            if node.tag == "table" and node.mem_id not in layout:
                self._table(node)
                is_entered = False
            else:
                is_entered = self._enter(node)
            if len(self.flow.pieces) >= _FLUSH:
                yield from self.flow.take()
            following = node.child if is_entered else None
            while following is None and node is not None:
                if is_entered:
                    self._leave(node)
                if node.mem_id == top:
                    return
                following = node.next
                node = node.parent
                is_entered = True
            node = following

    def _end(self, tag: str) -> None:
        """End the line before or after a block. A bullet waits for the text of its item."""
        if not self._is_label():
            self._line()
        if tag in _APART or tag in _HEADINGS:
            self.flow.part()

    def _label(self, item: Any) -> str:
        """Return what stands before the text of an item: its number in an ordered list, or a bullet."""
        items = item.parent
        if items is None or items.tag != "ol":
            return _BULLET
        stated = _number(item, "value")
        if stated is None and (before := self._numbers.get(items.mem_id)) is not None:
            stated = before + (-1 if "reversed" in items.attributes else 1)
        value = stated if stated is not None else _first_number(items)
        self._numbers[items.mem_id] = value
        return f"{written(value, FORMS.get(items.attributes.get('type') or '1', 'decimal'))}. "

    def _is_label(self) -> bool:
        """Return whether the open line holds no more than the label of an item."""
        return len(self.flow.words) == 1 and _LABEL.fullmatch(self.flow.words[0]) is not None

    def _line(self, *, keep: bool = False) -> None:
        self.flow.end_line(is_apart=self.flow.level > 0, keep=keep)

    def _text(self, text: str) -> None:
        if not self._preformatted or self.flow.level:
            self.flow.fold(text)
            return
        *lines, last = text.replace("\r\n", "\n").split("\n")
        for line in lines:
            self.flow.words.append(line)
            self.flow.end_line(keep=True)
        self.flow.words.append(last)

    def _enter(self, node: Any) -> bool:
        """Write what begins a node. Return whether its children are to be visited."""
        tag, flow = node.tag, self.flow
        if tag == "-text":
            self._text(node.text_content or "")
            return False
        if tag is None or tag.startswith("-") or tag in _SILENT:
            return False
        if tag == "math":
            # Its letters alone are no formula.
            flow.fold(node.attributes.get("alttext") or _tex_of(node) or node.text())
            return False
        if tag == "br":
            self._line(keep=True)
        elif tag == "img":
            if alt := _fold(node.attributes.get("alt") or ""):
                flow.fold(f" [{alt}] ")
        elif tag == "input":
            if (node.attributes.get("type") or "").lower() not in _UNTYPED:
                flow.fold(f" {node.attributes.get('value') or ''} ")
        elif tag in _HEADINGS:
            self._end(tag)
            flow.level = _HEADINGS[tag]
        elif tag in ("td", "th"):
            if _has_cell_before(node):
                flow.mark_line("\t")
        elif tag in _BLOCKS and not _fills_cell(node):
            self._end(tag)
            if tag == "li":
                flow.words.clear()
                flow.mark_line(self._label(node))
        self._preformatted += tag in _PREFORMATTED
        return True

    def _leave(self, node: Any) -> None:
        tag, flow = node.tag, self.flow
        if tag in _HEADINGS:
            self._line()
            flow.level = 0
        elif tag == "a":
            if target := link_target(node.attributes.get("href") or "", node.text()):
                flow.fold(target)
        elif tag in _BLOCKS and not _fills_cell(node):
            if tag == "li" and self._is_label():
                flow.words.clear()  # an item without text
            self._end(tag)
        self._preformatted = max(0, self._preformatted - (tag in _PREFORMATTED))

    def _table(self, table: Any) -> None:
        """Write a table that is no layout: its caption, then each row on a line. A cell that spans several
        rows counts in each of them."""
        self._end("table")
        held: dict[int, tuple[int, str]] = {}
        grid: list[list[str]] = []
        has_header = False
        for part in table.css("caption, tr"):
            if part.tag == "caption":
                self.flow.put(" ".join(filter(None, _lines_of(part))), is_apart=False)
                continue
            row: list[str] = []
            cell = part.child
            while cell is not None:
                if cell.tag in ("td", "th"):
                    _take_held(row, held)
                    text = cell_of_lines(_lines_of(cell))
                    if (spanned := _span(cell, "rowspan", _SPANNED_ROWS)) > 1:
                        held[len(row)] = spanned - 1, text
                    row += [text] + [""] * (_span(cell, "colspan", _SPANNED_COLUMNS) - 1)
                cell = cell.next
            _take_held(row, held)
            has_header = has_header or (not grid and part.css_first("th") is not None)
            grid.append(row)
        for line in table_lines(grid, has_header=has_header):
            if line.strip():
                self.flow.put(line, is_apart=False)
        self.flow.part()


def _lines_of(cell: Any) -> list[str]:
    """Return the lines of a cell."""
    page = _Page()
    pieces = list(page.walk(cell, ()))
    page.flow.end()
    return [line.strip() for line in text_of([*pieces, *page.flow.take()]).split("\n")]


def _layout_tables(tree: Any) -> set[int]:
    """Return the tables, by `mem_id`, that lay out a page: they hold tables, headings or long texts."""
    layout: set[int] = set()
    if tree.css_first("table") is None:
        return layout
    for part in tree.css(_PARTS_OF_PAGES):
        table = _table_above(part)
        while table is not None and table.mem_id not in layout:
            layout.add(table.mem_id)
            table = _table_above(table)
    for cell in tree.css("td, th"):
        table = _table_above(cell)
        if table is not None and table.mem_id not in layout and len(cell.text()) > LONGEST_CELL:
            layout.add(table.mem_id)
    return layout


def _table_above(node: Any) -> Any:
    node = node.parent
    while node is not None and node.tag != "table":
        node = node.parent
    return node


def _take_held(row: list[str], held: dict[int, tuple[int, str]]) -> None:
    """Add the cells of rows above that reach into this one, up to the next free column."""
    while len(row) in held:
        column = len(row)
        more, text = held.pop(column)
        if more > 1:
            held[column] = more - 1, text
        row.append(text)


def _span(cell: Any, name: str, most: int) -> int:
    given = (cell.attributes.get(name) or "1").strip()[:6]
    return min(max(1, int(given)), most) if given.isdecimal() else 1


def _number(node: Any, name: str) -> int | None:
    found = _INTEGER.match(node.attributes.get(name) or "")
    return int(found[1]) if found else None


def _first_number(items: Any) -> int:
    """Return the number with which an ordered list begins."""
    start = _number(items, "start")
    if start is None and "reversed" in items.attributes:
        return sum(child.tag == "li" for child in items.iter())
    return 1 if start is None else start


def _check_depth(markup: str) -> None:
    """Raise Fault for deep nesting: the parser takes time quadratic in the depth."""
    depth = 0
    for tag in _NESTING.finditer(markup):
        if tag[1]:
            depth = max(0, depth - 1)
            continue
        depth += 1
        if depth > _DEEPEST:
            raise Fault("deep", f"more than {_DEEPEST:,}", _MARKUP_AS_TEXT)


def _check_attributes(markup: str) -> None:
    """Raise Fault for a tag with too many attributes: the parser compares each with all others."""
    for tag in _LONG_TAG.finditer(markup):
        bare = _QUOTED.sub("", tag[0])
        if max(len(bare.split()), bare.count("=")) > _MOST_ATTRIBUTES:
            raise Fault("large", f"more than {_MOST_ATTRIBUTES:,} attributes on one tag", _MARKUP_AS_TEXT)


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
    while before is not None and before.tag not in ("td", "th"):
        before = before.prev
    return before is not None


def _tex_of(formula: Any) -> str:
    """Return the source in TeX that a formula carries, "" without one."""
    note = formula.css_first('annotation[encoding="application/x-tex"]')
    return "" if note is None else note.text()


def _fold(text: str) -> str:
    return " ".join(text.split())
