"""The progress of one run."""

from __future__ import annotations

import time

from rlm import events
from rlm.cli.console.display import ProgressDisplay
from rlm.status import RunStatus, describe

__all__ = ["Progress"]

_KEPT = (
    events.RunStarted | events.ContextLoaded | events.PartRun | events.Violated | events.RoundsFolded
    | events.SubRLMStarted | events.ToolEnded | events.Retrying
)  # fmt: skip
"""Events whose line stays, if `verbose`."""


class Progress(ProgressDisplay):
    """Shows the events of a run that may take `seconds`: its `status` on one live line in a terminal, and
    elsewhere its name and then at most one line a round. `verbose`: lines stay for what happened and for
    each block with its output, and a terminal shows the block while it is written."""

    def __init__(self, *, quiet: bool, seconds: float, verbose: bool = False) -> None:
        super().__init__("loading", quiet=quiet, interval=5.0 if verbose else 20.0)
        self.status = RunStatus()
        self._seconds = seconds
        self._verbose = verbose
        self._is_named = False
        self._shown_round = 0
        self._draft = ""
        self._drafted_call = 0
        self._asked_at_once = 0

    @property
    def run_id(self) -> str | None:
        """The name of the run, None before it has one."""
        return self.status.run_id or None

    def on_event(self, event: events.Event) -> None:
        """Show an event. Never raises on text that came from a document or a model."""
        self.status.on_event(event)
        match event:
            case events.RunStarted(run_id):
                self.limit_at(time.monotonic() + self._seconds)
                if not self._verbose and not self._is_named and not self.is_live:
                    self.note(f"run {run_id}")
                self._is_named = True
            case events.Resumed(questions=0):
                self._is_named = True
                self.note(describe(event) or "")
            case events.KernelOpened():
                self.alert_isolation(event)
            case events.CellRun(number, code, status, seconds, output):
                self._show_cell(number, code, status, seconds, output)
            case events.ChildrenStarted(count):
                self._asked_at_once = count
            case events.ChildEnded(done=done, asked=asked):
                self.show_draft("")
                if self._verbose and done == asked and self._asked_at_once > 1:
                    self.note(describe(event) or "")
            case events.ModelAnswered(role="root"):
                self.show_draft("")
            case _:
                pass
        if self._verbose and isinstance(event, _KEPT) and (line := describe(event)) is not None:
            self.note(line)
        self._show_status()

    def _show_status(self) -> None:
        status = self.status
        if self.show_activity(status.now, status.figures):
            return
        # A job without rounds, such as a summary, gets a line now and then.
        if (status.round == 0 or status.round != self._shown_round) and self.show_line(status.line):
            self._shown_round = status.round

    def _show_cell(self, number: int, code: str, status: str, seconds: float, output: str) -> None:
        if not self._verbose:
            return
        is_code = status == "running"
        if is_code:
            self.note(self.status.doing)
        else:
            self.note(f"round {number}: {status} after {seconds:.1f} s{':' if output.strip() else ''}")
        self.show_block(code if is_code else output, is_code=is_code)

    @property
    def text_observers(self) -> list[events.TextObserver]:
        """Return what shows the text of replies while it is written, in a terminal."""
        return [self.on_text] if self.can_show_drafts else []

    def on_text(self, delta: events.TextDelta) -> None:
        """Show the answer, the reply of the only child or, if `verbose`, the block, while it is written."""
        # Several children would only flicker.
        is_only_child = delta.role == "child" and self._asked_at_once == 1
        if not (delta.is_answer or is_only_child or (self._verbose and delta.role == "root")):
            return
        is_new = delta.call != self._drafted_call
        self._drafted_call = delta.call
        self._draft = delta.text if delta.restarted or is_new else self._draft + delta.text
        self.show_draft(self._draft)
