"""Reads the journal of a run into a recording, from which the run is resumed or replayed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from rlm.lazy_dataclass import dataclass
from rlm.models.base import Reply, TokenUsage
from rlm.playback.degradation import recorded_degradation
from rlm.prompts.tokens.calibration import Calibration
from rlm.results import Usage
from rlm.sandbox.types import CellReport, CellResult, Span, VariableInfo

if TYPE_CHECKING:
    from rlm.journal import JournalEvent

__all__ = ["RecordedCompaction", "RecordedFailure", "RecordedReply", "RecordedRound", "Recording", "Spent"]


_NO_CHILDREN = ("root", "summary", "check")
"""Roles whose calls are not counted as child calls."""


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """A reply that was paid for. A `cached` one was taken from another run."""

    reply: Reply
    cost_usd: float | None
    cached: bool


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """Why a child failed, if no recorded reply shows it."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class RecordedCompaction:
    """A compaction: the rounds up to `last_round` were folded into notes of at most `room` tokens. `message`
    replaced these rounds. It is None if the run stopped before the message was made."""

    last_round: int
    room: int
    message: str | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """A round of the root: role and content of the messages that it was sent behind the first `kept` ones of
    the round before, its reply, its cell and the cell's result.

    `code`, `prose` and `mark` are what was read of the reply then: later versions may read it otherwise.
    `cell` is None if the reply broke the contract, or if the run ended before the cell did. `violation` is
    how the reply broke it, as it was judged then. `folding` is the compaction before this round.
    """

    number: int
    kept: int
    messages: tuple[tuple[str, str], ...]
    reply: Reply
    final: bool
    cell: CellResult | None = None
    violation: str | None = None
    folding: RecordedCompaction | None = None
    code: str = ""
    prose: str = ""
    mark: str = ""


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


@dataclass(frozen=True, slots=True)
class Recording:
    """What a journal holds of a run.

    `replies` are by key, in order; `failures` by round and key; `helpers` by round, helper and order of the
    call. A cell that did not end is run again, so its failures and helper results are left out. The results
    of its tools are kept, because a tool must not be called twice.

    `keys_by_question` and `failed_keys_by_question` map a question to the keys of its replies and failures. A
    question is an id of `rlm.playback.question_id`, for failures together with the round.

    `limit` is the limit that led to the last round, and its message. `ended` maps the name of each sub-RLM
    that ended to its failure, or to None. `below` maps the name of each sub-RLM to its events. `folding` is
    the compaction after the last recorded round. `over`: the run does not continue after the recording.
    `degradations` are what the run and its sub-RLMs did without so far: kinds and details.
    """

    rounds: tuple[RecordedRound, ...] = ()
    replies: Mapping[str, list[RecordedReply]] = field(default_factory=dict)
    failures: Mapping[tuple[int, str], list[RecordedFailure]] = field(default_factory=dict)
    helpers: Mapping[tuple[int, str, int], Mapping[str, Any]] = field(default_factory=dict)
    keys_by_question: Mapping[str, list[str]] = field(default_factory=dict)
    failed_keys_by_question: Mapping[tuple[int, str], list[str]] = field(default_factory=dict)
    limit: tuple[str, str] | None = None
    spent: Spent = field(default_factory=Spent)
    within: str = ""
    ended: Mapping[str, RecordedFailure | None] = field(default_factory=dict)
    below: Mapping[str, Sequence[JournalEvent]] = field(default_factory=dict)
    over: bool = False
    folding: RecordedCompaction | None = None
    degradations: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, events: Iterable[JournalEvent], within: str = "") -> Recording:
        """Read the events of one run, in order, or of its sub-RLM `within`. `spent` counts every event."""
        reading = _Reading(within)
        for event in events:
            reading.on_event(event)
        return reading.recording()

    def part(self, name: str) -> Recording:
        """Return the recording of the sub-RLM `name` of this run."""
        return Recording.of(self.below.get(name, ()), f"{self.within}/{name}" if self.within else name)


