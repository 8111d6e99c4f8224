"""What a run was worth, as training wants it: numbers that follow from its journal, and from a gold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rlm.lazy_dataclass import dataclass
from rlm.results import RunResult

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["Reward"]


@dataclass(frozen=True, slots=True)
class Reward:
    """The rewards of one whole run. Shares are from 0 to 1, and None where there is nothing to count.

    supported_share: of the claims that were checked. coverage: of the input that was read or answered for.
    sub_call_success: of the child calls and sub-RLMs. cost_usd is None if a price is unknown. correct: by the
    rule of the golds; None without a gold.
    """

    answered: bool
    finalized: bool
    supported_share: float | None
    coverage: float | None
    sub_call_success: float | None
    cost_usd: float | None
    tokens: int
    correct: float | None = None

    @classmethod
    def of(cls, result: RunResult, events: Iterable[JournalEvent], correct: float | None = None) -> Reward:
        """Return the rewards of an ended run."""
        support, coverage = result.support, result.coverage
        checked = 0 if support is None else support.supported + support.unsupported
        costs = [one.cost_usd for one in result.usage]
        return cls(
            answered=result.answer is not None,
            finalized=result.stop_reason == "finalized",
            supported_share=None if support is None or not checked else round(support.supported / checked, 4),
            coverage=round(1 - coverage.uncovered_chars / coverage.input_chars, 4)
            if coverage.input_chars
            else None,
            sub_call_success=_sub_call_success(events),
            cost_usd=None if any(cost is None for cost in costs) else round(sum(filter(None, costs)), 6),
            tokens=sum(one.input_tokens + one.output_tokens for one in result.usage),
            correct=correct,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the rewards by name. `correct` is left out without a gold."""
        return {name: value for name, value in asdict(self).items() if name != "correct" or value is not None}


def _sub_call_success(events: Iterable[JournalEvent]) -> float | None:
    asked = failed = 0
    for event in events:
        if event.kind == "sub_rlm_ended":
            asked += 1
            failed += event.data.get("error") is not None
        elif event.kind == "child":
            # A reply that was refused has an event of its own, and then one without a key for the failure.
            is_failure = event.data.get("error") is not None
            asked += not is_failure or event.data.get("key") is not None
            failed += is_failure
    return round(max(0, asked - failed) / asked, 4) if asked else None
