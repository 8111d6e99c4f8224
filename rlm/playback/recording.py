"""Reads what a run has spent, seen and been answered from its journal, to resume or replay it from there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rlm.models.base import Reply, TokenUsage
from rlm.playback.border import child_answer
from rlm.prompts.tokens.calibration import Calibration
from rlm.results import Usage
from rlm.sandbox.types import ChildAnswer, Span

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = [
    "KERNEL_DIED",
    "NOTHING_RECORDED",
    "MappedSpan",
    "Noted",
    "RecordedReply",
    "Recording",
    "Spent",
    "cut_reply",
    "folded_history",
    "replies_by",
    "spans_above",
]

Noted = Literal["read", "scanned", "sent", "answered", "failed", "looked"]
"""What is noted of a span: text handed to a cell (`read`) or searched by code (`scanned`), as the kernel
reports it; text sent to a child, about which a child answered, or whose child failed. An answer about the
same text, before or after, takes precedence. `looked`: pages that a child saw and answered about."""

_NO_CHILDREN = ("root", "summary", "check")
"""Roles whose calls are not counted as child calls."""


class MappedSpan(NamedTuple):
    """Maps `length` characters from `start` of a sub-RLM's body to those from `origin` of its parent's."""

    start: int
    origin: int
    length: int


def spans_above(stretches: Sequence[MappedSpan], spans: Iterable[Span]) -> Iterator[Span]:
    """Return spans of a sub-RLM's body in the body of the run above. `stretches` are in order. Leaves out
    text that is not from there."""
    for start, end in spans:
        # The stretch before the first that begins later may hold `start`.
        first = max(0, bisect_right(stretches, start, key=itemgetter(0)) - 1)
        last = bisect_left(stretches, end, key=itemgetter(0))
        for stretch in islice(stretches, first, last):
            low = max(start, stretch.start)
            high = min(end, stretch.start + stretch.length)
            if low < high:
                shift = stretch.origin - stretch.start
                yield Span(low + shift, high + shift)


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply that was paid for. A `cached` one was taken from another run."""

    reply: Reply
    cost_usd: float | None
    cached: bool


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has spent. `seconds` does not count the time between a stop and a resume. `calibrations`
    compares the usage of each model with the estimates."""

    calls: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = True
    seconds: float = 0.0
    usage: tuple[Usage, ...] = ()
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)


class Recording:
    """What a journal holds of a run, or of its sub-RLM `within`. `events` are its own, without those of its
    sub-RLMs, which `below` has by their names.

    `replies` are those of all roles but the root, by the identity of their call (`asked`). `seen` are the
    spans that were noted, `pages` those that children saw, with their answers, `chunks` those of batches over
    `chunk()`. `sub_answers` are the answers of the sub-RLMs that gave one, and `begun` counts by the first
    part of their names the sub-RLMs of cells that ended. `degradations` are what the run and its sub-RLMs did
    without, as details by kind. A new run has an empty recording, a job perhaps `replies` of an earlier one.
    """

    def __init__(
        self, within: str = "", *, replies: Mapping[str, Sequence[RecordedReply]] | None = None
    ) -> None:
        self.within = within
        self.replies = replies or {}
        self.events: list[JournalEvent] = []
        self.below: dict[str, list[JournalEvent]] = {}
        self.seen: dict[Noted, list[Span]] = {}
        self.pages: list[tuple[Sequence[Span], str]] = []
        self.chunks: list[Span] = []
        self.sub_answers: dict[str, ChildAnswer] = {}
        self.begun: Counter[str] = Counter()
        self.degradations: dict[str, str] = {}
        self._usage: dict[str, Usage] = {}
        self._calibrations: dict[str, Calibration] = {}
        self._answered: dict[str, Mapping[str, Any]] = {}
        self._stretches: dict[str, list[MappedSpan]] = {}
        self._ended_here: list[str] = []
        self._calls = 0
        self._seconds = 0.0
        self._began: float | None = None
        self._last = 0.0

    @classmethod
    def of(cls, events: Iterable[JournalEvent], within: str = "") -> Recording:
        """Read the events of one run, in order, or of its sub-RLM `within`. `spent` counts every event."""
        recording = cls(within)
        for event in events:
            recording._add(event)
        recording._note_answered()
        recording.replies = replies_by("asked", recording.events)
        return recording

    def part(self, name: str) -> Recording:
        """Return the recording of the sub-RLM, or the part of a job, of that name."""
        return Recording.of(self.below.get(name, ()), f"{self.within}/{name}" if self.within else name)

    @property
    def has_rounds(self) -> bool:
        """Return whether its root has replied."""
        return any(event.data.get("role") == "root" for event in self.events)

    @property
    def reply_count(self) -> int:
        """Return how many replies it holds, those of its root aside."""
        return sum(map(len, self.replies.values()))

    @property
    def spent(self) -> Spent:
        """Return what the run has spent, its sub-RLMs included."""
        costs = [one.cost_usd for one in self._usage.values()]
        return Spent(
            calls=self._calls,
            tokens=sum(one.input_tokens + one.output_tokens for one in self._usage.values()),
            cost_usd=sum(cost for cost in costs if cost is not None),
            cost_known=None not in costs,
            seconds=self._seconds + (0.0 if self._began is None else self._last - self._began),
            usage=tuple(self._usage.values()),
            calibrations=self._calibrations,
        )

    def _add(self, event: JournalEvent) -> None:
        data = event.data
        origin = data.get("within", "")
        if (lost := _degradation(event)) is not None:
            self.degradations.setdefault(*lost)
        self._count(event.kind, event.at, data)
        if origin == self.within:
            self.events.append(event)
            self._add_own_event(event.kind, data)
        elif not self.within or origin.startswith(f"{self.within}/"):
            inner = origin.removeprefix(f"{self.within}/")
            name = inner.partition("/")[0]
            self.below.setdefault(name, []).append(event)
            if event.kind == "sub_rlm" and inner == name:
                self._stretches[name] = [MappedSpan(*one) for one in data["stretches"]]

    def _count(self, kind: str, at: float, data: Mapping[str, Any]) -> None:
        """Count what an event of this run, or of a sub-RLM below it, has cost."""
        match kind:
            case "run_started" | "resumed":
                self._seconds += 0.0 if self._began is None else self._last - self._began
                self._began = at
            case "model_call" | "child" if "reply" in data and data.get("cached") is not True:
                self._calls += data["role"] not in _NO_CHILDREN
                usage = TokenUsage(**data["usage"])
                if "pages" not in data:  # pictures are not counted like words
                    calibration = self._calibrations.get(data["model"], Calibration())
                    self._calibrations[data["model"]] = calibration.observe(
                        data.get("prompt_tokens", 0), usage.input_tokens
                    )
                self._spend(data["model"], usage, data["cost_usd"], 1 + data.get("follow_ups", 0))
            case "charge":
                self._calls += data.get("calls", data["role"] not in _NO_CHILDREN)
                self._spend(data["model"], TokenUsage(**data["usage"]), data["cost_usd"])
            case "sub_rlm":
                self._calls += 1
            case _:
                pass
        self._last = at

    def _spend(self, model: str, usage: TokenUsage, cost: float | None, calls: int = 1) -> None:
        self._usage[model] = self._usage.get(model, Usage(model)).plus(usage, cost, calls)

    def _add_own_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Read an event of this run itself, not of one of its sub-RLMs."""
        match kind:
            case "model_call" | "child" if "reply" in data:
                if data["role"] == "child":
                    self._note("sent", _spans(data.get("spans", ())))
                    self._answered[data["asked"]] = data
                    self._add_chunk(data)
            case "child":
                self._answered.pop(data["asked"], None)
                spans = _spans(data["spans"])
                self._note("failed", spans)
                if data["error_type"] == "model":
                    self._note("sent", spans)
                self._add_chunk(data)
            case "sub_rlm_ended":
                self._ended_here.append(data["name"])
                if data["answer"] is not None:
                    self.sub_answers[data["name"]] = child_answer(data["answer"])
            case "cell":
                self._note("read", _spans(data["result"]["report"]["read"]))
                self._note("scanned", _spans(data["result"]["report"]["scanned"]))
                self.begun.update(name.rpartition(".")[0] for name in self._ended_here)
                self._ended_here.clear()
            case _:
                pass

    def _add_chunk(self, data: Mapping[str, Any]) -> None:
        if data.get("chunked") is True and (spans := _spans(data["spans"])):
            self.chunks.append(Span(min(one.start for one in spans), max(one.end for one in spans)))

    def _note(self, what: Noted, spans: Iterable[Span]) -> None:
        self.seen.setdefault(what, []).extend(spans)

    def _note_answered(self) -> None:
        """Note what children answered about, and what the sub-RLMs saw of this run's body."""
        for data in self._answered.values():
            spans = _spans(data.get("spans", ()))
            self._note("answered", spans)
            if "pages" in data:
                self._note("looked", spans)
                self.pages.append((spans, data["reply"]))
        for name, stretches in self._stretches.items():
            for what, below in self.part(name).seen.items():
                self._note(what, spans_above(stretches, below))


