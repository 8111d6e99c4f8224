"""The marks in an answer that point at its sources: `[¹]`, and what models write for it: `[1]`, `[1, 3]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["Mark", "marked", "marker", "marks_in", "sourced", "unknown_marks"]

_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_NUMBER = r"(?:[0-9]{1,4}|[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})"
_MARK = re.compile(rf"\[({_NUMBER}(?:[ \t]*[,;][ \t]*{_NUMBER})*)\](?![(:])")
# A mark may stand behind the full stop.
_SENTENCE = re.compile(r"(?<=[.!?…\]])\s+(?!\[)")
# Code, where brackets are an index.
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]+`", re.DOTALL)


class Mark(NamedTuple):
    """A mark in a text: where it stands, the numbers in it, and whether it can mean nothing else: `[2]` after
    a letter or at the start of a text may be an index or a list."""

    start: int
    end: int
    numbers: tuple[int, ...]
    certain: bool


def marker(number: int) -> str:
    """`[¹²]` for 12."""
    return f"[{str(number).translate(_SUPERSCRIPT)}]"


def marks_in(text: str) -> Iterator[Mark]:
    """The marks of `text` in order; none in code, and no Markdown links."""
    for match in _MARK.finditer(_CODE.sub(lambda code: " " * len(code[0]), text)):
        numbers = tuple(int(number.translate(_PLAIN)) for number in re.findall(_NUMBER, match[1]))
        before = text[max(0, match.start() - 1) : match.start()]
        superscript = not match[1][0].isascii()
        yield Mark(*match.span(), numbers, superscript or not (before.isalnum() or before in ("", "_", ")")))


def sourced(text: str, known: int) -> list[str]:
    """The sentences of `text` that name sources, all of which there are (1 to `known`), each on one line."""
    kept = []
    for sentence in _SENTENCE.split(" ".join(text.split())):
        numbers = [number for mark in marks_in(sentence) for number in mark.numbers]
        if numbers and all(1 <= number <= known for number in numbers):
            kept.append(sentence)
    return kept


def unknown_marks(text: str, known: int) -> list[int]:
    """The numbers in marks of `text` that stand for none of the `known` pieces of evidence (1 to `known`), in
    order, each once. Where there is no evidence, or no mark is one of it, plain brackets are no marks."""
    marks = list(marks_in(text))
    if not any(1 <= number <= known for mark in marks for number in mark.numbers):
        marks = [mark for mark in marks if not text[mark.start + 1].isascii()]
    return list(
        dict.fromkeys(
            number for mark in marks if mark.certain for number in mark.numbers if not 1 <= number <= known
        )
    )


def marked(text: str, quotes: Mapping[int, str]) -> str:
    """`text` with its marks for these quotes (by number) all written `[¹]`. Where a quote stands between
    quotation marks in it and nothing points at it, its mark is put behind them."""
    pieces, at = [], 0
    used: set[int] = set()
    for mark in marks_in(text):
        if not all(number in quotes for number in mark.numbers):
            continue
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
