"""Shows in a cell what a run does while it waits: an observer that updates one output."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from rlm import events
from rlm.escaping import html_text
from rlm.status import RunStatus, describe, plural

__all__ = ["NotebookProgress"]

_SECONDS = 0.25
"""Between two updates. Front ends draw each one."""
_CODE_SHOWN = 4_000
_DRAFT_SHOWN = 2_000
_NOTES_SHOWN = 5


@dataclass(slots=True)
class NotebookProgress:
    """An observer for `RLM(observe=…, observe_text=…)` in a notebook.

    It shows the `status` of the run, the blocks with their outputs, and the answer while it is written. It
    uses one output of the cell and needs no widgets. All text is escaped.
    """

    status: RunStatus = field(default_factory=RunStatus)
    _handle: Any = None
    _began: float = field(default_factory=time.monotonic)
    _shown_at: float = 0.0
    _blocks: list[events.CellRun] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _draft: str = ""
    _has_ended: bool = False

    @property
    def run_id(self) -> str:
        """Return the name of the run; "" before it has one."""
        return self.status.run_id

    def __call__(self, event: events.Event) -> None:
        self._take(event)
        if isinstance(event, events.RunEnded | events.RunFinished):
            self.end()
        else:
            self.update()

    def update(self) -> None:
        """Show the present state, at most four times a second."""
        now = time.monotonic()
        if self._has_ended or now - self._shown_at < _SECONDS:
            return
        self._shown_at = now
        self._show()

    def end(self, doing: str = "") -> None:
        """Show the last state, folded: the blocks stay for who wants to see them."""
        if not self._has_ended or doing:
            self._has_ended = True
            self.status.doing = doing or "done"
            self._show()

    def _take(self, event: events.Event) -> None:
        self.status.on_event(event)
        match event:
            case events.CellRun(status="running"):
                self._blocks.append(event)
            case events.CellRun() if self._blocks:
                self._blocks[-1] = event
            case events.TextDelta(text, is_answer=True, restarted=restarted):
                self._draft = text if restarted else self._draft + text
                self.status.doing = "the answer is being written"
            case events.Retrying() | events.Warned(depth=0):
                self._notes.append(describe(event) or "")
            case _:
                pass

    def _show(self) -> None:
        from IPython.display import HTML, display

        data: Any = HTML(self.html())  # type: ignore[no-untyped-call]
        if self._handle is None:
            show: Any = display
            self._handle = show(data, display_id=True)
        else:
            self._handle.update(data)

    def html(self) -> str:
        """Return the present state as HTML."""
        line = f"{self.status.line} · {time.monotonic() - self._began:.0f} s"
        parts = []
        if self._draft and not self._has_ended:
            # The end is what grows.
            draft = html_text(self._draft[-_DRAFT_SHOWN:])
            parts.append(f"<p style='white-space: pre-wrap; opacity: .7'>{draft}</p>")
        parts += [f"<div><small>{html_text(note)}</small></div>" for note in self._notes[-_NOTES_SHOWN:]]
        if self._blocks:
            summary = f"<summary>{plural(len(self._blocks), 'block')}</summary>"
            parts.append(f"<details>{summary}{''.join(map(_block_html, self._blocks))}</details>")
        return f"<div><small><b>rlm</b> {html_text(line)}</small>{''.join(parts)}</div>"


def _block_html(block: events.CellRun) -> str:
    output = f"<pre style='opacity: .7'>{html_text(block.output)}</pre>" if block.output.strip() else ""
    return (
        f"<div><small>round {block.round}, {html_text(block.status)}</small>"
        f"<pre>{html_text(block.code[:_CODE_SHOWN])}</pre>{output}</div>"
    )
