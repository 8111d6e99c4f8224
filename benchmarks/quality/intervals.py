"""Intervals of mean scores, and of the difference between two arms on the items that both answered."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

__all__ = ["Interval", "Paired", "interval_of", "paired", "wilson"]

_Z = 1.959964
_RESAMPLES = 4_000
_SEED = 20_240_229


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval. `method` is `Wilson` or `bootstrap`; `count` is the number of items."""

    mean: float
    low: float
    high: float
    count: int
    method: str


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference of two arms on the items of both: mean and 95 % interval (bootstrap over items), how
    many items are better, equal and worse, and the two-sided p of the sign test."""

    mean: float
    low: float
    high: float
    better: int
    equal: int
    worse: int
    p: float


def interval_of(scores: Mapping[str, Sequence[float]]) -> Interval | None:
    """Return the interval of the mean score. `scores` are those of each item, one for each repetition. None
    without items.

    Scores of 0 and 1 with one repetition have Wilson's interval. Others are resampled by items, because the
    repetitions of an item are not independent."""
    means = [fmean(one) for _, one in sorted(scores.items()) if one]
    if not means:
        return None
    if all(len(one) == 1 and one[0] in (0.0, 1.0) for one in scores.values()):
        low, high = wilson(round(sum(means)), len(means))
        return Interval(fmean(means), low, high, len(means), "Wilson")
    low, high = _bootstrap(means)
    return Interval(fmean(means), low, high, len(means), "bootstrap")


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    share, square = hits / count, _Z * _Z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count * count)) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def paired(one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]) -> Paired | None:
    """Return how `one` differs from `other` on the items of both. None without such items."""
    both = sorted(item for item in one.keys() & other.keys() if one[item] and other[item])
    if not both:
        return None
    differences = [fmean(one[item]) - fmean(other[item]) for item in both]
    low, high = _bootstrap(differences)
    better = sum(value > 1e-12 for value in differences)
    worse = sum(value < -1e-12 for value in differences)
    return Paired(
        fmean(differences), low, high, better, len(both) - better - worse, worse, _sign_test(better, worse)
    )


def _bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Return the 2.5th and 97.5th percentile of the means of resamples. The seed is fixed, so that the same
    scores have the same interval."""
    draw = random.Random(_SEED)
    count = len(values)
    means = sorted(fmean(draw.choices(values, k=count)) for _ in range(_RESAMPLES))
    edge = round(0.025 * _RESAMPLES)
    return means[edge], means[-edge - 1]


def _sign_test(better: int, worse: int) -> float:
    count = better + worse
    tail = sum(math.comb(count, number) for number in range(min(better, worse) + 1))
    return min(1.0, tail / float(2 ** (count - 1))) if count else 1.0
