"""Fits an exponent: the slope of a straight line through the logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Fit", "fit"]

_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantiles of 97.5 % of Student's t for 1, 2, … degrees of freedom."""
_NORMAL = 1.96
_LEAST = 3


@dataclass(frozen=True, slots=True)
class Fit:
    """An exponent with its 95 % interval, and the factor before the power."""

    exponent: float
    low: float
    high: float
    factor: float


def fit(points: Sequence[tuple[float, float]]) -> Fit | None:
    """Return the fit of y = factor · x^exponent, or None for fewer than three points above zero."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < _LEAST or len({x for x, _ in logs}) < _LEAST:
        return None
    mean_x, mean_y = (sum(column) / len(logs) for column in zip(*logs, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread
    start = mean_y - slope * mean_x
    rest = sum((y - start - slope * x) ** 2 for x, y in logs)
    freedom = len(logs) - 2
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
    half = student * math.sqrt(rest / freedom / spread)
    return Fit(slope, slope - half, slope + half, math.exp(start))
