"""The state of a root: its messages, its cells and what they left, folded from the events of its journal.

A running root applies each event that it writes. A resumed root applies the events that it finds, and is then
in the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, cast

from rlm.accounting.metered_model import estimate
from rlm.driver.feedback import bare_output
from rlm.driver.reply_contract import ViolationKind, fenced
from rlm.models.base import Message, Reply, TokenUsage
from rlm.playback.border import RecordedAnswer, Refusal, read_answers
from rlm.prompts.recipes.notices import correction
from rlm.sandbox.types import CellReport, CellResult, Span, VariableInfo

__all__ = ["RecordedCell", "RootReply", "RootState", "Round"]

HEAD = 2
"""The first messages: the system prompt and the task."""


@dataclass(frozen=True, slots=True)
class Round:
    """A round: its number, the index of its first message, and the output of its block."""

    number: int
    start: int
    output: str = ""


@dataclass(frozen=True, slots=True)
class RootReply:
    """A reply of the root that was not acted on yet."""

    round: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class RecordedCell:
    """A cell that ended, as it was read from its reply, and what it got from the driver."""

    round: int
    code: str
    prose: str
    mark: str
    result: CellResult
    answers: tuple[RecordedAnswer, ...]


class RootState:
    """Holds what a root knows at one moment.

    `messages` are those of the next request. `pending` is the reply to act on; None means that the root must
    be asked. `rounds` counts the rounds that were begun. `tools` are the results that the running cell got.

    `output_limit`: characters of a block's output that the root is shown.
    """

    def __init__(self, output_limit: int) -> None:
        self._output_limit = output_limit
        self.messages: list[Message] = []
        self.rounds = 0
        self.is_last_round = False
        self.pending: RootReply | None = None
        self.positions: list[Round] = []
        self.folded: list[Round] = []
        self.notes = ""
        self.violations = 0
        self.last_violation: tuple[ViolationKind, str] | None = None
        self.limit = ("rounds", "")
        self.cells: list[RecordedCell] = []
        self.tools: list[RecordedAnswer] = []
        self.variables: dict[str, str] = {}
        self._block: tuple[str, str] | None = None
        self._is_repeated = False
        self._carried_tokens = 0
        self._sent: tuple[tuple[str, str], ...] = ()
        self._begun: dict[int, RootState] = {}

    @classmethod
    def of(cls, events: Iterable[tuple[str, Mapping[str, Any]]], output_limit: int) -> RootState:
        """Fold the kinds and data of a root's own events. Raises what other data than it writes causes."""
        state = cls(output_limit)
        for kind, data in events:
            state.apply(kind, data)
        return state

    @property
    def tokens(self) -> int:
        """Estimate the tokens of the messages, with the reasoning that goes back to the provider."""
        return sum(estimate(one.content) for one in self.messages) + self._carried_tokens

    @property
    def last_cell(self) -> CellResult | None:
        return self.cells[-1].result if self.cells else None

    def is_repetition(self, code: str, output: str) -> bool:
        """Return whether a block is the one before it, with the same output."""
        return (code.strip(), output) == self._block

    def is_stuck(self, code: str) -> bool:
        """Return whether `code` is the last block, and the one before it, too."""
        return self._is_repeated and self._block is not None and self._block[0] == code.strip()

    @property
    def refusals(self) -> list[Refusal]:
        """Return why answers were refused, in order."""
        return [one.value for cell in self.cells for one in cell.answers if isinstance(one.value, Refusal)]

    def apply(self, kind: str, data: Mapping[str, Any]) -> None:
        """Take in the next event of the root."""
        match kind:
            case "model_call" if data["role"] == "root":
                self._add_reply(data)
            case "tool":
                self.tools += read_answers([data])
            case "cell":
                self._add_cell(data)
            case "limit" if "violation" in data:
                self._add_violation(data["violation"])
            case "limit":
                self.limit = (data["limit"], data["message"])
            case "compaction":
                self._fold(data)
            case "diverged":
                self._return_to(data["round"])
            case _:
                pass

    def _add_reply(self, data: Mapping[str, Any]) -> None:
        # The messages as they were sent, word for word: our own prompts may have changed since.
        known: dict[tuple[str, str], Message] = {(one.role, one.content): one for one in self.messages}
        new = tuple((one["role"], one["content"]) for one in data["messages"])
        self._sent = (*self._sent[: data["kept"]], *new)
        self.messages = [
            known.get(one) or Message(cast(Any, one[0]), one[1], stable=one[0] != "assistant")
            for one in self._sent
        ]
        reply = Reply(
            data["reply"],
            data["finish_reason"],
            TokenUsage(**data["usage"]),
            thinking=data.get("thinking", ""),
            carry=tuple(data.get("carry", ())),
        )
        self.rounds = data["round"]
        self.is_last_round = data.get("final") is True
        self.pending = RootReply(self.rounds, reply)
        self.tools = []
        self.positions.append(Round(self.rounds, len(self.messages)))
        self._begun[self.rounds] = self._copy()

    def _add_cell(self, data: Mapping[str, Any]) -> None:
        result = read_cell_result(data["result"])
        code, answers = data["code"], (*read_answers(data["answers"]), *self.tools)
        self.cells.append(RecordedCell(data["round"], code, data["prose"], data["mark"], result, answers))
        self.variables.update((one.name, str(one)) for one in result.report.changed)
        output = bare_output(result, self._output_limit)
        self._is_repeated = self.is_repetition(code, output)
        self._block = (code.strip(), output)
        self.violations, self.last_violation = 0, None
        self.positions[-1] = replace(self.positions[-1], output=output)
        # The messages teach the format, so they hold only the block, without prose and reasoning. What the
        # provider wants back goes with it.
        reply = None if self.pending is None else self.pending.reply
        carry = () if reply is None else reply.carry
        self._carried_tokens += reply.usage.reasoning_tokens if reply is not None and carry else 0
        self.messages.append(Message("assistant", fenced(code), carry=carry))
        if data["feedback"] is not None:
            self.messages.append(Message("user", data["feedback"], stable=True))
        self.pending, self.tools = None, []

    def _add_violation(self, kind: ViolationKind) -> None:
        """Add a correction to the messages in place of the reply."""
        received = "" if self.pending is None else self.pending.reply.text
        self.violations += 1
        self.last_violation = (kind, received)
        self.messages.append(Message("user", correction(kind, received), stable=True))
        self.pending = None

    def _fold(self, data: Mapping[str, Any]) -> None:
        """Replace all rounds up to the last folded one by the message with their notes."""
        kept = [one for one in self.positions if one.number > data["last_round"]]
        self.folded += [one for one in self.positions if one.number <= data["last_round"]]
        self.notes = data["notes"]
        start = kept[0].start
        # Signed thinking is bound to all that was before it, so a provider refuses it behind other messages.
        later = [replace(one, carry=()) for one in self.messages[start:]]
        self._carried_tokens = 0
        self.messages = [*self.messages[:HEAD], Message("user", data["message"], stable=True), *later]
        self.positions = [replace(one, start=one.start + HEAD + 1 - start) for one in kept]

    def _return_to(self, round_: int) -> None:
        """Forget all that followed the reply of a round."""
        begun = {number: one for number, one in self._begun.items() if number <= round_}
        self.__dict__.update(begun[round_]._copy().__dict__, _begun=begun)

    def _copy(self) -> RootState:
        other = copy(self)
        for name, value in self.__dict__.items():
            if isinstance(value, list | dict):
                setattr(other, name, copy(value))
        other._begun = {}
        return other


def read_cell_result(data: Mapping[str, Any]) -> CellResult:
    """Return the CellResult that was written with `asdict`."""
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
