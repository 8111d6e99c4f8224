"""Folds the spellings of a text that print, PDF, Unicode, Markdown, JSON and models produce.

`tokens` is exact: it decides whether two texts read the same, and where. `skeleton` is coarse and fast: texts
that read the same have the same skeleton, so a search for the skeleton finds every place worth a look.

These differences are ignored:

- other white space, and invisible characters
- a word that is hyphenated at a line's end, and in scripts without blanks any line's end
- other quotation marks or dashes, an ellipsis for three dots, ligatures for letters
- composed and decomposed letters (NFC, NFD), full-width and half-width forms
- Markdown's marks of emphasis and code around words
- the escapes of a JSON string
- a bar between blanks, which parts the cells of a row, and a paragraph sign between blanks, which stands
  for a line end within a cell
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import re2

__all__ = [
    "Token",
    "is_east_asian",
    "is_plain",
    "skeleton",
    "skeleton_sizes",
    "stable_words",
    "tokens",
    "words_or_unsure",
]

_DASHES = "-‐‑‒–—―−"
_DOUBLE_QUOTES = '"“”„‟«»″'
_SINGLE_QUOTES = "'’‘‚‛′`´"
_INVISIBLE = "\xad\u200b\u2060\ufeff"
_EMPHASIS = "*_`~"
_CELL_MARKS = "|¶"
_EAST_ASIAN_RANGE = ("\u2e80", "\U0003ffff")
"""The first and the last character of the scripts whose lines are wrapped without a blank."""
_LIGATURES = ("\ufb00", "\ufb06")
_JSON_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_UNIT = re.compile(r'\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|.', re.DOTALL)


class Token(NamedTuple):
    """One folded character, and the part of the text from which it comes.

    `start` and `end` are characters of the text. A run of white space is one blank. `optional`: a text
    without this token reads the same.
    """

    char: str
    start: int
    end: int
    optional: bool = False


def is_east_asian(char: str) -> bool:
    """Return whether `char` belongs to a script whose lines are wrapped without a blank."""
    return _EAST_ASIAN_RANGE[0] <= char <= _EAST_ASIAN_RANGE[1]


class _Unit(NamedTuple):
    """A decoded character with its combining marks, or a run of white space."""

    text: str
    start: int
    end: int


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """Yield the tokens of `text` from character `start` on, in order. Reads no further than it must."""
    units = _marked(_units(text, start))
    before = text[start - 1] if start else " "
    ahead: list[_Unit] = []

    def peek(number: int) -> _Unit | None:
        while len(ahead) <= number:
            unit = next(units, None)
            if unit is None:
                return None
            ahead.append(unit)
        return ahead[number]

    while (unit := peek(0)) is not None:
        following = peek(1)
        after = following.text[0] if following else " "
        char = unit.text[0]
        if char in _EMPHASIS:
            # The marks of one run stand together: `**` opens or closes as one.
            count = 1
            while (inner := peek(count)) is not None and inner.text == unit.text:
                count += 1
            following = peek(count)
            after = following.text[0] if following else " "
            optional = _is_emphasis(char, count, before, after)
            for mark in ahead[:count]:
                yield Token("'" if char == "`" else char, mark.start, mark.end, optional)
            del ahead[:count]
            before = char
            continue
        del ahead[:1]
        if char.isspace():
            wrapped = "\n" in unit.text and (
                before in _DASHES or (is_east_asian(before) and is_east_asian(after))
            )
            yield Token(" ", unit.start, unit.end, wrapped)
        elif char in _DASHES:
            beyond = peek(1)
            breaks = (
                following is not None and "\n" in following.text and before.isalnum()
                and beyond is not None and beyond.text[0].isalnum()
            )  # fmt: skip
            yield Token("-", unit.start, unit.end, breaks)
        else:
            for folded in _fold(unit.text):
                yield Token(folded, unit.start, unit.end)
        before = char


def _is_emphasis(char: str, count: int, before: str, after: str) -> bool:
    """Return whether a run of marks may be emphasis: it stands at one side of a word, not between blanks."""
    if before.isspace() and after.isspace():
        return False
    if char == "~" and count != 2:
        return False
    if before.isalnum() and after.isalnum():
        return char != "_" and (is_east_asian(before) or is_east_asian(after))
    return True


def _units(text: str, start: int) -> Iterator[_Unit]:
    """Yield the characters of `text` with JSON's escapes decoded, and each run of white space as one."""
    space = ""
    space_start = space_end = 0
    match = _UNIT.match(text, start)
    while match is not None:
        at, end = match.span()
        char = _decode(match[0])
        if "\ud800" <= char <= "\udbff" and (low := _UNIT.match(text, end)) is not None:
            second = _decode(low[0])
            if "\udc00" <= second <= "\udfff":
                char = (char + second).encode("utf-16", "surrogatepass").decode("utf-16")
                end = low.end()
        if char.isspace() or (char in _CELL_MARKS and space and text[end : end + 1].isspace()):
            if not space:
                space_start = at
            space, space_end = "\n" if "\n" in (space, char) else " ", end
        elif char not in _INVISIBLE or (char == "\xad" and text[end : end + 1] in ("\r", "\n", " ", "\t")):
            if space:
                yield _Unit(space, space_start, space_end)
                space = ""
            # A soft hyphen is only kept where a line may end.
            yield _Unit("-" if char == "\xad" else char, at, end)
        match = _UNIT.match(text, end)
    if space:
        yield _Unit(space, space_start, space_end)


