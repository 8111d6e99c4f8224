"""What a run shows while it goes on: a live line in a terminal, a line now and then elsewhere. On stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rlm import events
from rlm.cli.console.render_result import dollars, plural, printable, share

if TYPE_CHECKING:
    from rlm.cli.console.live import LiveLine

__all__ = ["Progress"]

_LINE_SECONDS = 5.0
"""Where there is no terminal: how often children done are worth a line."""


class Progress:
    """Takes the events of a run that may last `seconds`. `run_id` is known once the run has begun."""

    def __init__(self, *, quiet: bool, seconds: float) -> None:
        self.run_id: str | None = None
        self._quiet = quiet
        self._seconds = seconds
        self._live: LiveLine | None = None
        self._round = ""
        self._batch = 0
        self._last_line = 0.0

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rlm.cli.console.live import LiveLine

            self._live = LiveLine("loading")
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

    def on_event(self, event: events.Event) -> None:
        """One event. Never raises on what a document or a model may have put into it."""
        match event:
            case events.ContextLoaded():
                self._loaded(event)
            case events.RunStarted(run_id, strategy, model):
                self.run_id = run_id
                if self._live is not None:
                    self._live.ends_at = time.monotonic() + self._seconds
                self._line(f"run {run_id}: {strategy}, {model}")
                self._show("starting" if strategy == "rlm" else "asking the model")
            case events.Resumed(run_id, rounds, replies):
                self.run_id = run_id
                self._line(
                    f"going on with {run_id}: {plural(rounds, 'round')} and {replies:,} other replies are "
                    "in the journal"
                )
                self._show("running its blocks again")
            case events.PartStarted() | events.PartEnded():
                self._part(event)
            case events.KernelOpened(level, missing) if level < 2:
                held = "NO ISOLATION" if level == 0 else "PARTIAL ISOLATION"
                self._alarm(f"{held} (level {level}): {missing or 'as asked for'}")
            case events.RoundStarted(number, limit, final):
                self._round = f"round {number} of {limit}" + (" (the last)" if final else "")
                self._show(f"{self._round}: asking the root")
            case events.CellStarted(_, code):
                self._line(f"{self._round}: {_headline(code)}")
                self._show("running its block")
            case events.Violated(_, kind):
                self._line(f"{self._round}: the reply {events.describe_violation(kind)}; asking again")
            case events.RoundsFolded(last, before, after, fault):
                why = f" (without the summary model: {fault})" if fault else ""
                self._line(f"rounds 1 to {last} folded: {before:,} tokens are {after:,} now{why}")
            case events.ChildrenStarted(count, cost):
                self._batch = count
                self._last_line = self._last_line or time.monotonic()
                about = f", about {dollars(cost)}" if cost else ""
                self._show(f"asking {'a child' if count == 1 else f'{count:,} children'}{about}")
            case events.SubRLMStarted(depth, prompt):
                self._line(f"{self._round}: sub-RLM at depth {depth}: {' '.join(prompt.split())[:80]}")
            case events.QuestionsRepeated(questions):
                self._show(f"running the blocks of {plural(questions, 'earlier question')} again")
            case events.ToolEnded(name, ok, _) if not ok:
                self._line(f"{self._round}: tool {name} failed")
            case events.ChildEnded():
                self._child(event)
            case events.Indexing(done, chars):
                self._indexing(done, chars)
            case events.Retrying(attempt, wait, reason):
                why = reason.replace("_", " ")
                self._line(f"the provider: {why}; attempt {attempt} failed, next in {wait:.1f} s")
            case _:
                pass

    def _child(self, event: events.ChildEnded) -> None:
        cost = "cost unknown" if event.cost_usd is None else dollars(event.cost_usd)
        text = (
            f"{event.done:,} of {event.asked:,} children, {event.tokens:,} tokens, {cost}, "
            f"{share(event.covered_chars, event.chars)} covered"
        )
        if self._live is not None:
            self._show(text)
            return
        now = time.monotonic()
        over = event.done == event.asked and self._batch > 1
        if over or now - self._last_line > _LINE_SECONDS:
            self._last_line = now
            # A job that is no run of a root has no rounds.
            self._line(f"{self._round}: {text}" if self._round else text)

    def _loaded(self, event: events.ContextLoaded) -> None:
        passed = f", {event.skipped} passed over" if event.skipped else ""
        self._line(
            f"loaded {plural(event.documents, 'document')}, {event.chars:,} characters in "
            f"{event.seconds:.1f} s{passed}"
        )

    def _part(self, event: events.PartStarted | events.PartEnded) -> None:
        """A question of a research, a method of a comparison."""
        if isinstance(event, events.PartEnded):
            said = "answered" if event.ok else "no answer"
            self._line(f"{event.name}: {said}; {event.done} of {event.of} done")
            return
        title = " ".join(event.title.split())
        self._line(f"{event.name}: {title}" + (" (in the journal)" if event.known else ""))
        self._show(title[:80])

    def _indexing(self, done: int, chars: int) -> None:
        text = f"indexing the input for ranking: {share(done, chars)} of {chars:,} characters"
        if self._live is not None:
            self._show(text)
            return
        now = time.monotonic()
        if now - self._last_line > _LINE_SECONDS:
            self._last_line = now
            self._line(f"{self._round}: {text}")

    def _alarm(self, text: str) -> None:
        """A line that is not to be missed, also where nothing else is said."""
        self._print(text, "bold red")

    def _line(self, text: str) -> None:
        if not self._quiet:
            self._print(text, "dim")

    def _print(self, text: str, style: str) -> None:
        if self._live is not None:
            self._live.print(printable(text), style)
        else:
            print(printable(text), file=sys.stderr, flush=True)  # noqa: T201

    def _show(self, text: str) -> None:
        """What goes on now: on the live line, which never repeats what was printed above it."""
        if self._live is not None:
            self._live.text = printable(text)


def _headline(code: str) -> str:
    """What a cell does, as its first comment or line says it."""
    for line in code.splitlines():
        words = line.strip().lstrip("#").strip()
        if words:
            return words if len(words) <= 100 else words[:99] + "…"
    return "an empty block"
