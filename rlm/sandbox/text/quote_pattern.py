"""Turns a quote into an RE2 pattern over UTF-8: each of its characters in all the ways to write it.

These differences are ignored:

- other white space, and invisible characters
- a word that is hyphenated at a line's end, and in scripts without blanks any line's end
- other quotation marks or dashes, an ellipsis for three dots, ligatures for letters
- composed and decomposed letters (NFC, NFD), full-width and half-width forms
- Markdown's marks of emphasis and code around words
- the escapes of a JSON string
- a bar between blanks, which parts the cells of a row, and a paragraph sign between blanks, which stands
  for a line end within a cell
- the notes and times of a transcript (`{pause}`, `[00:01:07]`), and its blanks before stops

Another word, case or order never matches.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache, cached_property, lru_cache
from typing import Any

import re2

__all__ = ["QuotePattern", "is_east_asian", "letters", "sure_letters"]

_DASHES = "-‐‑‒–—―−"
_DOUBLE_QUOTES = '"“”„‟«»″'
_SINGLE_QUOTES = "'’‘‚‛′`´"
_WIDE_DASH = "\uff0d"
_EMPHASIS = "*_`~"
_INVISIBLE = "\xad\u200b\u2060\ufeff"
_STOPS = ".,?!"
_LIGATURES = {
    "ffi": ("ﬃ", "ﬀi", "fﬁ"), "ffl": ("ﬄ", "ﬀl", "fﬂ"), "ff": ("ﬀ",), "fi": ("ﬁ",), "fl": ("ﬂ",),
    "st": ("ﬆ", "ﬅ"),
}  # fmt: skip
_EAST_ASIAN = ("\u2e80", "\U0003ffff")
"""The first and the last character of the scripts whose lines are wrapped without a blank."""
_NOTE = r"(?:\{[a-zA-Z]{2,20}\}|\[\d{2,3}:\d\d:\d\d\])"

_BLANK = (
    r"(?:[\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]|\\[nrtf])"
)
_HYPHEN = rf"[{_DASHES}\x{{ad}}]{_BLANK}*(?:\n|\\n){_BLANK}*"
"""A hyphen at a line's end, which may be an escape."""
_GAP = rf"(?:{_NOTE}{_BLANK}+|{_HYPHEN}|[{_INVISIBLE}]*{_BLANK}+(?:(?:[|¶{_INVISIBLE}]|{_NOTE}){_BLANK}+)*)"
"""What may stand between two words."""
_MARKS = f"(?:[*_`{_INVISIBLE}]|~~)*"
"""What may stand at the edge of a word."""
_BREAK = rf"(?:[{_INVISIBLE}]|{_HYPHEN})*"
"""What may stand between two letters."""
_WRAP = rf"(?:{_BLANK}|[{_INVISIBLE}*_`]|{_HYPHEN})*"
"""What may stand between two letters of a script without blanks."""

_UNIT = re.compile(r"ff[il]|f[fil]|st|\.\.\.|\s+|.", re.DOTALL)
_ESCAPE = re.compile(r'\\u([0-9a-fA-F]{4})|\\(["\\/bfnrt])')
_NARROWED = re.compile("[\uff01-\uffee\ufb00-\ufb06]+")
_BROKEN = re.compile(rf"(?<=\w)[{_DASHES}\xad]\s*\n\s*(?=\w)")
_WRAPPED = re.compile("(?<=[{0}-{1}])\\s*\n\\s*(?=[{0}-{1}])".format(*_EAST_ASIAN))

_MAX_MEMORY = 2 << 20
"""Bytes of a pattern and its states."""
_KEPT = 32
"""Compiled pieces that are kept beside the first one of each quote. One takes half a megabyte."""
_Pattern = type(re2.compile(""))


def is_east_asian(char: str) -> bool:
    """Return whether `char` belongs to a script whose lines are wrapped without a blank."""
    return _EAST_ASIAN[0] <= char <= _EAST_ASIAN[1]


class QuotePattern:
    """The pattern of one quote, in pieces that follow each other.

    A pattern of thousands of characters could take a minute for a hostile text. A piece takes a moment.
    """

    def __init__(self, quote: str) -> None:
        self._pieces = list(_pieces(_UNIT.findall(_plain(quote)))) or [re2.escape(quote)]

    def find(self, data: bytes, check: Callable[[], None]) -> tuple[int, int] | None:
        """Return the first place of a UTF-8 text that reads as the quote. `check` is called before each piece
        of work."""
        at = 0
        while True:
            check()
            head = self._head.search(data, at)
            if head is None:
                return None
            start, end = head.span()
            for number in range(1, len(self._pieces)):
                check()
                piece = _later_piece(self._pieces[number]).match(data, end)
                if piece is None:
                    break
                end = piece.end()
            else:
                return start, end
            at = start + 1

    @cached_property
    def _head(self) -> Any:
        return _compiled(self._pieces[0])


def _pieces(units: list[str]) -> Iterator[str]:
    """Yield the pieces of a pattern. All but the last end in a character after which nothing is optional."""
    parts: list[str] = []
    before, size, first = " ", 0, True
    for at, unit in enumerate(units):
        if size >= _PIECE and (before.isalnum() or (size >= _MAX_PIECE and not unit.isspace())):
            yield "".join(parts)
            parts, size, first = [], 0, False
        size += 1
        if unit.isspace():
            parts += [_MARKS, _GAP]
        elif unit in _EMPHASIS and _is_emphasis(units, at):
            continue
        else:
            between = _between(before, unit[0])
            parts += [between, _spelled(unit)] if parts or not first else [_spelled(unit)]
        before = unit[-1]
    while parts and parts[-1] in (_GAP, _MARKS):
        del parts[-1]
    if parts:
        yield "".join(parts)


