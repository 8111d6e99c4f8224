"""The progress of one run."""

from __future__ import annotations

import time

from rlm import events
from rlm.cli.console.display import ProgressDisplay
from rlm.cli.console.render_result import dollars, plural, share
from rlm.cli.console.waiting import WaitingBatches
from rlm.models.base import EXTRACTIVE

__all__ = ["Progress"]

_MAX_HEADLINE = 100
_MAX_TITLE = 80


class Progress(ProgressDisplay):
    """Shows the events of a run that may take `seconds`. `run_id` and `documents` (a count) are None until
    they are known. `verbose`: lines stay for what happened and for each block with its output."""

    def __init__(self, *, quiet: bool, seconds: float, verbose: bool = False) -> None:
        super().__init__("loading", quiet=quiet, interval=5.0 if verbose else 20.0)
        self.run_id: str | None = None
        self._seconds = seconds
        self._verbose = verbose
        self._round = ""
        self._batch = 0
        self._streamed = 0
        self._doing = "waiting for the model"
        self._children = ""
        self._covered = ""
        self._cost: float | None = 0.0
        self.documents: int | None = None
        self._draft = ""
        self._drafted_call = 0
        self.waiting = WaitingBatches()

    def note(self, text: str) -> None:
        """Print a line that stays, if `verbose`."""
        if self._verbose:
            super().note(text)

    def on_event(self, event: events.Event) -> None:
        """Show one event. Never raises on text that came from a document or a model."""
        match event:
            case events.Loading() | events.ContextLoaded():
                self._show_loading(event)
            case events.RunStarted(run_id, strategy, model):
                self.run_id = run_id
                self.limit_at(time.monotonic() + self._seconds)
                self.note(f"run {run_id}: {strategy}, {model}")
                is_one_call = strategy == "direct" and model != EXTRACTIVE
                self.show_activity("asking the model" if is_one_call else "starting")
            case events.Resumed(questions=questions) if questions:
                self.show_activity(f"re-running the blocks of {plural(questions, 'earlier question')}")
            case events.Resumed(run_id, rounds, replies):
                self.run_id = run_id
                others = "1 other reply" if replies == 1 else f"{replies:,} other replies"
                super().note(f"resuming {run_id}: {plural(rounds, 'round')} and {others} from the journal")
                self.show_activity("re-running its blocks")
            case events.PartRun():
                self._show_part(event)
            case events.KernelOpened():
                self.alert_isolation(event)
            case events.RoundStarted(number, limit, final):
                self._round = f"round {number} of {limit}" + (" (the last)" if final else "")
                self.show_activity(f"{self._round}: asking the root")
            case events.CellRun():
                self._show_cell(event)
            case events.Violated(_, kind):
                self.note(f"{self._round}: the reply {events.describe_violation(kind)}; asking again")
            case events.RoundsFolded(last, before, after, fault):
                why = f" (the summary model failed: {fault})" if fault else ""
                self.note(f"folded rounds 1 to {last} from {before:,} to {after:,} tokens{why}")
            case events.ChildrenStarted(count, cost):
                self._batch = count
                about = f", about {dollars(cost)}" if cost else ""
                self.show_activity(f"asking {'a child' if count == 1 else f'{count:,} children'}{about}")
            case events.SubRLMStarted(depth, prompt):
                self.note(f"{self._round}: sub-RLM at depth {depth}: {_one_line(prompt)}")
            case events.ToolEnded(name, ok, _) if not ok:
                self.note(f"{self._round}: tool {name} failed")
            case events.ChildEnded():
                self._show_child(event)
            case events.ReplyStreaming() | events.ModelAnswered() | events.BatchesWaiting():
                self._show_wait(event)
            case events.Retrying():
                self._show_retry(event)
            case _:
                pass

    @property
    def text_observers(self) -> list[events.TextObserver]:
        """Return what shows the text of replies while it is written, in a terminal."""
        return [self.on_text] if self.can_show_drafts else []

    def on_text(self, delta: events.TextDelta) -> None:
        """Show the answer, or the reply of the only child, while it is written."""
        # Several children would only flicker, and the code of a root is shown when it runs.
        if not delta.is_answer and (delta.role != "child" or self._batch != 1):
            return
        is_new = delta.call != self._drafted_call
        self._drafted_call = delta.call
        self._draft = delta.text if delta.restarted or is_new else self._draft + delta.text
        self.show_draft(self._draft)

    def _show_wait(self, event: events.ReplyStreaming | events.ModelAnswered | events.BatchesWaiting) -> None:
        """Show the tokens of replies that have not ended: a slow model may take minutes for one. Show what
        waits in batches, which may take hours."""
        if isinstance(event, events.BatchesWaiting):
            shown = self.waiting.add(event)
            if shown:
                self._show_figure(shown)
            return
        if isinstance(event, events.ModelAnswered):
            self._streamed = 0
            known = self._cost is not None and event.cost_usd is not None
            self._cost = (self._cost or 0.0) + (event.cost_usd or 0.0) if known else None
            self._show_facts()
            return
        self._streamed += event.tokens
        self.show_progress(f"{self._doing}: {self._streamed:,} tokens received")

    def show_activity(self, text: str) -> None:
        """Put the current activity on the live line, and remember it for the tokens that arrive."""
        if "tokens received" not in text:
            self._doing = text
        super().show_activity(text)

    def _show_cell(self, event: events.CellRun) -> None:
        is_code = event.status == "running"
        if is_code:
            headline = f"{self._round}: {_headline(event.code)}"
            self.note(headline)
            self.show_activity("running its block" if self._verbose else headline)
        elif self._verbose:
            output = event.output.strip()
            self.note(f"{self._round}: {event.status} after {event.seconds:.1f} s{':' if output else ''}")
        if self._verbose:
            self.show_block(event.code if is_code else event.output, is_code=is_code)

    def _show_child(self, event: events.ChildEnded) -> None:
        self.show_draft("")
        self._children = f"{event.done:,} of {event.asked:,} {'child' if event.asked == 1 else 'children'}"
        self._covered = f"{share(event.covered_chars, event.chars)} covered"
        if self._show_facts():
            return
        if self._batch <= 1 and not self._verbose:
            return
        cost = "cost unknown" if event.cost_usd is None else dollars(event.cost_usd)
        self._show_figure(
            f"{event.done:,} of {event.asked:,} children, {event.tokens:,} tokens, {cost}, "
            f"{share(event.covered_chars, event.chars)} covered",
            at_once=self._verbose and event.done == event.asked and self._batch > 1,
        )

    def _show_facts(self) -> bool:
        """Show children, dollars and coverage on the live line. Return False where there is none."""
        cost = "" if not self._cost else dollars(self._cost)
        return self.show_facts(" · ".join(one for one in (self._children, cost, self._covered) if one))

    def _show_figure(self, text: str, *, at_once: bool = False) -> None:
        # A summary or a comparison has no rounds of a root.
        prefix = f"{self._round}: " if self._round and self._verbose else ""
        self.show_progress(text, prefix=prefix, at_once=at_once)

    def _show_retry(self, event: events.Retrying) -> None:
        why = event.reason.replace("_", " ")
        text = f"provider: {why}; attempt {event.attempt} failed, retrying in {event.wait:.1f} s"
        if self._verbose:
            self.note(text)
        else:
            self.show_progress(text)

    def _show_loading(self, event: events.Loading | events.ContextLoaded) -> None:
        if isinstance(event, events.Loading):
            if event.indexed is not None:
                done = f"{share(event.done, event.indexed)} of {event.indexed:,} characters"
                self._show_figure(f"indexing the input: {done}")
                return
            mebibytes = event.done >> 20
            so_far = f": {mebibytes:,} MiB read" if mebibytes else ""
            self.show_progress(f"loading {_one_line(event.document)}{so_far}")
            return
        self.documents = event.documents
        skipped = f", {event.skipped:,} skipped" if event.skipped else ""
        self.note(
            f"loaded {plural(event.documents, 'document')}, {event.chars:,} characters in "
            f"{event.seconds:.1f} s{skipped}"
        )

    def _show_part(self, event: events.PartRun) -> None:
        """Show a question of a research, or a method of a comparison."""
        if event.status in ("finished", "failed"):
            self.note(f"{event.name}: {event.status}; {event.done} of {event.of} done")
            return
        title = " ".join(event.title.split())
        self.note(f"{event.name}: {title}" + (" (from the journal)" if event.status == "known" else ""))
        self.show_activity(title[:_MAX_TITLE])


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_TITLE]


def _headline(code: str) -> str:
    """Return the first comment or line of a block."""
    for line in code.splitlines():
        words = line.strip().lstrip("#").strip()
        if words:
            return words if len(words) <= _MAX_HEADLINE else words[: _MAX_HEADLINE - 1] + "…"
    return "an empty block"
