"""Scores of answers: by rule, or by a model that plays no arm."""

from __future__ import annotations

from benchmarks.quality.bench.scoring.rules import score
from benchmarks.quality.bench.scoring.statistics import Interval, Paired, interval_of, paired

__all__ = ["Interval", "Paired", "interval_of", "paired", "score"]
