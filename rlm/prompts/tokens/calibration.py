"""Correct token estimates by the counts that a provider reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

__all__ = ["MIN_FACTOR", "Calibration"]

ENOUGH = 8
"""Samples needed before the factor may fall below 1."""

_MAX_SAMPLES = 32
_MIN_TOKENS = 200  # shorter prompts are mostly the text a provider adds around messages
_MARGIN = 1.05
MIN_FACTOR, _MAX_FACTOR = 0.4, 4.0
_SIZE_MARGIN = 1.15


@dataclass(frozen=True, slots=True)
class Calibration:
    """The ratio between a provider's tokens and estimated ones, over the last samples.

    A prompt that took more than estimated raises the factor at once. The factor falls below 1 only after
    `ENOUGH` samples that all took less, and then to slightly above the highest of them.
    """

    ratios: tuple[float, ...] = ()

    def observe(self, estimated: int, actual: int) -> Calibration:
        """Add a prompt: its estimate, and the tokens the provider counted (0 if it reports none)."""
        if estimated < _MIN_TOKENS or actual <= 0:
            return self
        ratio = min(_MAX_FACTOR, max(MIN_FACTOR, actual / estimated))
        return replace(self, ratios=(*self.ratios[1 - _MAX_SAMPLES :], ratio))

    @property
    def factor(self) -> float:
        """Return the factor, between 0.4 and 4. It is 1 before any sample."""
        if not self.ratios:
            return 1.0
        worst = min(_MAX_FACTOR, max(self.ratios) * _MARGIN)
        return worst if worst > _MARGIN or len(self.ratios) >= ENOUGH else 1.0

    @property
    def planned_factor(self) -> float:
        """Return the factor for choosing the size of prompts over the same text. One sample is enough,
        because nothing that was paid depends on it."""
        return min(_MAX_FACTOR, max(self.ratios) * _SIZE_MARGIN) if self.ratios else 1.0

    @property
    def accepted_factor(self) -> float:
        """Return the factor for accepting such a prompt. It is lower, so that a size that was planned is
        still accepted when a later sample is a little higher."""
        return min(_MAX_FACTOR, max(self.ratios) * _MARGIN) if self.ratios else 1.0

    def tokens(self, estimated: int) -> int:
        """Return the corrected estimate, rounded up."""
        return math.ceil(estimated * self.factor)
