"""What a provider's own counts say of a counter's: estimates that learn, and never too soon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = ["Calibration"]

ENOUGH = 8
"""Samples before an estimate is taken for too high."""

_KEPT = 32
_MIN_TOKENS = 200  # a shorter prompt is mostly the words a provider puts around messages
_MARGIN = 1.05
_LOWEST, _HIGHEST = 0.4, 4.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many of a provider's tokens one estimated token stands for, from the last samples.

    A prompt that took more than was estimated raises the factor at once. It falls below 1 only when the
    last `ENOUGH` samples and more all took less, and then to a little above the worst of them.
    """

    ratios: tuple[float, ...] = ()

    def observe(self, estimated: int, actual: int) -> Calibration:
        """With one more prompt: its estimate, and the tokens its provider counted (0: it counts none)."""
        if estimated < _MIN_TOKENS or actual <= 0:
            return self
        ratio = min(_HIGHEST, max(_LOWEST, actual / estimated))
        return replace(self, ratios=(*self.ratios[1 - _KEPT :], ratio))

    @property
    def factor(self) -> float:
        """Between 0.4 and 4; 1 before anything was observed."""
        if not self.ratios:
            return 1.0
        worst = min(_HIGHEST, max(self.ratios) * _MARGIN)
        return worst if worst > _MARGIN or len(self.ratios) >= ENOUGH else 1.0

    def tokens(self, estimated: int) -> int:
        """The estimate, corrected and rounded up."""
        return math.ceil(estimated * self.factor)