class _Reading:
    """Builds a recording in one pass over the events."""

    def __init__(self, within: str) -> None:
        self._within = within
        self._ended: dict[str, RecordedFailure | None] = {}
        self._below: dict[str, list[JournalEvent]] = {}
        self._rounds: dict[int, RecordedRound] = {}
        self._replies: dict[str, list[RecordedReply]] = {}
        self._failures: dict[tuple[int, str], list[RecordedFailure]] = {}
        self._helpers: dict[tuple[int, str, int], Mapping[str, Any]] = {}
        self._keys_by_question: dict[str, list[str]] = {}
        self._failed_keys_by_question: dict[tuple[int, str], list[str]] = {}
        self._limit: tuple[str, str] | None = None
        self._folding: RecordedCompaction | None = None
        self._degradations: dict[str, str] = {}
        self._usage: dict[str, Usage] = {}
        self._calibrations: dict[str, Calibration] = {}
        self._calls = 0
        self._seconds = 0.0
        self._began: float | None = None
        self._last = 0.0

    def on_event(self, event: JournalEvent) -> None:
        data = event.data
        origin = data.get("within", "")
        is_own = origin == self._within
        self._pass_to_sub_rlms(event, origin)
        if (lost := recorded_degradation(event)) is not None:
            self._degradations.setdefault(*lost)
        match event.kind:
            case "run_started" | "resumed":
                self._seconds += 0.0 if self._began is None else self._last - self._began
                self._began = event.at
                self._forget_all_unfinished()
            case "model_call" | "child" if "reply" in data:
                self._add_reply(data, is_own=is_own)
            case "charge":
                self._calls += data.get("calls", data["role"] not in _NO_CHILDREN)
                self._count(data["model"], TokenUsage(**data["usage"]), data["cost_usd"])
            case "sub_rlm":
                self._calls += 1
            case "kernel_died" if self._is_above(origin):  # the kernel of this sub-RLM was closed, too
                self._forget_all_unfinished()
            case _ if is_own:
                self._add_own_event(event.kind, data)
            case _:
                pass
        self._last = event.at

    def _add_own_event(self, kind: str, data: Mapping[str, Any]) -> None:
        """Read an event of this run itself, not of one of its sub-RLMs."""
        match kind:
            case "child" if data.get("key") is not None:
                failure = RecordedFailure(data["error_type"], data["error"])
                self._failures.setdefault((data["round"], data["key"]), []).append(failure)
                self._failed_keys_by_question.setdefault((data["round"], data["asked"]), []).append(
                    data["key"]
                )
            case "helper":
                self._helpers[data["round"], data["helper"], data["order"]] = data["result"]
            case "cell":
                self._set_cell(data["round"], _cell_result(data["result"]))
                if (past := self._rounds.get(data["round"])) is not None:
                    read = {name: data[name] for name in ("code", "prose", "mark")}
                    self._rounds[data["round"]] = replace(past, **read)
            case "sub_rlm_ended":
                error = data["error"]
                self._ended[data["name"]] = error and RecordedFailure(data["error_type"], error)
            case "compaction":
                self._folding = RecordedCompaction(
                    data["last_round"], data["room"], data["message"], data["notes"]
                )
            case "limit" if "violation" in data and data["round"] in self._rounds:
                past = self._rounds[data["round"]]
                self._rounds[data["round"]] = replace(past, violation=data["violation"])
            case "limit" if "limit" in data:
                self._limit = (data["limit"], data["message"])
            case "kernel_died":
                self._forget_unfinished(data["round"])
            case "diverged":
                self._forget_cell(data["round"])
                self._set_cell(data["round"], None)
                self._rounds = {n: past for n, past in self._rounds.items() if n <= data["round"]}
                self._folding = None
            case _:
                pass

    def recording(self) -> Recording:
        seconds = self._seconds + (0.0 if self._began is None else self._last - self._began)
        costs = [one.cost_usd for one in self._usage.values()]
        return Recording(
            rounds=tuple(self._rounds[number] for number in sorted(self._rounds)),
            replies=self._replies,
            failures=self._failures,
            helpers=self._helpers,
            keys_by_question=self._keys_by_question,
            failed_keys_by_question=self._failed_keys_by_question,
            limit=self._limit,
            within=self._within,
            ended=self._ended,
            below=self._below,
            folding=self._folding,
            degradations=tuple(self._degradations.items()),
            spent=Spent(
                calls=self._calls,
                tokens=sum(one.input_tokens + one.output_tokens for one in self._usage.values()),
                cost_usd=sum(cost for cost in costs if cost is not None),
                cost_known=None not in costs,
                seconds=seconds,
                usage=tuple(self._usage.values()),
                calibrations=self._calibrations,
            ),
        )

    def _pass_to_sub_rlms(self, event: JournalEvent, origin: str) -> None:
        """Add the event to `below` for each sub-RLM that it concerns."""
        if event.kind in ("run_started", "resumed", "kernel_died") and (
            origin == self._within or self._is_above(origin)
        ):
            for events in self._below.values():
                events.append(event)
        elif origin and (not self._within or origin.startswith(f"{self._within}/")):
            name = origin.removeprefix(f"{self._within}/").partition("/")[0]
            self._below.setdefault(name, []).append(event)

    def _is_above(self, origin: str) -> bool:
        """Return whether `origin` is a run above this one."""
        return origin != self._within and (not origin or self._within.startswith(f"{origin}/"))

    def _add_reply(self, data: Mapping[str, Any], *, is_own: bool) -> None:
        reply = Reply(
            data["reply"],
            data["finish_reason"],
            TokenUsage(**data["usage"]),
            thinking=data.get("thinking", ""),
            carry=tuple(data.get("carry", ())),
        )
        cached = data.get("cached") is True
        if not is_own:
            pass
        elif data["role"] == "root":
            number = data["round"]
            self._rounds[number] = RecordedRound(
                number,
                data["kept"],
                tuple((one["role"], one["content"]) for one in data["messages"]),
                reply,
                data.get("final") is True,
                folding=self._folding,
            )
            self._folding = None
        elif data.get("key") is not None:
            past = RecordedReply(reply, data["cost_usd"], cached)
            self._replies.setdefault(data["key"], []).append(past)
            if "asked" in data:
                self._keys_by_question.setdefault(data["asked"], []).append(data["key"])
            if "last_round" in data:  # a summary of rounds, not a call of `rlm summarize`
                self._folding = RecordedCompaction(data["last_round"], data["room"])
        if not cached:
            self._calls += data["role"] not in _NO_CHILDREN
            if "pages" not in data:  # pictures are not counted like words
                calibration = self._calibrations.get(data["model"], Calibration())
                self._calibrations[data["model"]] = calibration.observe(
                    data.get("prompt_tokens", 0), reply.usage.input_tokens
                )
            calls = 1 + data.get("follow_ups", 0)
            self._count(data["model"], reply.usage, data["cost_usd"], calls)

    def _count(self, model: str, usage: TokenUsage, cost: float | None, calls: int = 1) -> None:
        self._usage[model] = self._usage.get(model, Usage(model)).plus(usage, cost, calls)

    def _set_cell(self, number: int, cell: CellResult | None) -> None:
        past = self._rounds.get(number)
        if past is not None:
            self._rounds[number] = replace(past, cell=cell)

    def _forget_all_unfinished(self) -> None:
        for number in {key[0] for key in self._failures} | {key[0] for key in self._helpers}:
            self._forget_unfinished(number)

    def _forget_unfinished(self, number: int) -> None:
        if (past := self._rounds.get(number)) is None or past.cell is None:
            self._forget_cell(number)

    def _forget_cell(self, number: int) -> None:
        """Remove the failures and helper results of a cell that will be run again."""
        self._failures = {key: value for key, value in self._failures.items() if key[0] != number}
        self._helpers = {
            # Keep the results of tools, because a tool must not be called twice.
            key: value
            for key, value in self._helpers.items()
            if key[0] != number or "value" in value
        }


def _cell_result(data: Mapping[str, Any]) -> CellResult:
    """Return the CellResult that was written with `asdict` as JSON."""
    report = data["report"]
    return CellResult(
        **{
            **data,
            "report": CellReport(
                read=tuple(Span(*span) for span in report["read"]),
                scanned=tuple(Span(*span) for span in report["scanned"]),
                changed=tuple(VariableInfo(**variable) for variable in report["changed"]),
                rebound=tuple(report["rebound"]),
                stdout_chars=report["stdout_chars"],
                changed_count=report["changed_count"],
            ),
        }
    )
