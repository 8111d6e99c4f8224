"""Compare a claim with its passages without a model: its numbers, its names, and most of its words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlm.retrieval.words import FUNCTION_WORDS, Tokens

__all__ = ["WordComparison"]

_MAX_STRANGE = 0.5
"""The share of a claim's words that its passages may lack."""
_MAX_MISSING = 8
_NUMBER = re.compile(r"(?<![\w.,])\d[\d.,:/-]*(?<=\d)|(?<=[$€£¥])\d[\d.,]*(?<=\d)")
_GROUPED = re.compile(r"(?<=\d)[,' \u202f\u00a0](?=\d{3}(?!\d))")
_NAME = re.compile(r"(?<=[^\W_] )[^\W\d_][^\W_]+|(?<=[,;] )[^\W\d_][^\W_]+")
"""A word within a sentence. A capital at the start of a sentence says nothing."""


class WordComparison:
    """Compares claims with texts. It knows no meaning: it finds what a claim has and its texts lack, and
    refutes nothing. Use it from one thread at a time, and close it."""

    def __init__(self) -> None:
        self._tokens = Tokens()
        self._known: dict[str, tuple[frozenset[str], frozenset[str]]] = {}

    def close(self) -> None:
        """Close the tokenizer."""
        self._tokens.close()

    def missing(self, claim: str, texts: Iterable[str]) -> list[str] | None:
        """Return the numbers and names of a claim that the texts do not have, or else its words if they lack
        more than half of them. Return None if the claim has nothing to compare."""
        own = [self._text(text) for text in texts]

        def has(parts: Iterable[str]) -> bool:
            return all(any(part in stems for stems, _ in own) for part in parts)

        lacking = [
            number for number in sorted(_numbers(claim)) if not any(number in numbers for _, numbers in own)
        ]
        names = [
            name
            for name in _NAME.findall(claim)
            if name[0].isupper() and name.casefold() not in FUNCTION_WORDS
        ]
        lacking += [
            name for name, parts in zip(names, self._tokens.stems(names), strict=True) if not has(parts)
        ]
        words = [word for word in self._tokens.words([claim])[0] if word not in FUNCTION_WORDS]
        if not words:
            return None
        strange = [
            word for word, parts in zip(words, self._tokens.stems(words), strict=True) if not has(parts)
        ]
        if not lacking and len(strange) > _MAX_STRANGE * len(words):
            lacking = strange
        return list(dict.fromkeys(lacking))[:_MAX_MISSING]

    def _text(self, text: str) -> tuple[frozenset[str], frozenset[str]]:
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = frozenset(self._tokens.stems([text])[0]), _numbers(text)
        return known


def _numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text in one notation: `12,500` and `12 500` are the same."""
    found = _NUMBER.findall(_GROUPED.sub("", text))
    parts = (part for number in found for part in (number, *re.split(r"[:/-]", number)))
    return frozenset(part.lstrip("0") or "0" for part in parts if part)
