"""tf-idf over the passages that BM25 puts first: another order of the same finds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["tfidf"]


def tfidf(
    passages: Sequence[tuple[int, Sequence[str]]], frequencies: Mapping[str, int], total: int
) -> list[tuple[int, float]]:
    """(passage, score) of passages given as (number, stems), best first: the sum over the stems of
    `frequencies` (how many of `total` passages hold each) of (1 + ln tf) · ln(1 + total / df), by the root of
    the passage's length."""
    scored = []
    for number, stems in passages:
        counts = Counter(stem for stem in stems if stem in frequencies)
        weight = sum(
            (1 + math.log(count)) * math.log(1 + total / max(1, frequencies[stem]))
            for stem, count in counts.items()
        )
        scored.append((number, weight / math.sqrt(max(1, len(stems)))))
    return sorted(scored, key=lambda passage: (-passage[1], passage[0]))