_PIECE, _MAX_PIECE = 64, 256
"""Characters of a piece."""


def sure_letters(quote: str) -> bytes:
    """Return ASCII letters and digits that stand in the `letters` of each text in which a quote stands."""
    text = _plain(quote)
    # A text's letters before a quote may end in what looks like an escape with the quote's first letters.
    return b"" if set("\\}]") & set(text) else text.encode().translate(None, _NO_LETTERS)[5:]


def letters(data: bytes) -> bytes | None:
    """Return the ASCII letters and digits of a UTF-8 text; None if it may write one in another way."""
    if _other_letters().search(data) is not None:
        return None
    if b"\\" in data or b"{" in data or b"[" in data:
        data = _LEFT_OUT.sub(b"", data)
    return data.translate(None, _NO_LETTERS)


_LEFT_OUT = re.compile(rb'\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|' + _NOTE.encode())
_NO_LETTERS = bytes(byte for byte in range(256) if byte > 127 or not chr(byte).isalnum())


@cache
def _other_letters() -> Any:
    """Return a pattern of marks, full-width forms and ligatures, which stand for ASCII letters or beside
    them."""
    return _compiled(r"[\x{300}-\x{36f}\x{ff10}-\x{ff19}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{fb00}-\x{fb06}]")


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    return _Pattern(pattern, options)  # `compile` would keep it


_later_piece = lru_cache(_KEPT)(_compiled)


def _plain(quote: str) -> str:
    """Return a quote in the form that the pattern is made of: composed, unescaped, its words whole."""
    text = _ESCAPE.sub(lambda escape: str(json.loads(f'"{escape[0]}"')), quote)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "ignore")
    text = unicodedata.normalize("NFC", re.sub(_NOTE, " ", text))
    text = _NARROWED.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = _WRAPPED.sub("", _BROKEN.sub("", text))
    text = re.sub(f"[{_INVISIBLE}]", "", text).replace("…", "...")
    return re.sub(rf"\s+([{_STOPS}])", r"\1", text).strip()


def _between(before: str, char: str) -> str:
    """Return what may stand between two characters of a quote."""
    blank = f"{_BLANK}*" if char in _STOPS else ""
    if is_east_asian(before) and is_east_asian(char):
        return _WRAP
    if before.isalnum() and char.isalnum():
        return _BREAK
    return _MARKS + blank


def _is_emphasis(units: list[str], at: int) -> bool:
    """Return whether a mark may be emphasis: its run stands at one side of a word, not between blanks."""
    mark, low, high = units[at], at, at + 1
    while low and units[low - 1] == mark:
        low -= 1
    while high < len(units) and units[high] == mark:
        high += 1
    before = units[low - 1][-1] if low else " "
    after = units[high][0] if high < len(units) else " "
    if (before.isspace() and after.isspace()) or (mark == "~" and high - low != 2):
        return False
    if before.isalnum() and after.isalnum():
        return mark != "_" and (is_east_asian(before) or is_east_asian(after))
    return True


@lru_cache(4096)
def _spelled(unit: str) -> str:
    """Return the pattern of a character, or of letters that have a ligature, in all spellings."""
    if unit in _LIGATURES:
        return f"(?:{'|'.join([*_LIGATURES[unit], _BREAK.join(map(_spelled, unit))])})"
    if unit == "...":
        return rf"(?:\.\.\.|{_any_of('…')})"
    if unit in _DOUBLE_QUOTES:
        return rf"\\?{_any_of(_DOUBLE_QUOTES)}"
    if unit in _SINGLE_QUOTES:
        return _any_of(_SINGLE_QUOTES)
    if unit in _DASHES:
        return rf"{_any_of(_DASHES + _WIDE_DASH)}(?:{_BLANK}*(?:\n|\\n){_BLANK}*)?"
    forms = dict.fromkeys((unit, unicodedata.normalize("NFD", unit)))
    wide = _wide_forms()
    ways = {re2.escape("".join(wide.get(char, char) for char in form)) for form in forms}
    ways.update(map(re2.escape, forms))
    if not unit.isascii():
        ways.update("".join(_escaped(form)) for form in forms)
    if unit in "\\/":
        ways.add(r"\\" + re2.escape(unit))
    return f"(?:{'|'.join(sorted(ways, key=len, reverse=True))})" if len(ways) > 1 else ways.pop()


def _any_of(chars: str) -> str:
    """Return the pattern of one of some characters, as it is or as an escape."""
    return f"(?:[{chars}]|{'|'.join(''.join(_escaped(char)) for char in chars if not char.isascii())})"


def _escaped(form: str) -> Iterator[str]:
    """Yield the patterns of the characters of a letter in a JSON string: `\\u00e9`."""
    data = form.encode("utf-16-be")
    for at in range(0, len(data), 2):
        code = data[at : at + 2].hex()
        yield rf"\\u(?i:{code})" if int(code, 16) > 127 else re2.escape(chr(int(code, 16)))


@cache
def _wide_forms() -> dict[str, str]:
    """Return the full-width or half-width form of each character that has one."""
    wide: dict[str, str] = {}
    for code in range(0xFF01, 0xFFEF):
        narrow = unicodedata.normalize("NFKC", chr(code))
        if len(narrow) == 1 and narrow != chr(code):
            wide.setdefault(narrow, chr(code))
    return wide
