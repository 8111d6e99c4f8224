"""The marks in an answer that name its sources: `[¹]`, and the forms that models write: `[1]`, `[1, 3]`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

__all__ = [
    "Mark",
    "disarm_marks",
    "marker",
    "marks_in",
    "sentences_with_sources",
    "unknown_marks",
    "unmark_unknown",
    "write_marks",
]

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_NUMBER = r"(?:[0-9]{1,4}|[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})"
_SHOWN_MARK = re.compile(rf"\[([⁰¹²³⁴⁵⁶⁷⁸⁹]+(?:[ \t]*[,;][ \t]*{_NUMBER})*)\]")
_MARK = re.compile(rf"\[({_NUMBER}(?:[ \t]*[,;][ \t]*{_NUMBER})*)\](?![(:])")
# A mark may follow the full stop.
_SENTENCE = re.compile(r"(?<=[.!?…\]])\s+(?!\[)")
_CONTEXT = 24
"""The characters before a mark that show whether it is part of a quoted passage."""
# In code, brackets are an index.
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`", re.DOTALL)


class Mark(NamedTuple):
    """A mark in a text, with its span and its numbers. `certain` is False for `[2]` after a letter or at the
    start of a text: it may be an index or a list."""

    start: int
    end: int
    numbers: tuple[int, ...]
    certain: bool


def marker(number: int) -> str:
    """Return the mark of a number: `[¹²]` for 12."""
    return f"[{str(number).translate(_SUPERSCRIPT)}]"


def marks_in(text: str) -> Iterator[Mark]:
    """Yield the marks of `text` in order. Skips code and Markdown links."""
    for match in _MARK.finditer(_CODE.sub(lambda code: " " * len(code[0]), text)):
        numbers = tuple(int(number.translate(_PLAIN)) for number in re.findall(_NUMBER, match[1]))
        before = text[max(0, match.start() - 1) : match.start()]
        superscript = not match[1][0].isascii()
        yield Mark(*match.span(), numbers, superscript or not (before.isalnum() or before in ("", "_", ")")))


def disarm_marks(text: str) -> str:
    """Return `text` with its marks in round brackets. Text of a document must not name sources of ours."""
    return _MARK.sub(r"(\1)", text)


def sentences_with_sources(text: str, count: int) -> list[str]:
    """Return the sentences of `text` whose marks all name existing sources (1 to `count`), each on one line.
    Drops sentences without marks."""
    kept = []
    for sentence in _SENTENCE.split(" ".join(text.split())):
        numbers = [number for mark in marks_in(sentence) for number in mark.numbers]
        if numbers and all(1 <= number <= count for number in numbers):
            kept.append(sentence)
    return kept


def unknown_marks(text: str, count: int) -> list[int]:
    """Return the numbers in marks of `text` outside 1 to `count`, in order, each once. If no mark names
    existing evidence, or one in superscript does, only superscript numbers count as marks, because plain
    brackets may mean something else."""
    marks = list(marks_in(text))
    named = [mark for mark in marks if any(1 <= number <= count for number in mark.numbers)]
    if not named or any(_is_superscript(text, mark) for mark in named):
        marks = [mark for mark in marks if _is_superscript(text, mark)]
    return list(
        dict.fromkeys(
            number for mark in marks if mark.certain for number in mark.numbers if not 1 <= number <= count
        )
    )


def write_marks(text: str, quotes: Mapping[int, str]) -> str:
    """Return `text` with its marks of these quotes (by number) written as `[¹]`. If the text contains a quote
    in quotation marks and no mark names it, adds the mark after it.

    Brackets that belong to a quoted passage are text. So are plain ones if the answer has superscript marks.
    """
    pieces, at = [], 0
    used: set[int] = set()
    folded = [" ".join(quote.split()) for quote in quotes.values()]
    marks = [
        mark
        for mark in marks_in(text)
        if all(number in quotes for number in mark.numbers) and not _is_quoted(text, mark, folded)
    ]
    if any(_is_superscript(text, mark) for mark in marks):
        marks = [mark for mark in marks if _is_superscript(text, mark)]
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
        numbers = (int(number.translate(_PLAIN)) for number in re.findall(_NUMBER, mark[1]))
        return mark[0] if all(number in known for number in numbers) else mark[0].translate(_PLAIN)

    return _SHOWN_MARK.sub(unmarked, text)


def _is_superscript(text: str, mark: Mark) -> bool:
    return not text[mark.start + 1].isascii()


def _is_quoted(text: str, mark: Mark, quotes: list[str]) -> bool:
    """Return whether the words before a mark, and the mark, are in one of the quotes."""
    words = " ".join(text[max(0, mark.start - _CONTEXT) : mark.end].split())
    return len(words) > mark.end - mark.start + _CONTEXT // 2 and any(words in quote for quote in quotes)
