"""The marks in an answer that name its sources: `[¹]`, and the forms that models write: `[1]`, `[1, 3]`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

__all__ = [
    "Mark",
    "marker",
    "marks_in",
    "marks_of",
    "unknown_marks",
    "unmark_unknown",
    "without_indices",
    "write_marks",
]

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_NUMBER = r"(?:[1-9][0-9]{0,2}|[¹²³⁴⁵⁶⁷⁸⁹][⁰¹²³⁴⁵⁶⁷⁸⁹]{0,2})"
"""A mark has at most three digits and does not begin with 0: `[0]` is an index, and `[2024]` a year."""
_SHOWN_MARK = re.compile(rf"\[([⁰¹²³⁴⁵⁶⁷⁸⁹]+(?:[ \t]*[,;][ \t]*{_NUMBER})*)\]")
_MARK = re.compile(rf"\[({_NUMBER}(?:[ \t]*[,;][ \t]*{_NUMBER})*)\](?![(:])")
_LOOSE_MARK = re.compile(rf"\[(\s*\^?{_NUMBER}(?:\s*[,;]\s*\^?{_NUMBER})*\s*)\]")
"""A mark, also as a footnote, with spaces, or before a colon or a link."""
_IN_PROSE = re.compile(r"(?:[\w.,;:!?…\"'”’»)%。！？]|(?:\A|\n)[ \t]*)[ \t]?\Z")
"""What stands before a mark. Before a list in code stands an operator or a bracket:
`x = [4]`, `f([4])`."""
_CONTEXT = 24
"""The characters before a mark that show whether it is part of a quoted passage."""
# In code, brackets are an index.
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`", re.DOTALL)


class Mark(NamedTuple):
    """A mark in a text, with its span and its numbers. `certain` is False for `[2]` right after a word or a
    closing bracket, or at the start of a text: it may be an index or a list."""

    start: int
    end: int
    numbers: tuple[int, ...]
    certain: bool


def marker(number: int) -> str:
    """Return the mark of a number: `[¹²]` for 12."""
    return f"[{str(number).translate(_SUPERSCRIPT)}]"


def marks_in(text: str, *, loose: bool = False) -> Iterator[Mark]:
    """Yield the marks of `text` in order. Skips code and, unless `loose`, Markdown links. With `loose`,
    `[^1]` and `[ 1 ]` are marks, too."""
    pattern = _LOOSE_MARK if loose else _MARK
    for match in pattern.finditer(_CODE.sub(lambda code: " " * len(code[0]), text)):
        numbers = tuple(int(number.translate(_PLAIN)) for number in re.findall(_NUMBER, match[1]))
        before = text[max(0, match.start() - 1) : match.start()]
        first = match[1].lstrip()[0]
        is_plain = first.isascii() and first != "^"
        is_index = before in ("", "_", ")") or (before.isascii() and before.isalnum())
        yield Mark(*match.span(), numbers, not (is_plain and is_index))


def marks_of(text: str, known: Collection[int]) -> list[Mark]:
    """Return the marks of `text` that name only these sources.

    Beside superscript marks, plain brackets are text.
    """
    marks = [mark for mark in marks_in(text) if all(number in known for number in mark.numbers)]
    if any(_is_superscript(text, mark) for mark in marks):
        return [mark for mark in marks if _is_superscript(text, mark)]
    return without_indices(text, marks)


def without_indices(text: str, marks: list[Mark]) -> list[Mark]:
    """Return the marks of `text` that are no index. Beside marks with a space before them, plain brackets
    right after a word are indices: in `values[1] is 5 [1]` only the last is a mark."""
    if any(text[mark.start - 1].isspace() for mark in marks if mark.start):
        return [mark for mark in marks if mark.certain]
    return marks


def unknown_marks(text: str, count: int) -> list[int]:
    """Return the numbers in marks of `text` above `count`, in order, each once. A bracket that may be
    anything else is no mark: an index, a list in code, a year, or any plain one if no mark names existing
    evidence or one in superscript does."""
    known = marks_of(text, range(1, count + 1))
    unknown = [
        mark
        for mark in marks_in(text)
        if mark.certain
        and any(number > count for number in mark.numbers)
        and (
            _is_superscript(text, mark)
            or (
                known
                and not _is_superscript(text, known[0])
                and _IN_PROSE.search(text[max(0, mark.start - 8) : mark.start])
            )
        )
    ]
    return list(dict.fromkeys(number for mark in unknown for number in mark.numbers if number > count))


def write_marks(text: str, quotes: Mapping[int, str]) -> str:
    """Return `text` with its marks of these quotes (by number) written as `[¹]`. If the text contains a quote
    in quotation marks and no mark names it, adds the mark after it.

    Brackets that belong to a quoted passage are text. So are plain ones if the answer has superscript marks.
    """
    pieces, at = [], 0
    used: set[int] = set()
    folded = [" ".join(quote.split()) for quote in quotes.values()]
    marks = [mark for mark in marks_of(text, quotes) if not _is_quoted(text, mark, folded)]
    for mark in marks:
        used.update(mark.numbers)
        pieces += [text[at : mark.start], *map(marker, mark.numbers)]
        at = mark.end
    shown = "".join([*pieces, text[at:]])
    for number, quote in quotes.items():
        if number in used or not quote or quote not in shown:
            continue
        place = re.search(rf"[\"“«「]{re.escape(quote)}[.,;:!?…]?[\"”»」](?!\[)", shown)
        if place is not None:
            shown = shown[: place.end()] + marker(number) + shown[place.end() :]
    return shown


def unmark_unknown(text: str, known: Collection[int]) -> str:
    """Return `text` with superscript marks of unknown sources in plain digits, also in code: `[¹]` always has
    a source."""

    def unmarked(mark: re.Match[str]) -> str:
        numbers = (int(number) for number in re.findall(r"\d+", mark[1].translate(_PLAIN)))
        return mark[0] if all(number in known for number in numbers) else mark[0].translate(_PLAIN)

    return _SHOWN_MARK.sub(unmarked, text)


def _is_superscript(text: str, mark: Mark) -> bool:
    return not text[mark.start + 1].isascii()


def _is_quoted(text: str, mark: Mark, quotes: list[str]) -> bool:
    """Return whether the words before a mark, and the mark, are in one of the quotes."""
    words = " ".join(text[max(0, mark.start - _CONTEXT) : mark.end].split())
    return len(words) > mark.end - mark.start + _CONTEXT // 2 and any(words in quote for quote in quotes)
