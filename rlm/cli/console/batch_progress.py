"""What a batch shows while it goes on, and the table at its end. On stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rlm import events
from rlm.cli.console.render_result import dollars, plural, printable

if TYPE_CHECKING:
    from rlm.batch import BatchSummary
    from rlm.cli.console.live import LiveLine

__all__ = ["BatchDisplay", "summary_table"]

_LINE_SECONDS = 5.0
_ENDS = {
    "answered": "answered",
    "finalized": "without an answer",
    "rounds": "out of rounds",
    "sub_calls": "out of child calls",
    "tokens": "out of tokens",
    "cost": "out of money",
    "time": "out of time",
    "contract_violation": "contract broken",
    "kernel": "kernel died",
    "model": "provider failed",
    "cancelled": "cancelled",
    "error": "could not be run",
}


class BatchDisplay:
    """A live line in a terminal, a line now and then elsewhere. `take` is told what single runs do: only
    missing isolation is worth a line, once."""

    def __init__(self, *, quiet: bool, budget: float | None) -> None:
        self._quiet = quiet
        self._budget = budget
        self._live: LiveLine | None = None
        self._began = time.monotonic()
        self._said = self._began
        self._warned = False

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rlm.cli.console.live import LiveLine

            self._live = LiveLine("starting")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""
        live, self._live = self._live, None
        if live is not None:
            live.close()

    def note(self, text: str) -> None:
        """A line of its own."""
        if not self._quiet:
            self._print(text, "dim")

    def on_event(self, event: events.Event) -> None:
        """An event of any run."""
        if isinstance(event, events.KernelOpened) and event.level < 2 and not self._warned:
            self._warned = True
            held = "NO ISOLATION" if event.level == 0 else "PARTIAL ISOLATION"
            self._print(f"{held} (level {event.level}): {event.missing or 'as asked for'}", "bold red")

    def line(self, summary: BatchSummary) -> None:
        """One more line is written."""
        now = time.monotonic()
        here = summary.done - summary.before
        pace = here / max(now - self._began, 1e-3)
        failed = summary.done - summary.answered
        text = f"{summary.done:,} of {plural(summary.tasks, 'task')}"
        text += f", {failed:,} without an answer" if failed else ""
        text += f", {_cost(summary)}" + (f" of {dollars(self._budget)}" if self._budget else "")
        text += f", {pace:.1f} a second"
        if self._live is not None:
            self._live.text = printable(text)
            self._live.ends_at = now + (summary.tasks - summary.done) / pace
        elif not self._quiet and now - self._said > _LINE_SECONDS:
            self._said = now
            self._print(text, "dim")

    def _print(self, text: str, style: str) -> None:
        if self._live is not None:
            self._live.print(printable(text), style)
        else:
            print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def summary_table(summary: BatchSummary) -> str:
    """How the tasks ended and what they took, a line each."""
    rows = [("tasks", f"{summary.tasks:,}")]
    rows += [(_ENDS.get(end, end), f"{count:,}") for end, count in summary.ends.most_common()]
    if summary.done < summary.tasks:
        rows.append(("not run", f"{summary.tasks - summary.done:,}"))
    if summary.before:
        rows.append(("done before", f"{summary.before:,}"))
    rows += [
        ("citations", f"{summary.verified:,} of {summary.citations:,} verified"),
        ("calls", f"{summary.calls:,}"),
        ("tokens", f"{summary.input_tokens:,} in, {summary.output_tokens:,} out"),
        ("cost", _cost(summary)),
    ]
    here = summary.done - summary.before
    if here and summary.seconds:
        rows.append(("time", f"{summary.seconds:.1f} s, {here / summary.seconds:.1f} tasks a second"))
    return "\n".join(f"{name:<20}{value}" for name, value in rows)


def _cost(summary: BatchSummary) -> str:
    cost = dollars(summary.cost_usd)
    return cost if summary.cost_known else f"at least {cost} (a price is not known)"
