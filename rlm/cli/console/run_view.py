"""A stored run for a reader: its rounds with their code and output, its children, its answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlm.cli.console.render_result import answer_text, full_account, highlight, style_answer
from rlm.cli.console.streams import unfiltered
from rlm.escaping import terminal_line, terminal_text
from rlm.models.base import EXTRACTIVE
from rlm.results import RunResult
from rlm.status import RunStatus, dollars, plural

if TYPE_CHECKING:
    from rich.console import Console

    from rlm.journal import JournalEvent

__all__ = ["RunView"]

_MAX_OUTPUT = 1_200
_MAX_LINES = {"code": 40, "output": 12}
_MAX_CHILDREN = 12
_MAX_NAME = 100
_MAX_PROMPT = 200
_MAX_REPLY = 200
_BETWEEN = ("interrupted", "resumed", "warning", "charge")
"""Kinds of events that may come between the children of a block and its end."""
_STEP = "  | "
"""Before the lines of a sub-RLM, once for each depth."""


class RunView:
    """Prints the events of a run on stdout: with colours, highlighted code and tables in a terminal, as plain
    lines elsewhere. Long code, output and batches are folded, unless `full`."""

    def __init__(self, *, full: bool) -> None:
        self._full = full
        self._console = _console() if sys.stdout.isatty() else None
        self._depth = 0
        self._status = RunStatus()
        self._is_offline = False
        """The root is ours: its blocks are the same for every question."""

    def show(self, events: Iterable[JournalEvent]) -> None:
        """Print all events. The children of a block come before its output, also if they were answered before
        the run was killed and resumed."""
        children: list[JournalEvent] = []
        status = self._status
        for event in events:
            status.apply(event.kind, event.data)
            if event.kind == "run_started":
                self._is_offline = event.data["settings"]["model"] == EXTRACTIVE
            if event.kind == "child":
                children.append(event)
            elif event.kind == "cell":
                self._depth = _depth_of(event)
                self._show_cell(event.data, children)
                children = []
            elif event.kind not in ("tool", "model_call"):
                if event.kind not in _BETWEEN:
                    self._show_children(children)
                    children = []
                self._depth = _depth_of(event)
                self._show_event(event)
        if children:
            self._line(f"round {status.round}: not ended", "bold")
        self._show_children(children)
        if not status.has_ended:
            counts = filter(None, [plural(status.round, "round"), status.figures])
            self._line(f"{status.state}; so far: {' · '.join(counts)}", "dim")

    def _show_cell(self, data: Mapping[str, Any], children: Sequence[JournalEvent]) -> None:
        result = data["result"]
        output = result["stdout"] or result["result"] or result["traceback"] or result["evalue"]
        style = "bold" if result["status"] == "ok" else "bold red"
        self._line(f"round {data['round']}: {result['status']}, {result['seconds']:.2f} s", style)
        self._show_code(data["code"])
        self._show_children(children)
        if output and output.strip():
            self._line("  ->", "dim")
            self._show_lines(output, "output")
        self._line("", "")

    def _show_code(self, code: str) -> None:
        if self._console is None:
            self._show_lines(code, "code")
            return
        shown, hidden = self._folded(terminal_text(code), "code")
        for line in highlight(shown):
            self._console.print(" " * (self._indent + 4), line, sep="", soft_wrap=True)
        self._show_hidden(hidden)

    def _show_lines(self, text: str, kind: str) -> None:
        shown, hidden = self._folded(text, kind)
        for line in shown.splitlines():
            cut = line if self._full or len(line) <= _MAX_OUTPUT else f"{line[:_MAX_OUTPUT]}… (-v)"
            self._line(f"    {cut}", "")
        self._show_hidden(hidden)

    def _folded(self, text: str, kind: str) -> tuple[str, int]:
        """Return the first lines of a text, and the number of those that are hidden."""
        lines = text.rstrip().splitlines()
        if self._is_offline and kind == "code" and not self._full:
            return "\n".join(lines[:1]), 0
        most = len(lines) if self._full else _MAX_LINES[kind]
        # A fold that hides a line or two would only replace them.
        most = len(lines) if len(lines) <= most + 2 else most
        return "\n".join(lines[:most]), len(lines) - most

    def _show_hidden(self, hidden: int) -> None:
        if hidden:
            self._line(f"    … {plural(hidden, 'more line')} (-v shows all)", "dim italic")

    def _show_children(self, children: Sequence[JournalEvent]) -> None:
        if not children:
            return
        self._depth = _depth_of(children[0])
        most = len(children) if self._full or len(children) <= _MAX_CHILDREN + 2 else _MAX_CHILDREN
        if self._console is None:
            for event in children[:most]:
                self._line(_child_line(event.data), "")
        else:
            from rich.padding import Padding

            table = _children_table(children[:most])
            self._console.print(Padding(table, (0, 0, 0, self._indent + 4)))
        if most < len(children):
            self._line(f"    … {len(children) - most:,} more children (-v shows all)", "dim italic")

    def _show_event(self, event: JournalEvent) -> None:
        if event.kind == "finished" and self._depth == 0:
            self._show_result(event.data)
            return
        text = _event_text(event)
        if text:
            style = {"warning": "yellow", "limit": "yellow", "charge": "yellow"}
            self._line(text, style.get(event.kind, ""))

    def _show_result(self, data: Mapping[str, Any]) -> None:
        """Print the answer with its sources, and the account."""
        result = RunResult.from_json(data)
        text = "" if result.answer is None else answer_text(result, markdown=self._console is None)
        if self._console is None:
            self._line(f"{self._status.state}: {_continued(text)}", "")
        else:
            self._line(f"{self._status.state}:", "bold green" if text else "bold red")
            self._console.print(style_answer(text), soft_wrap=True)
        self._line("\n" + full_account(result), "dim")

    @property
    def _indent(self) -> int:
        return len(_STEP) * self._depth

    def _line(self, text: str, style: str) -> None:
        """Print lines that are indented by the depth. Only this method prints text of others as lines."""
        for line in terminal_text(text).split("\n"):
            shown = _STEP * self._depth + line
            if self._console is None:
                print(shown)  # noqa: T201
            else:
                from rich.text import Text

                self._console.print(Text(shown, style=style), soft_wrap=True)


def _console() -> Console:
    from rich.console import Console

    return Console(file=unfiltered(sys.stdout), highlight=False)


def _children_table(children: Sequence[JournalEvent]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("child", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("cost", justify="right", no_wrap=True)
    table.add_column("reply", no_wrap=True, overflow="ellipsis", ratio=1)
    for event in children:
        data = event.data
        failed = data.get("error")
        usage = data.get("usage") or {}
        tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        cost = data.get("cost_usd")
        reply = terminal_line(" ".join(str(failed or data.get("reply", "")).split())[:_MAX_REPLY])
        table.add_row(
            terminal_line(_read_by(data)),
            f"{tokens:,}" if tokens else "",
            "" if cost is None else dollars(cost),
            Text(reply, style="red" if failed else ""),
        )
    return table


def _read_by(data: Mapping[str, Any]) -> str:
    """Return what a child read, in few characters."""
    pages = [f"{document[:_MAX_NAME]} p. {page}" for document, page, _ in data.get("pages", ())]
    if pages:
        return f"{pages[0]}{f' +{len(pages) - 1}' if len(pages) > 1 else ''}"
    spans = data.get("spans") or ()
    if not spans:
        return "a text of the block"
    more = f" +{len(spans) - 1}" if len(spans) > 1 else ""
    return f"{spans[0][0]:,}-{spans[0][1]:,}{more}"


def _child_line(data: Mapping[str, Any]) -> str:
    outcome = data.get("error") or data.get("reply", "")
    pages = ", ".join(f"{document[:_MAX_NAME]} page {page}" for document, page, _ in data.get("pages", ()))
    read = f"looked at {_continued(pages)}" if pages else data.get("spans") or ""
    return f"  child {read}{_thought(data)}: {_continued(outcome[:_MAX_REPLY])}"


def _depth_of(event: JournalEvent) -> int:
    """Return how many sub-RLMs an event is within."""
    names = event.data.get("within", "")
    return names.count("/") + 1 if names else 0


def _event_text(event: JournalEvent) -> str:
    data = event.data
    match event.kind:
        case "run_started":
            settings = data["settings"]
            return (
                f"task: {_continued(data['task'])}\n"
                f"model {settings['model']}, children {settings['sub_model']}, "
                f"{settings['context_chars']:,} characters in {plural(settings['documents'], 'document')}\n"
            )
        case "charge":
            tokens = data["usage"]["input_tokens"] + data["usage"]["output_tokens"]
            error = _continued(data["error"][:200])
            return f"  a failed call ({data['role']}) was charged {tokens:,} tokens: {error}"
        case "compaction":
            before, after = data["tokens_before"], data["tokens_after"]
            return f"folded rounds 1 to {data['last_round']} from {before:,} to {after:,} tokens"
        case "sub_rlm":
            return f"sub-RLM: {_continued(data['prompt'][:_MAX_PROMPT])}"
        case "sub_rlm_ended":
            return f"sub-RLM ended: {_continued(data['error'] or 'answered')}"
        case "planned":
            return f"planned {plural(len(data['questions']), 'question')}"
        case "part":
            return f"{data['name']}: {_continued(data['title'])}"
        case "part_ended":
            result = data["result"] or {}
            return f"{data['name']} ended: {_continued(data['error'] or str(result.get('stop_reason')))}\n"
        case "kernel_died":
            return f"  the kernel died in round {data['round']}: {_continued(data['reason'])}"
        case "resumed":
            return "  resumed"
        case "interrupted":
            return f"  interrupted ({data['stop_reason']})"
        case "diverged":
            return f"  round {data['round']} diverged when it was re-run"
        case "limit":
            return f"  limit: {_continued(data.get('message') or str(data.get('violation')))}"
        case "warning":
            return f"  note: {_continued(data['message'])}"
        case "finished":
            answer = data.get("answer")
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            return f"{data['stop_reason']}: {_continued(text)}"
        case _:
            return ""


def _thought(data: Mapping[str, Any]) -> str:
    """Return how much a model thought in a call, "" if it did not."""
    tokens = data.get("usage", {}).get("reasoning_tokens", 0)
    return f" thought for {tokens:,} tokens" if tokens else ""


def _continued(text: str) -> str:
    """Indent all lines but the first, so that no text can pose as the next event."""
    return "\n    ".join(text.splitlines())
