"""Shows in a cell what a run does while it waits: an observer that updates one output."""

from __future__ import annotations

import time
from dataclasses import field
from typing import Any

from rlm import events
from rlm.escaping import html_text
from rlm.lazy_dataclass import dataclass

__all__ = ["NotebookProgress"]

_SECONDS = 0.25
"""Between two updates. Front ends draw each one."""
_CODE_SHOWN = 4_000
_DRAFT_SHOWN = 2_000
_NOTES_SHOWN = 5


@dataclass(slots=True)
class _Block:
    number: int
    code: str
    output: str = ""
    status: str = "running"


@dataclass(slots=True)
class NotebookProgress:
    """An observer for `RLM(observe=…, observe_text=…)` in a notebook.

    It shows the round, the children done, what was spent and read, the blocks with their outputs, and the
    answer while it is written. It uses one output of the cell and needs no widgets. All text is escaped.
    """

    _handle: Any = None
    _began: float = field(default_factory=time.monotonic)
    _shown_at: float = 0.0
    _doing: str = "starting"
    _figures: str = ""
    _share: float | None = None
    _blocks: list[_Block] = field(default_factory=list)
    _notes: list[str] = field(default_factory=list)
    _draft: str = ""
    _run_id: str = ""
    _has_ended: bool = False

    @property
    def run_id(self) -> str:
        """Return the name of the run; "" before it has one."""
        return self._run_id

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
            self._doing = doing or "done"
            self._show()

    def _take(self, event: events.Event) -> None:
        match event:
            case events.Loading(_, done, int(chars)):
                self._doing = f"indexing: {done / max(1, chars):.0%}"
            case events.Loading(document, bytes_read):
                self._doing = f"reading {document} ({bytes_read / 1e6:,.0f} MB so far)"
            case events.ContextLoaded(chars, documents):
                self._doing = f"{chars:,} characters in {_plural(documents, 'document')}"
            case events.RunStarted(run_id, strategy, model):
                self._run_id, self._doing = run_id, f"{strategy} with {model}"
            case events.RoundStarted(number, limit, _):
                self._doing = f"round {number} of {limit}: the model writes"
            case events.CellRun(number, code, "running"):
                self._blocks.append(_Block(number, code[:_CODE_SHOWN]))
                self._doing = f"round {number}: its block runs"
            case events.CellRun(_, _, status, _, output) if self._blocks:
                self._blocks[-1].status, self._blocks[-1].output = status, output
            case events.ChildrenStarted(count):
                self._doing = f"{_plural(count, 'child', 'children')} asked"
            case events.ChildEnded():
                self._take_child(event)
            case events.TextDelta(text, is_answer=True, restarted=restarted):
                self._draft = text if restarted else self._draft + text
                self._doing = "the answer is being written"
            case events.SubRLMStarted(depth):
                self._doing = f"a sub-RLM works, at depth {depth}"
            case events.Retrying(_, wait, reason):
                self._notes.append(f"provider: {reason.replace('_', ' ')}; retrying in {wait:.1f} s")
            case events.Warned(message, 0):
                self._notes.append(message)
            case _:
                pass

    def _take_child(self, event: events.ChildEnded) -> None:
        cost = "" if event.cost_usd is None else f", ${event.cost_usd:.4f}"
        self._figures = f"{event.done:,} of {_plural(event.asked, 'child', 'children')}{cost}"
        self._share = min(1.0, event.covered_chars / event.chars) if event.chars else None

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
        seconds = f"{time.monotonic() - self._began:.0f} s"
        line = "; ".join(filter(None, [self._doing, self._figures, seconds]))
        parts = []
        if self._share is not None and not self._has_ended:
            parts.append(
                f"<progress max='1' value='{self._share:.3f}'></progress> "
                f"<small>{self._share:.0%} of the input read by children</small>"
            )
        if self._draft and not self._has_ended:
            # The end is what grows.
            draft = self._draft[-_DRAFT_SHOWN:]
            parts.append(f"<p style='white-space: pre-wrap; opacity: .7'>{html_text(draft)}</p>")
        parts += [f"<div><small>{html_text(note)}</small></div>" for note in self._notes[-_NOTES_SHOWN:]]
        if self._blocks:
            blocks = "".join(map(_block_html, self._blocks))
            parts.append(
                f"<details><summary>{_plural(len(self._blocks), 'block')}</summary>{blocks}</details>"
            )
        return f"<div><small><b>rlm</b> {html_text(line)}</small>{''.join(parts)}</div>"


def _block_html(block: _Block) -> str:
    output = f"<pre style='opacity: .7'>{html_text(block.output)}</pre>" if block.output.strip() else ""
    return (
        f"<div><small>round {block.number}, {html_text(block.status)}</small>"
        f"<pre>{html_text(block.code)}</pre>{output}</div>"
    )


def _plural(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
