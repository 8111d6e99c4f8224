"""Reads RTF: code pages of fonts, Unicode escapes, headings, tables, footnotes, comments and headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO

from rlm.documents.formats.flow import Flow, field_target
from rlm.documents.formats.numbering import SYMBOLS
from rlm.documents.formats.office_xml import unread_pictures
from rlm.documents.formats.piece import Ended, Fault, Heading, Piece, Problem, Text

__all__ = ["read_rtf"]

_TOKEN = re.compile(
    rb"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?[0-9]{1,10})? ?|\\'(?P<hex>[0-9a-fA-F]{2})"
    rb"|\\(?P<sign>[^a-zA-Z])|(?P<brace>[{}])|[\r\n]+|(?P<text>[^\\{}\r\n]+)|."
)
_MAX_DEPTH = 5_000
_FLUSH = 256
"""Pieces that are collected before they are sent."""
# Windows code pages by the number of a font's character set.
_CHARSETS = {
    77: "mac_roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gbk", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250", 254: "cp437", 255: "cp850",
}  # fmt: skip
_PAGES = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850", "ansi": "cp1252"}
_CODE_PAGES = (
    437, 720, 737, 775, 850, 852, 855, 857, 858, 860, 861, 862, 863, 864, 865, 866, 869, 874, 932, 949,
    950, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258,
)  # fmt: skip
_OTHER_PAGES = {
    936: "gbk",
    1361: "johab",
    10000: "mac_roman",
    10007: "mac_cyrillic",
    54936: "gb18030",
    65001: "utf_8",
}
_SIGNS = {
    "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
    "bullet": "•", "tab": "\t", "line": "\n", "lbr": "\n", "softline": "\n", "enspace": "\u2002",
    "emspace": "\u2003", "qmspace": "\u2005", "zwj": "\u200d", "zwnj": "\u200c",
}  # fmt: skip
_BREAKS = frozenset(("par", "sect", "page", "column"))
_SILENT = frozenset(
    (
        "colortbl", "info", "pict", "object", "filetbl", "listtable", "listoverridetable", "revtbl",
        "rsidtbl", "nonshppict", "shprslt", "sp", "xe", "tc", "rxe", "bkmkstart", "bkmkend",
        "pntxta", "pntxtb", "ftnsep", "ftnsepc", "ftncn", "aftnsep", "aftnsepc", "aftncn", "private",
        "template", "datafield", "formfield", "themedata", "colorschememapping", "latentstyles", "atnid",
        "atnref", "atndate", "atnparent", "objdata", "objclass", "mmathPict",
    )
)  # fmt: skip
"""Groups without text of the document. `\\*` marks others."""
# Groups that `\*` marks, but that hold text.
_KNOWN = frozenset(
    ("shpinst", "shptxt", "annotation", "atnauthor", "ud", "moMath", "moMathPara", "footnote", "fldinst")
)
_COLLECTED = ("style", "font", "author", "instruction")
_MARGINS = frozenset(["header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"])
_HEADING = re.compile(r"\s*(?:heading|überschrift|titre|título|titolo|заголовок)\s*(\d)", re.I)


def read_rtf(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings; footnotes and comments below their paragraph, headers and footers at the end.
    Raises Fault for a file that is not RTF."""
    data = file.read()
    if not data.lstrip(b"\xef\xbb\xbf\r\n\t ").startswith(b"{\\rtf"):
        raise Fault("foreign")
    reader = _Reader(data)
    yield from reader.read()
    yield from reader.margins()
    yield from unread_pictures([""] * reader.pictures)
    if not reader.is_complete:
        yield Problem("it ends in the middle (truncated)", "get it again")
    yield Ended(reader.replaced)