_MAX_MARKS = 30
"""Combining marks of one letter. Unicode's stream-safe format has the same limit."""


def _marked(units: Iterator[_Unit]) -> Iterator[_Unit]:
    """Join each character with the combining marks after it."""
    held: _Unit | None = None
    for unit in units:
        if (
            held is not None
            and (unicodedata.combining(unit.text[0]) or _is_jamo(unit.text[0]))
            and len(held.text) <= _MAX_MARKS
            and not held.text[0].isspace()
        ):
            held = _Unit(held.text + unit.text, held.start, unit.end)
            continue
        if held is not None:
            yield held
        held = unit
    if held is not None:
        yield held


def _is_jamo(char: str) -> bool:
    """Return whether `char` is a vowel or a final of Korean, which belongs to the syllable before it."""
    return "\u1160" <= char <= "\u11ff"


def _decode(unit: str) -> str:
    if len(unit) == 1:
        return unit
    return chr(int(unit[2:], 16)) if unit[1] == "u" else _JSON_ESCAPES[unit[1]]


@lru_cache(maxsize=4096)
def _fold(text: str) -> str:
    """Return the folded form of a character with its marks."""
    if text in _DOUBLE_QUOTES:
        return '"'
    if text in _SINGLE_QUOTES:
        return "'"
    if text.isascii():
        return text
    if text == "…":
        return "..."
    folded = "".join(map(_narrow, text))
    if folded in _DASHES:
        return "-"
    return unicodedata.normalize("NFD", folded)


def _narrow(char: str) -> str:
    """Return the usual form of a full-width or half-width character or of a ligature of Latin letters."""
    if _LIGATURES[0] <= char <= _LIGATURES[1] or unicodedata.decomposition(char).startswith(
        ("<wide>", "<narrow>")
    ):
        return unicodedata.normalize("NFKC", char)
    return char


# Characters that `tokens` folds or leaves out. Their run is normalized or dropped.
_COMPATIBLE = re.compile("[\uff01-\uffee\ufb00-\ufb06]+")
_DROP = re.compile("[\x80-\xbf\u0300-\u036f\u1680\u2000-\u206f\u2212\u3000\u3099\u309a\ufeff]+")
_RECOMPOSED = (
    "\u0374\u037e\u0387\u0958-\u095f\u1160-\u11ff\u1f00-\u1fff\u2126\u212a\u212b\u2329\u232a"
    "\uf900-\ufaff\ufb1d-\ufb4f\U0002f800-\U0002fa1f"
)
"""Characters without combining marks that NFC may change."""
_ALPHANUMERIC_FORMS = "\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\uff66-\uff9f\uffa0-\uffdc\ufb00-\ufb06"
_WORD = re.compile(r"[^\W_]+")
_STABLE_WORDS = 8
_MAX_WORD_CHARS = 12
_NOT_ALPHANUMERIC = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_BLANK = rf"(?:[{_SPACES}]|\\[nrtf])"
_BREAK = rf"[{_DASHES}]{_BLANK}*(?:\n|\\n){_BLANK}*"
"""A hyphen at a line's end, as a pattern. The line's end may be an escape of JSON."""
_GAP = rf"(?:[{_DASHES}{_EMPHASIS}]|{_BLANK})"
"""A part of what may break a word in scripts without blanks."""
_PART = f"[^{_DASHES}{_SPACES}]"
"""At least the letters and digits."""
_ESCAPE = re.compile(
    rb'\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\["\\/bfnrt]', re.IGNORECASE
)


def skeleton(data: bytes) -> bytes:
    """Return what all spellings of a UTF-8 text have in common: roughly its letters and digits.

    Takes time in proportion to the size. A character cut at either end of `data` is ignored.
    """
    if b"\\" in data:
        data = _ESCAPE.sub(_unescape, data)
    if not data.isascii():
        patterns = _patterns()
        if patterns.decomposed.search(data) and not patterns.long_marks.search(data):
            # Sorting the marks of one letter takes the square of their number.
            data = unicodedata.normalize("NFC", data.decode("utf-8", "ignore")).encode("utf-8", "ignore")
        if patterns.dropped.search(data):
            text = data.decode("utf-8", "ignore")
            if patterns.compatible.search(data):
                text = _COMPATIBLE.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
            data = _DROP.sub("", text).encode("utf-8", "ignore")
    return data.translate(None, _NOT_ALPHANUMERIC)


