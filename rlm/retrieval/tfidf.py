"""Rerank the best passages of BM25 by tf-idf."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

__all__ = ["tfidf"]


def tfidf(
    passages: Sequence[tuple[int, Sequence[str]]], frequencies: Mapping[str, int], total: int
) -> list[tuple[int, float]]:
    """Return (passage, score), best first, for passages given as (number, stems). The score is the sum of (1
    + ln tf) · ln(1 + total / df) over the stems of `frequencies`, divided by the square root of the passage's
    length. `frequencies` holds df: how many of `total` passages contain each stem."""
    scored = []
    for number, stems in passages:
        counts = Counter(stem for stem in stems if stem in frequencies)
        weight = sum(
            (1 + math.log(count)) * math.log(1 + total / max(1, frequencies[stem]))
            for stem, count in counts.items()
        )
        scored.append((number, weight / math.sqrt(max(1, len(stems)))))
    return sorted(scored, key=lambda passage: (-passage[1], passage[0]))