@dataclass(frozen=True, slots=True)
class _State:
    """What a group inherits and its end restores. `sink` says where text goes: None is nowhere."""

    sink: Flow | None
    encoding: str = "cp1252"
    skips: int = 1
    """Characters after a Unicode escape that stand for it."""
    is_hidden: bool = False
    place: str = ""
    """What the group is or is a part of: `fonts`, `font`, `styles`, `style`, `field`, `instruction`."""
    shape: Flow | None = None
    """Where the text of a shape goes. What describes the shape goes nowhere."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._body = Flow()
        self._margins: list[Flow] = []
        self._stack: list[_State] = []
        self._state = _State(self._body)
        self._default = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = self._style = 0
        self._levels: dict[int, int] = {}
        self._name = ""
        """Of the style or the font that is being told."""
        self._bytes = bytearray()
        self._surrogate = 0
        self._to_skip = 0
        self._is_marked = False
        """Whether `\\*` stands before the next word."""
        self._notes = 0
        self._is_in_table = False
        self._author = ""
        self._instruction = ""
        """Of the field that is open."""
        self.pictures = 0
        self.replaced = 0
        self.is_complete = False

    def read(self) -> Iterator[Piece]:
        """Yield the body. Afterwards the other results are known."""
        at, data, match = 0, self._data, _TOKEN.match
        last_group = data.rfind(b"{\\")
        while (token := match(data, at)) is not None:
            at = token.end()
            kind = token.lastgroup
            if kind == "text":
                self._add_bytes(token[0])
            elif kind == "hex":
                self._add_bytes(bytes((int(token["hex"], 16),)))
            elif kind in ("word", "number"):
                number = token["number"]
                word = token["word"].decode("ascii")
                if word == "bin":
                    at += max(0, int(number or 0))
                    continue
                self._word(word, None if number is None else int(number))
            elif kind == "sign":
                self._sign(token["sign"])
            elif token["brace"] == b"{":
                self._open()
            elif token["brace"] == b"}":
                self.is_complete = len(self._stack) == 1
                if self.is_complete and at <= last_group:
                    continue  # a brace too many: programs read on
                self._close()
                if self.is_complete:
                    break
            if len(self._body.pieces) >= _FLUSH:
                yield from self._body.take()
        self._flush()
        self._body.end()
        yield from self._body.take()

    def margins(self) -> Iterator[Piece]:
        """Yield the headers and footers, each text once."""
        texts = dict.fromkeys(one.text() for one in self._margins)
        text = "".join(texts).strip()
        if any(map(str.isalpha, text)):  # more than the number of the page
            yield Heading(1, "Headers and footers")
            yield Text(f"{text}\n")

    def _open(self) -> None:
        self._flush()
        if len(self._stack) >= _MAX_DEPTH:
            raise Fault("deep")
        self._stack.append(self._state)
        self._is_marked = False
        self._to_skip = 0
        if self._state.place in ("fonts", "styles"):
            self._state = replace(self._state, place=self._state.place[:-1])
            self._style, self._name = 0, ""

    def _close(self) -> None:
        self._flush()
        self._to_skip = 0
        if not self._stack:
            return
        ended, self._state = self._state, self._stack.pop()
        if ended.place == "style" and self._state.place == "styles":
            self._end_style()
        elif ended.place == "font" and (name := self._name.strip(" ;")) in SYMBOLS:
            self._fonts[self._font] = name
        sink, outer = ended.sink, self._state.sink
        if ended.place == "field" != self._state.place and sink is not None:
            sink.words.append(field_target(self._instruction, sink.words))
            self._instruction = ""
        shape = ended.shape
        if shape is not None and outer is not None and shape not in (outer, self._state.shape):
            shape.end()
            outer.add_after(shape.text())
        if sink is None or sink is outer or outer is None:
            return
        sink.end()
        if sink.mark:
            outer.add_after(f"{sink.mark}{' '.join(sink.text().split())}")
        elif sink not in self._margins:
            outer.add_after(sink.text())

    def _sign(self, sign: bytes) -> None:
        match sign:
            case b"*":
                self._is_marked = True
            case b"~":
                self._add("\xa0")
            case b"_":
                self._add("-")
            case b"\n" | b"\r":
                self._word("par", None)
            case b"\\" | b"{" | b"}":
                self._add_bytes(sign)
            case b"|" | b"-" | b":":
                pass  # a soft hyphen, and marks of an index

    def _word(self, word: str, number: int | None) -> None:
        if self._to_skip and word != "u":
            self._to_skip -= 1
            return
        marked, self._is_marked = self._is_marked, False
        if word == "u" and number is not None:
            self._unicode(number & 0xFFFF)
            return
        self._flush()
        state = self._state
        if word in _SILENT or (marked and word not in _KNOWN):
            self.pictures += word in ("pict", "object") and state.sink is not None
            self._state = replace(state, sink=None, shape=None)
            return
        is_on = number != 0
        sink = state.sink
        match word:
            case "uc":
                self._state = replace(state, skips=max(0, number or 0))
            case "f":
                self._font = number or 0
                if state.place != "font":
                    self._state = replace(state, encoding=self._fonts.get(self._font) or self._default)
            case "fcharset" | "cpg" if state.place == "font":
                self._fonts[self._font] = (
                    _CHARSETS.get(number or 0, "") if word == "fcharset" else _encoding_of(number or 0)
                ) or self._fonts.get(self._font, "")
            case "ansicpg" | "ansi" | "mac" | "pc" | "pca":
                if word != "ansicpg" or number:
                    self._default = _PAGES.get(word) or _encoding_of(number or 0) or self._default
                    self._state = replace(state, encoding=self._default)
            case "fonttbl" | "stylesheet":
                self._state = replace(state, place="fonts" if word == "fonttbl" else "styles", sink=None)
            case "v" | "deleted":
                self._state = replace(state, is_hidden=is_on)
            case "plain":
                self._state = replace(
                    state,
                    is_hidden=False,
                    encoding=self._fonts.get(0) or self._default if self._fonts else state.encoding,
                )
            case "s" if state.place == "style":
                self._style = number or 0
            case "outlinelevel" if state.place == "style":
                self._levels[self._style] = (number or 0) + 1
            case _ if not self._enters_group(word) and sink is not None and not state.is_hidden:
                self._paragraph_word(sink, word, number)

    def _enters_group(self, word: str) -> bool:
        """Direct the text of a group that begins with this word. Return whether it is such a word."""
        state = self._state
        sink = state.sink
        match word:
            case "upr":
                self._state = replace(state, sink=None, shape=sink)
            case "ud" | "shptxt":
                self._state = replace(state, sink=state.shape)
            case "shpinst":
                self._state = replace(state, sink=None, shape=Flow() if sink is not None else None)
            case "field":
                self._state = replace(state, place="field")
            case "fldinst":
                self._state = replace(state, sink=None, place="instruction")
                self._instruction = ""
            case "atnauthor":
                self._state = replace(state, sink=None, place="author")
                self._author = ""
            case "footnote" | "annotation" if sink is not None:
                self._begin_note(is_comment=word == "annotation")
            case _ if word in _MARGINS:
                self._margins.append(Flow())
                self._state = replace(state, sink=self._margins[-1])
            case _:
                return False
        return True

    def _paragraph_word(self, sink: Flow, word: str, number: int | None) -> None:
        """Carry out a word that makes paragraphs and tables."""
        if word in _SIGNS:
            sink.words.append(_SIGNS[word])
        elif word in _BREAKS:
            if self._is_in_table or sink.is_in_row:
                sink.words.append(" ")  # the cell goes on
            else:
                level = sink.level
                _end_paragraph(sink)
                sink.level = level
        elif word in ("cell", "nestcell"):
            sink.end_cell()
        elif word in ("row", "nestrow"):
            sink.end_row()
        elif word == "pard":
            sink.level, self._is_in_table = 0, False
        elif word == "intbl":
            self._is_in_table = True
        elif word == "s":
            sink.level = self._levels.get(number or 0, 0)
        elif word == "outlinelevel":
            level = (number or 0) + 1
            sink.level = level if level <= 9 else 0

    def _begin_note(self, *, is_comment: bool) -> None:
        assert self._state.sink is not None
        note = Flow()
        if is_comment:
            note.mark = f"[{self._author.strip() or 'Comment'}] "
        else:
            self._notes += 1
            note.mark = f"[{self._notes}] "
            self._state.sink.words.append(f"[{self._notes}]")
        self._state = replace(self._state, sink=note)

    def _end_style(self) -> None:
        name = self._name.strip(" ;")
        if found := _HEADING.match(name):
            self._levels[self._style] = int(found[1])
        elif name.casefold() == "title":
            self._levels[self._style] = 1

    def _unicode(self, code: int) -> None:
        self._to_skip = 0
        if 0xD800 <= code < 0xDC00:
            self._flush()
            self._surrogate = code
        elif 0xDC00 <= code < 0xE000:
            if self._surrogate:
                self._add(chr(0x10000 + ((self._surrogate - 0xD800) << 10) + (code - 0xDC00)))
            self._surrogate = 0
        else:
            private = SYMBOLS.get(self._state.encoding, {}) if 0xF000 <= code < 0xF100 else {}
            self._add(private.get(code & 0xFF, chr(code)) if code else "")
        self._to_skip = self._state.skips

    def _add_bytes(self, data: bytes) -> None:
        """Add bytes in the encoding of the font. A character may have several of them."""
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        if self._state.sink is not None or self._state.place in _COLLECTED:
            self._bytes += data

    def _flush(self) -> None:
        if not self._bytes:
            return
        if (symbols := SYMBOLS.get(self._state.encoding)) is not None:
            text = "".join(symbols.get(byte, chr(byte) if byte < 0x80 else "") for byte in self._bytes)
        else:
            text = self._bytes.decode(self._state.encoding, "replace")
        self._bytes.clear()
        self.replaced += text.count("\ufffd")
        self._put(text)

    def _add(self, text: str) -> None:
        self._flush()
        self._put(text)

    def _put(self, text: str) -> None:
        match self._state.place:
            case "style" | "font":
                self._name += text
            case "author":
                self._author += text
            case "instruction":
                self._instruction += text
            case _:
                if self._state.sink is not None and not self._state.is_hidden:
                    self._state.sink.words.append(text)


def _end_paragraph(sink: Flow) -> None:
    """End a paragraph. An empty one is a blank line."""
    if "".join(sink.words).strip():
        sink.words[0] = sink.words[0].lstrip(" \r\n")
        sink.end_line()
    else:
        sink.words.clear()
        sink.part()
    sink.end_notes()


def _encoding_of(page: int) -> str:
    """Return the encoding of a Windows code page; "" for an unknown one."""
    return f"cp{page}" if page in _CODE_PAGES else _OTHER_PAGES.get(page, "")
