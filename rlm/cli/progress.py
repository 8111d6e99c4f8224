"""What a run shows while it goes on: a live line in a terminal, a line now and then elsewhere. On stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rlm import events
from rlm.cli.answer import dollars, plural, printable

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["Progress"]

_LINE_SECONDS = 5.0
"""Where there is no terminal: how often children done are worth a line."""


class Progress:
    """Takes the events of a run. `run_id` is known once the run has begun."""

    def __init__(self, *, quiet: bool) -> None:
        self.run_id: str | None = None
        self._quiet = quiet
        self._live = not quiet and sys.stderr.isatty()
        self._status: Status | None = None
        self._round = ""
        self._children = ""
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._live:
            from rich.console import Console
            from rich.status import Status

            self._status = Status("loading", console=Console(stderr=True), spinner="dots")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def take(self, event: events.Event) -> None:
        """One event. Never raises on what a document or a model may have put into it."""
        match event:
            case events.ContextLoaded(chars, documents, skipped, seconds):
                passed = f", {skipped} passed over" if skipped else ""
                self._line(
                    f"loaded {plural(documents, 'document')}, {chars:,} characters in {seconds:.1f} s{passed}"
                )
            case events.RunStarted(run_id, strategy, model):
                self.run_id = run_id
                self._line(f"run {run_id}: {strategy}, {model}")
            case events.KernelOpened(level, missing) if level < 2:
                held = "NO ISOLATION" if level == 0 else "PARTIAL ISOLATION"
                self._alarm(f"{held} (level {level}): {missing or 'as asked for'}")
            case events.RoundStarted(number, limit, final):
                self._round = f"round {number} of {limit}" + (" (the last)" if final else "")
                self._children = ""
                self._show(f"{self._round}: asking the root")
            case events.CellStarted(_, code):
                self._line(f"{self._round}: {_headline(code)}")
            case events.Violated(_, kind):
                self._line(f"{self._round}: the reply broke the contract ({kind}); asking again")
            case events.ChildEnded():
                self._child(event)
            case events.Retrying(attempt, wait, reason):
                self._line(f"the provider: {reason}; attempt {attempt} failed, next in {wait:.1f} s")
            case _:
                pass

    def _child(self, event: events.ChildEnded) -> None:
        cost = "cost unknown" if event.cost_usd is None else dollars(event.cost_usd)
        share = 100 * event.covered_chars / event.chars if event.chars else 100
        self._children = (
            f"{event.done} of {event.asked} children, {event.tokens:,} tokens, {cost}, {share:.1f} % covered"
        )
        text = f"{self._round}: {self._children}"
        if self._live or event.done == event.asked or time.monotonic() - self._last_line > _LINE_SECONDS:
            self._last_line = time.monotonic()
            (self._show if self._live else self._line)(text)

    def _alarm(self, text: str) -> None:
        """A line that is not to be missed, also where nothing else is said."""
        if self._status is not None:
            from rich.text import Text

            self._status.console.print(Text(text, style="bold red"))
        else:
            print(text, file=sys.stderr, flush=True)  # noqa: T201

    def _show(self, text: str) -> None:
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(printable(text)))

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        if self._status is not None:
            from rich.text import Text

            self._status.console.print(Text(printable(text), style="dim"), soft_wrap=True)
            self._show(text)
        else:
            print(printable(text), file=sys.stderr, flush=True)  # noqa: T201


def _headline(code: str) -> str:
    """What a cell does, as its first comment or line says it."""
    for line in code.splitlines():
        words = line.strip().lstrip("#").strip()
        if words:
            return words if len(words) <= 100 else words[:99] + "…"
    return "an empty block"
