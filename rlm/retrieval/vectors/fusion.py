"""Fuse rankings of the same passages by reciprocal rank."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

__all__ = ["fuse"]

_K = 60
"""The usual constant: the first of a ranking counts little more than the tenth."""


def fuse(*rankings: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return (passage, score), best first, for rankings of (passage, score of their own), best first. The
    score is the sum of 1 / (60 + rank), with ranks from 1, as a share of what the first of all rankings gets:
    1 at best. Equal ones are in the order of their numbers."""
    best = len(rankings) / (_K + 1)
    scores: defaultdict[int, float] = defaultdict(float)
    for ranking in rankings:
        for rank, (number, _) in enumerate(ranking, 1):
            scores[number] += 1 / (_K + rank)
    ordered = sorted(scores.items(), key=lambda passage: (-passage[1], passage[0]))
    return [(number, score / best) for number, score in ordered]
