"""What a run has done by now and does at this moment, for every face: folded from its events."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rlm import events
from rlm.errors import JournalError
from rlm.escaping import terminal_line
from rlm.results import EXTRACTIVE

if TYPE_CHECKING:
    from rlm.journal import Journal
    from rlm.journal.events import RunSummary

__all__ = [
    "RunStatus",
    "State",
    "StatusReader",
    "WaitingBatches",
    "describe",
    "dollars",
    "duration",
    "plural",
    "share",
]

State = Literal["running", "answered", "not found", "stopped"]
"""The words for a run in every list: `not found` is an answer that says so, `stopped` has none."""

_MAX_LINE = 160
_MAX_ANSWER = 300
_EVENTS_A_READ = 1_000
_RUNS_KEPT = 1_000


class WaitingBatches:
    """The batches of providers that all models of a command wait for (`--slow`)."""

    def __init__(self) -> None:
        self._by_model: dict[str, events.BatchesWaiting] = {}

    def add(self, event: events.BatchesWaiting) -> str:
        """Take in an event and return the line to show, "" if nothing waits."""
        self._by_model[event.model] = event
        waiting = [one for one in self._by_model.values() if one.batches]
        if not waiting:
            return ""
        done, total = sum(one.done for one in waiting), sum(one.total for one in waiting)
        count = sum(len(one.batches) for one in waiting)
        noun = "batch" if count == 1 else f"{count} batches"
        since = duration(max(one.seconds for one in waiting))
        return f"waiting for {noun}: {done:,} of {total:,} done, since {since}"

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the provider's ids of the batches that were not collected."""
        return tuple(name for one in self._by_model.values() for name in one.batches)


