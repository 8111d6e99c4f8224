"""The progress of a batch, and the table at its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rlm import events
from rlm.cli.console.display import ProgressDisplay
from rlm.status import WaitingBatches, dollars, plural

if TYPE_CHECKING:
    from rlm.batch.results import BatchSummary

__all__ = ["BatchDisplay", "summary_table"]

_ENDS = {
    "answered": "answered",
    "finalized": "without an answer",
    "rounds": "out of rounds",
    "sub_calls": "out of child calls",
    "tokens": "out of tokens",
    "cost": "out of money",
    "time": "out of time",
    "contract_violation": "contract violated",
    "kernel": "kernel died",
    "model": "provider failed",
    "cancelled": "cancelled",
    "error": "failed to run",
}


class BatchDisplay(ProgressDisplay):
    """Shows how many tasks are done. Of the events of single runs it shows missing isolation, once, and what
    waits in batches of a provider."""

    def __init__(self, *, quiet: bool, budget: float | None) -> None:
        super().__init__("starting", quiet=quiet)
        self._budget = budget
        self._start = time.monotonic()
        self._has_warned = False
        self.waiting = WaitingBatches()

    def on_event(self, event: events.Event) -> None:
        """Handle an event of any run."""
        if isinstance(event, events.KernelOpened) and event.level < 2 and not self._has_warned:
            self._has_warned = True
            self.alert_isolation(event)
        elif isinstance(event, events.BatchesWaiting):
            shown = self.waiting.add(event)
            if shown:
                self.show_progress(shown)

    def show_summary(self, summary: BatchSummary) -> None:
        """Show the figures after one more task."""
        now = time.monotonic()
        per_second = (summary.done - summary.before) / max(now - self._start, 1e-3)
        failed = summary.done - summary.answered
        text = f"{summary.done:,} of {plural(summary.tasks, 'task')}"
        text += f", {failed:,} without an answer" if failed else ""
        text += f", {_cost(summary)}" + (f" of {dollars(self._budget)}" if self._budget else "")
        self.show_progress(f"{text}, {per_second:.1f} a second")
        self.end_at(now + (summary.tasks - summary.done) / per_second)


def summary_table(summary: BatchSummary) -> str:
    """Return a line for each way that tasks ended, and for what they used."""
    rows = [("tasks", f"{summary.tasks:,}")]
    rows += [(_ENDS.get(end, end), f"{count:,}") for end, count in summary.ends.most_common()]
    if summary.done < summary.tasks:
        rows.append(("not run", f"{summary.tasks - summary.done:,}"))
    if summary.before:
        rows.append(("from earlier starts", f"{summary.before:,}"))
    rows += [
        ("citations", f"{summary.verified:,} of {summary.citations:,} verified"),
        ("calls", f"{summary.calls:,}"),
        ("tokens", f"{summary.input_tokens:,} in, {summary.output_tokens:,} out"),
        ("cost", _cost(summary)),
    ]
    count = summary.done - summary.before
    if count and summary.seconds:
        rows.append(("time", f"{summary.seconds:.1f} s, {count / summary.seconds:.1f} tasks a second"))
    return "\n".join(f"{name:<20}{value}" for name, value in rows)


def _cost(summary: BatchSummary) -> str:
    cost = dollars(summary.cost_usd)
    return cost if summary.cost_known else f"at least {cost} (a price is unknown)"