def stable_words(text: str) -> list[str]:
    """Return words that stand in any plain text (`is_plain`) that reads as `text`: up to eight long ones.

    Of a script without blanks, three characters count as a word, and a very long word counts as several. The
    text may break any of them.
    """
    words: dict[str, None] = {}
    # A plain text is composed and has no escapes within words, so its words are those of this form.
    plain = unicodedata.normalize("NFC", "".join(unit.text for unit in _marked(_units(text, 0))))
    for word in _WORD.findall(plain):
        if unicodedata.is_normalized("NFKC", word):
            size = 3 if any(map(is_east_asian, word)) else _MAX_WORD_CHARS
            words.update(dict.fromkeys(word[at : at + size] for at in range(0, len(word), size)))
    return sorted(words, key=len, reverse=True)[:_STABLE_WORDS]


def is_plain(data: bytes) -> bool:
    """Return whether a UTF-8 text spells its words in the usual way: composed, unescaped, not full-width.

    Only a hyphen at a line's end may break a word of it, and in scripts without blanks any line's end and
    marks of emphasis.
    """
    return _patterns().respelled.search(data) is None


def words_or_unsure(words: Iterable[str]) -> Any:
    """Return a pattern over UTF-8. A text that it does not match holds none of the words, whole or broken.

    It also matches a text that is not plain, one with a word that is broken twice, and one in which a broken
    word begins or ends with half of one of the words.
    """
    whole, pairs, beginnings, ends = [], [], [], []
    for word in words:
        whole.append(re2.escape(word))
        if any(map(is_east_asian, word)):
            pairs += [f"{re2.escape(one)}{_GAP}+{re2.escape(two)}" for one, two in pairwise(word)]
        elif len(word) > 1:
            half = len(word) // 2
            beginnings.append(re2.escape(word[:half]))
            ends.append(re2.escape(word[half:]))
    parts = [_patterns().respelled.pattern, *whole, *pairs]
    if ends:
        parts += [
            f"{_PART}{_BREAK}{_PART}+{_BREAK}",
            f"(?:{'|'.join(beginnings)}){_PART}*{_BREAK}",
            f"{_BREAK}{_PART}*(?:{'|'.join(ends)})",
        ]
    options = re2.Options()
    options.log_errors = False
    return re2.compile("|".join(parts), options)


def skeleton_sizes(text: str) -> Iterator[tuple[int, int]]:
    """Yield for each part of `text` that adds to its skeleton: its first character, and the bytes it adds."""
    for unit in _marked(_units(text, 0)):
        size = _skeleton_size(unit.text)
        if size:
            yield unit.start, size


@lru_cache(maxsize=4096)
def _skeleton_size(text: str) -> int:
    return 0 if text in "-\\" else len(skeleton(text.encode("utf-8", "ignore")))


def _unescape(match: re.Match[bytes]) -> bytes:
    high, low, single = match.groups()
    if high:
        code = 0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00
        return chr(code).encode()
    # The short escapes stand for what no skeleton holds.
    return chr(int(single, 16)).encode("utf-8", "ignore") if single else b""


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Patterns over UTF-8, each in one fast pass.

    decomposed: a character that NFC may change. long_marks: more combining marks than any letter has.
    compatible: a character of `_COMPATIBLE`. dropped: one of `_DROP` or `_COMPATIBLE`. respelled: anything
    that may stand within a word, or for its letters, and does not break it (`is_plain`).
    """

    decomposed: Any
    long_marks: Any
    compatible: Any
    dropped: Any
    respelled: Any


@cache
def _patterns() -> _Patterns:
    options = re2.Options()
    options.log_errors = False
    marks = "".join(
        f"\\x{{{code:x}}}" for code in range(0x300, _LAST_MARK) if unicodedata.combining(chr(code))
    )
    return _Patterns(
        re2.compile(f"[{marks}{_RECOMPOSED}]", options),
        re2.compile(f"[{marks}]{{{_MAX_MARKS + 1}}}", options),
        re2.compile(_COMPATIBLE.pattern, options),
        re2.compile(f"{_COMPATIBLE.pattern}|{_DROP.pattern}", options),
        re2.compile(rf"[{marks}{_RECOMPOSED}{_INVISIBLE}{_ALPHANUMERIC_FORMS}]|\\u[0-9a-fA-F]", options),
    )


_LAST_MARK = 0x20000
"""Every combining mark is below this code point."""
