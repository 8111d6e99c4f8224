"""Compare the numbers and names of a claim with its passages. It knows no meaning, and refutes nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Words", "missing", "words_of"]

_MAX_MISSING = 8
_NUMBER = re.compile(r"(?<![\w.,])\d[\d.,:/-]*(?<=\d)|(?<=[$€£¥])\d[\d.,]*(?<=\d)")
_GROUPED = re.compile(r"(?<=\d)[,' \u202f\u00a0](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<=[^\W_] )[^\W\d_][^\W_]+|(?<=[,;] )[^\W\d_][^\W_]+")
"""A word within a sentence. A capital at the start of a sentence says nothing."""
_WORD = re.compile(r"[^\W_]+")


class Words(NamedTuple):
    """The numbers of a text, and its words in small letters."""

    numbers: frozenset[str]
    words: frozenset[str]


def missing(claim: str, sources: Iterable[Words]) -> list[str] | None:
    """Return the numbers and names of a claim that its sources do not have; None if the claim has none."""
    sources = list(sources)
    names = dict.fromkeys(name for name in _NAME.findall(claim) if name[0].isupper())
    numbers = sorted(_numbers_in(claim))
    if not numbers and not names:
        return None
    lacking = [number for number in numbers if not any(number in one.numbers for one in sources)]
    lacking += [name for name in names if not any(name.casefold() in one.words for one in sources)]
    return lacking[:_MAX_MISSING]


def words_of(text: str) -> Words:
    """Return the numbers and words of a text."""
    return Words(_numbers_in(text), frozenset(_WORD.findall(text.casefold())))


def _numbers_in(text: str) -> frozenset[str]:
    """Return the numbers of a text in one notation: `12,500` and `12 500` are the same."""
    found = _NUMBER.findall(_GROUPED.sub("", text))
    parts = (part for number in found for part in (number, *re.split(r"[:/-]", number)))
    return frozenset(part.lstrip("0") or "0" for part in parts if part)
