"""The figures of a batch, summed over the lines of its results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import Any

from rlm.lazy_dataclass import dataclass

__all__ = ["BatchSummary"]


@dataclass(slots=True)
class BatchSummary:
    """The sums so far.

    `ends` counts tasks by `answered` or their stop reason. `cost_usd` is a lower bound if `cost_known` is
    False. `before` is the number of lines that earlier starts wrote.
    """

    tasks: int = 0
    before: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = True
    citations: int = 0
    verified: int = 0
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """The number of tasks that have a line."""
        return self.ends.total()

    @property
    def answered(self) -> int:
        return self.ends["answered"]

    def add(self, line: Mapping[str, Any]) -> None:
        """Count one line of the results."""
        self.ends["answered" if line["answer"] is not None else str(line["stop_reason"])] += 1
        for usage in line["usage"]:
            self.calls += usage["calls"]
            self.input_tokens += usage["input_tokens"]
            self.output_tokens += usage["output_tokens"]
        cost = cost_of(line)
        self.cost_known = self.cost_known and cost is not None
        self.cost_usd += cost or 0.0
        self.citations += len(line["citations"])
        self.verified += sum(bool(citation["verified"]) for citation in line["citations"])

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
        return {**asdict(self), "ends": dict(self.ends), "done": self.done, "answered": self.answered}


def cost_of(line: Mapping[str, Any]) -> float | None:
    """Return the cost of a line's task, None if a price is unknown."""
    costs = [usage["cost_usd"] for usage in line["usage"]]
    return None if any(cost is None for cost in costs) else float(sum(costs))