@dataclass(slots=True)
class RunStatus:
    """One run. Its fields follow the events that it is given: those for observers while a run goes on
    (`on_event`), or those of its journal (`apply`).

    doing: what the run does now. asked, done: children. calls, tokens, cost_usd: of all models; None is an
    unknown cost. covered_chars of chars were answered for by children. answer: its first line. has_ended: its
    journal has an end.
    """

    run_id: str = ""
    state: State = "running"
    doing: str = "starting"
    round: int = 0
    asked: int = 0
    done: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    covered_chars: int = 0
    chars: int = 0
    documents: int | None = None
    answer: str = ""
    has_ended: bool = False
    waiting: WaitingBatches = field(default_factory=WaitingBatches)
    _streamed: int = 0
    _children: set[str] = field(default_factory=set)

    def on_event(self, event: events.Event) -> None:
        """Take in an event of a run that goes on."""
        match event:
            case events.ContextLoaded(chars, documents):
                self.chars, self.documents = chars, documents
            case events.RunStarted(run_id, model=model):
                self.run_id = self.run_id or run_id
                self.doing = "searching" if model == EXTRACTIVE else "asking the model"
                return
            case events.Resumed(run_id):
                self.run_id = self.run_id or run_id
            case events.RoundStarted(number):
                self.round = number
            case events.ModelAnswered():
                self.calls += 1
                self.tokens += event.input_tokens + event.output_tokens
                self._spend(event.cost_usd)
                self._streamed = 0
            case events.ReplyStreaming(tokens):
                self._streamed += tokens
            case events.ChildrenStarted(count):
                self.asked += count
            case events.ChildEnded():
                self.done, self.asked = event.done, event.asked
                self.covered_chars, self.chars = event.covered_chars, event.chars
            case events.BatchesWaiting():
                self.doing = self.waiting.add(event) or self.doing
                return
            case _:
                pass
        # A warning is for the account, and what a child brought is in the figures.
        line = None if isinstance(event, events.Warned | events.ChildEnded) else describe(event)
        if line is not None:
            self.doing, self._streamed = line, 0

    def apply(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take in an event of the journal. The events come in order."""
        match kind:
            case "run_started":
                settings = data.get("settings") or {}
                self.chars, self.documents = settings.get("context_chars") or 0, settings.get("documents")
            case "model_call" | "charge" | "child":
                usage = data.get("usage") or {}
                self.tokens += usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
                self.calls += "usage" in data and not data.get("cached")
                self._spend(data.get("cost_usd", 0.0))
                if data.get("role") == "root" and not data.get("within"):
                    self.round = data.get("round", self.round)
                if kind == "child":
                    # A reply that was refused later has two events.
                    self._children.add(f"{data.get('within', '')} {data.get('asked') or data.get('spans')}")
                    self.asked = self.done = len(self._children)
            case "resumed":
                self.state = "running"
            case "interrupted":
                self.state = "stopped"
            case "finished" if not data.get("within"):
                self._finish(data)
            case _:
                pass

    def _finish(self, data: Mapping[str, Any]) -> None:
        self.has_ended = True
        answer = data.get("answer")
        self.state = "stopped" if answer is None else "answered" if data.get("found", True) else "not found"
        self.round = data.get("rounds", self.round)
        self.asked = self.done = data.get("sub_calls", self.done)
        self.cost_usd = data.get("cost_usd", self.cost_usd)
        lines = [line for line in answer.split("\n") if line.strip()] if isinstance(answer, str) else []
        # A heading says less than the line below it.
        lines = [line for line in lines if not line.startswith("#") and not line.endswith(":")] or lines
        self.answer = _cut(lines[0].strip(), _MAX_ANSWER) if lines else ""

    def _spend(self, cost: float | None) -> None:
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost

    @property
    def now(self) -> str:
        """What the run does, with the tokens of a reply that is being written."""
        return f"{self.doing}: {self._streamed:,} tokens received" if self._streamed else self.doing

    @property
    def figures(self) -> str:
        """Children, dollars and coverage, as far as there are any."""
        parts = [f"{self.done:,} of {plural(self.asked, 'child', 'children')}"] if self.asked else []
        parts += [dollars(self.cost_usd)] if self.cost_usd else []
        parts += [f"{share(self.covered_chars, self.chars)} covered"] if self.covered_chars else []
        return " · ".join(parts)

    @property
    def line(self) -> str:
        """Everything in one line."""
        return " · ".join(filter(None, [self.now, self.figures]))


class StatusReader:
    """Reads the status of the runs in a journal, and keeps it for the next look."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._kept: OrderedDict[tuple[str, float | None], tuple[RunStatus, int]] = OrderedDict()
        """The status and the last event that it holds, by the run and when it ended."""

    async def read(self, run: RunSummary) -> RunStatus:
        """Return the status of a run. That of a damaged run is what the list of runs says of it."""
        key = (run.run_id, run.finished_at)
        status, seq = self._kept.pop(key, (RunStatus(run.run_id), 0))
        with suppress(JournalError):
            if run.state != "finished":
                seq = await self._read_on(run.run_id, status, seq)
            elif not seq and (last := await self._journal.last_event(run.run_id)) is not None:
                # It has all figures.
                status.apply(last.kind, last.data)
                seq = last.seq
        if run.state != "finished":
            status.state = "running" if run.state == "running" else "stopped"
        self._kept[key] = (status, seq)
        while len(self._kept) > _RUNS_KEPT:
            self._kept.popitem(last=False)
        return status

    async def _read_on(self, run_id: str, status: RunStatus, seq: int) -> int:
        """Fold the events behind `seq`. Return the number of the last one."""
        while True:
            found = await self._journal.events(run_id, after=seq, limit=_EVENTS_A_READ)
            for event in found:
                status.apply(event.kind, event.data)
                seq = event.seq
            if len(found) < _EVENTS_A_READ:
                return seq


def describe(event: events.Event) -> str | None:
    """Return one line that says what a run does now, or None for an event that changes nothing for a reader.
    The line holds no control characters. Only that of a block holds text of a model."""
    line = _line(event)
    return None if line is None else _cut(terminal_line(" ".join(line.split())), _MAX_LINE)


def _line(event: events.Event) -> str | None:
    match event:
        case events.Loading(_, done, int(chars)):
            return f"indexing the input: {share(done, chars)} of {chars:,} characters"
        case events.Loading(document, size):
            return f"loading {document}: {size / 1e6:,.0f} MB read"
        case events.ContextLoaded(chars, documents, skipped, seconds):
            more = f", {skipped:,} skipped" if skipped else ""
            return f"loaded {plural(documents, 'document')}, {chars:,} characters in {seconds:.1f} s{more}"
        case events.RunStarted(run_id, strategy, model):
            return f"run {run_id}: {strategy}, {model}"
        case events.Resumed(questions=questions) if questions:
            return f"re-running the blocks of {plural(questions, 'earlier question')}"
        case events.Resumed(run_id, rounds, replies):
            read = f"{plural(rounds, 'round')} and {plural(replies, 'other reply', 'other replies')}"
            return f"resuming {run_id}: {read} from the journal"
        case events.PartRun(name, title, "running" | "known" as status):
            return f"{name}: {title}" + (" (from the journal)" if status == "known" else "")
        case events.PartRun(name, _, status, done, of):
            return f"{name}: {status}; {done:,} of {of:,} done"
        case events.RoundStarted(number, limit, final):
            return f"round {number} of {limit}{' (the last)' if final else ''}: asking the root"
        case events.CellRun(number, code, "running"):
            return f"round {number}: {_headline(code)}"
        case events.Violated(number, kind):
            return f"round {number}: the reply {events.describe_violation(kind)}; asking again"
        case events.RoundsFolded(last, before, after, fault):
            why = f" (the summary model failed: {fault})" if fault else ""
            return f"folded rounds 1 to {last} from {before:,} to {after:,} tokens{why}"
        case events.ChildrenStarted(count, cost):
            about = f", about {dollars(cost)}" if cost else ""
            return f"asking {'a child' if count == 1 else f'{count:,} children'}{about}"
        case events.ChildEnded(done=done, asked=asked, covered_chars=covered, chars=chars):
            return f"{done:,} of {plural(asked, 'child', 'children')}, {share(covered, chars)} covered"
        case events.SubRLMStarted(depth, prompt):
            return f"sub-RLM at depth {depth}: {prompt}"
        case events.BatchesWaiting(model, done, total):
            return f"{done:,} of {total:,} calls of {model} answered by its batches"
        case events.Retrying(attempt, wait, reason):
            return f"provider: {reason.replace('_', ' ')}; attempt {attempt} failed, retrying in {wait:.1f} s"
        case events.ToolEnded(name, False, _):
            return f"tool {name} failed"
        case events.Warned(message):
            return f"warning: {message}"
        case _:
            return None


def _headline(code: str) -> str:
    """Return the first comment or line of a block."""
    lines = (line.strip().lstrip("#").strip() for line in code.splitlines())
    return next((line for line in lines if line), "an empty block")


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 1]}…"


def dollars(amount: float) -> str:
    """`$0`, `$0.0123`, `$12.34`."""
    return "$0" if amount == 0 else f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def plural(count: int, noun: str, plural_noun: str = "") -> str:
    """`1 round`, `1,200 rounds`."""
    return f"{count:,} {noun if count == 1 else plural_noun or f'{noun}s'}"


def share(part: int, whole: int) -> str:
    """`0 %`, `< 0.1 %`, `12.3 %`, `100 %`."""
    if whole == 0 or part >= whole:
        return "100 %"
    percent = 100 * part / whole
    return "0 %" if part == 0 else f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"


def duration(seconds: float) -> str:
    """`12 s`, `12 min`, `3 h 5 min`."""
    minutes = int(seconds // 60)
    if not minutes:
        return f"{int(seconds)} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
