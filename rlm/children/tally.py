"""Counts of the children of one cell."""

from __future__ import annotations

from rlm.lazy_dataclass import dataclass
from rlm.sandbox.types import ChildAnswer

__all__ = ["ChildTally"]


@dataclass(frozen=True, slots=True)
class ChildTally:
    """Counts the children of one cell. `empty` are those that found nothing in their slice. `calls` are
    those that sub-RLMs made. `cost_usd` is None when a price is not known."""

    made: int = 0
    failed: int = 0
    empty: int = 0
    cached: int = 0
    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0

    def plus(self, answer: ChildAnswer) -> ChildTally:
        """Return the counts with one more answer, of a child or of a sub-RLM."""
        costs = (self.cost_usd, answer.cost_usd)
        return ChildTally(
            made=self.made + 1,
            failed=self.failed + (answer.error is not None),
            empty=self.empty + (answer.error is None and not answer.found),
            cached=self.cached + answer.cached,
            seconds=self.seconds,
            calls=self.calls + answer.calls,
            tokens=self.tokens + answer.input_tokens + answer.output_tokens,
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
        )