NOTHING_RECORDED = Recording()
"""What the journal holds of a new run."""


def replies_by(
    name: Literal["asked", "key"], events: Iterable[JournalEvent]
) -> dict[str, list[RecordedReply]]:
    """Return the replies of all roles but the root, by the identity or the hash of their calls."""
    found: dict[str, list[RecordedReply]] = {}
    for event in events:
        data = event.data
        if "reply" in data and data["role"] != "root":
            reply = Reply(data["reply"], data["finish_reason"], TokenUsage(**data["usage"]))
            past = RecordedReply(reply, data["cost_usd"], data.get("cached") is True)
            found.setdefault(data[name], []).append(past)
    return found


KERNEL_DIED = ("kernel", "a kernel died and was replaced")


def folded_history(last: int) -> tuple[str, str]:
    """Return kind and detail of a compaction whose last round is `last`."""
    return "folded_history", f"the root's window was full: rounds up to {last} were folded into notes"


def cut_reply(round_: int) -> tuple[str, str]:
    """Return kind and detail of a root's reply that its output limit cut."""
    return "cut_reply", f"the root's reply of round {round_} was cut by its output limit"


def _degradation(event: JournalEvent) -> tuple[str, str] | None:
    """Return kind and detail of what an event says that the run did without; None if it says nothing of
    that."""
    data = event.data
    match event.kind:
        case "kernel_died":
            return KERNEL_DIED
        case "compaction":
            return folded_history(data["last_round"])
        case "limit" if data.get("violation") == "truncated_reply":
            return cut_reply(data["round"])
        case "warning" if "degradation" in data:
            return data["degradation"], data["message"]
        case _:
            return None


def _spans(given: Iterable[Sequence[int]]) -> list[Span]:
    return [Span(*one) for one in given]
