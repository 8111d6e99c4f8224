"""Decides whether the answer of a `finalize` call is accepted. An accepted answer ends the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.sightings import Sightings
from rlm.answers.answer_type import AnswerType
from rlm.answers.citations import Cited, cite
from rlm.answers.gating.answer_gate import AnswerGate
from rlm.answers.gating.gates import GateName, Gates
from rlm.answers.json_values import SchemaError, size_of
from rlm.citation_markers import unknown_marks
from rlm.errors import AnswerCheckError
from rlm.lazy_dataclass import dataclass
from rlm.prompts.templates import table
from rlm.results import Citation, Confidence, Gate, ProposedAnswer, Support
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Finalization, FinalizeVerdict

__all__ = ["Answer", "CheckAnswer", "FinalizePolicy", "Finalizer", "Judgement"]

_MAX_SHOWN = 3
_MAX_CLAIM = 160
MAX_ATTEMPTS = 200
MAX_QUOTES = 50
"""Limit of quotes, because each may need a search of the whole body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer, its citations, warnings about them, and whether they support its claims."""

    value: Any
    confidence: Confidence | None
    citations: tuple[Citation, ...]
    warnings: tuple[str, ...] = ()
    support: Support | None = None


CheckAnswer = Callable[[Any, Sequence[Citation]], Awaitable[Support | None]]
"""Returns whether the citations support an answer; None if that is not checked."""


@dataclass(frozen=True, slots=True)
class FinalizePolicy:
    """How strictly a `finalize` is judged. `last_round`: no round is left to correct the answer. `warned`: an
    answer was already refused for its evidence or for claims that it does not support, which happens once
    only. `looked_before`: earlier questions in the same kernel have read the input. `replayed`: the caller's
    check accepted the answer before.
    """

    last_round: bool = False
    warned: bool = False
    looked_before: bool = False
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one answer. `warns`: the answer was refused because of its evidence. `gate` is the
    name of the gate that refused it, and `reasons` what it said.
    """

    verdict: FinalizeVerdict
    warns: bool = False
    gate: GateName | None = None
    reasons: tuple[str, ...] = ()


class Finalizer:
    """Judges every `finalize` of a run. `answer` is the first accepted answer.

    `check_support` checks the claims of an answer. `gate` is the caller's check of an answer to `task`;
    `sub_calls` returns the child calls so far. `fault` is the error of that check, if it failed itself: the
    run then ends with it.
    """

    def __init__(
        self,
        body: Body,
        coverage: CoverageLedger,
        answer_type: AnswerType | None = None,
        *,
        check_support: CheckAnswer | None = None,
        task: str = "",
        gate: AnswerGate | None = None,
        sub_calls: Callable[[], int] = lambda: 0,
        sightings: Sightings | None = None,
    ) -> None:
        self._body = body
        self._sightings = sightings or Sightings()
        self._check_support = check_support
        self._coverage = coverage
        self._answer_type = answer_type
        self._task = task
        self._gate = gate
        self._sub_calls = sub_calls
        armed: list[GateName] = ["input"] if body.chars else []
        armed += ["schema"] if answer_type is not None else []
        armed += ["evidence"]
        armed += ["support"] if check_support is not None else []
        armed += ["check"] if gate is not None else []
        self._gates = Gates(armed)
        self.fault: AnswerCheckError | None = None
        self.answer: Answer | None = None
        self._attempts = 0
        self._judging = asyncio.Lock()

    async def judge(self, final: Finalization, policy: FinalizePolicy) -> Judgement:
        """Accept or refuse an answer. The reason of a refusal says what to do.

        In the last round, unverified evidence is accepted. An answer of the wrong type is always refused, and
        so is an answer without any look at the input. Concurrent calls are judged one after another.
        """
        async with self._judging:
            judgement = await self._judge(final, policy)
            if judgement.gate is not None:
                self._gates.refused(judgement.gate, judgement.reasons, final.value)
            return judgement

    def note_refusal(self, gate: str | None, reasons: Sequence[str]) -> None:
        """Note a refusal that the journal holds."""
        if gate is not None:
            self._gates.refused(gate, reasons)

    async def judge_direct(self, answer: Answer) -> tuple[Answer, str | None]:
        """Judge an answer that no round can correct. Return it with the support of its claims, and why the
        caller's check refuses it, or None. Raises AnswerCheckError."""
        for name in ("input", "schema"):
            self._gates.passed(name)
        unverified = [one.quote for one in answer.citations if not one.verified and not one.seen]
        self._note("evidence", [_unverified_note(unverified, len(answer.citations))] if unverified else [])
        if self._check_support is not None:
            support = await self._check_support(answer.value, answer.citations)
            self._note("support", _doubts(support, answer.value))
            answer = replace(answer, support=support)
        reasons = await self._ask_gate(answer)
        if reasons:
            self._gates.refused("check", reasons, answer.value)
        return answer, "; ".join(reasons) or None

    def _note(self, gate: GateName, faults: Sequence[str]) -> None:
        """Note what a gate said of an answer that is accepted."""
        if faults:
            self._gates.refused(gate, faults)
        else:
            self._gates.passed(gate)

    def gates(self, *, has_answer: bool) -> tuple[Gate, ...]:
        """Return the checks that an answer had to pass, and what they said."""
        return self._gates.report(has_answer=has_answer)

    async def _ask_gate(self, answer: Answer) -> tuple[str, ...]:
        if self._gate is None:
            return ()
        kind = self._answer_type
        reasons = await self._gate.reasons(
            ProposedAnswer(
                task=self._task,
                answer=answer.value,
                parsed=answer.value if kind is None else kind.parsed(answer.value),
                confidence=answer.confidence,
                citations=answer.citations,
                coverage=self._coverage.report(),
                sub_calls=self._sub_calls(),
            )
        )
        if not reasons:
            self._gates.passed("check")
        return reasons

    async def _judge(self, final: Finalization, policy: FinalizePolicy) -> Judgement:
        if self.answer is not None:
            # Lost a race with another call of the same cell: the first accepted answer wins.
            return _ACCEPTED
        self._attempts += 1
        words = table("feedback.toml")["finalize"]
        if self.fault is not None:
            return _refuse(words["check_failed"])
        if self._attempts > MAX_ATTEMPTS:
            return _refuse(words["too_many"])
        if self._body.chars and not self._coverage.looked and not policy.looked_before:
            return _refuse(words["not_looked"], gate="input")
        self._gates.passed("input")
        if self._answer_type is None and _is_blank(final.value):
            return _refuse(words["blank"])
        try:
            size_of(final.value)
        except SchemaError as error:
            return _refuse(str(error))
        if self._answer_type is not None:
            try:
                await self._answer_type.check(final.value)
            except SchemaError as error:
                return _refuse(str(error), gate="schema")
            self._gates.passed("schema")
        quotes = sum(isinstance(piece, str) for piece in final.evidence)
        if quotes > MAX_QUOTES:
            return _refuse(words["too_many_quotes"].format(quotes=quotes, most=MAX_QUOTES))
        text = final.value if isinstance(final.value, str) else ""
        cited = await cite(
            final.evidence,
            text,
            self._body,
            was_seen=self._coverage.has_seen,
            read_on=self._sightings.place_of,
        )
        unknown_marks_notes = _describe_unknown_marks(text, len(final.evidence))
        unsearched_notes = _describe("unsearched", cited.unsearched)
        faults = [*_describe_unverified(cited), *unsearched_notes, *unknown_marks_notes]
        if faults and not policy.warned and not policy.last_round:
            return _refuse(words["evidence"].format(faults="; ".join(faults)), warns=True, gate="evidence")
        self._note("evidence", faults)
        support = None
        if self._check_support is not None:
            support = await self._check_support(final.value, cited.citations)
        doubts = _doubts(support, final.value)
        if doubts and not policy.warned and not policy.last_round:
            return _refuse(doubts[0], warns=True, gate="support")
        self._note("support", doubts)
        warnings = (*unsearched_notes, *unknown_marks_notes)
        answer = Answer(final.value, final.confidence, cited.citations, warnings, support)
        try:
            reasons = () if policy.replayed else await self._ask_gate(answer)
        except AnswerCheckError as error:
            self.fault = error
            return _refuse(words["check_failed"])
        if reasons:
            return _refuse(words["check"].format(reasons="; ".join(reasons)), gate="check", reasons=reasons)
        self.answer = answer
        return _ACCEPTED


_ACCEPTED = Judgement(FinalizeVerdict(accepted=True))


def _refuse(
    reason: str, *, warns: bool = False, gate: GateName | None = None, reasons: tuple[str, ...] = ()
) -> Judgement:
    return Judgement(FinalizeVerdict(accepted=False, reason=reason), warns, gate, reasons or (reason,))


def _doubts(support: Support | None, value: Any) -> list[str]:
    """Describe the claims of an answer that are unsupported, in one line if there are any. What a value of
    another type cites is not known item by item: it is told, and not doubted."""
    if support is None or not support.unsupported or not isinstance(value, str):
        return []
    return [_describe_unsupported(support)]


def _describe_unsupported(support: Support) -> str:
    claims = [one for one in support.claims if one.status == "unsupported"]
    shown = "; ".join(f"{one.text[:_MAX_CLAIM]!r} ({one.reason})" for one in claims[:_MAX_SHOWN])
    more = f"; and {len(claims) - _MAX_SHOWN} more" if len(claims) > _MAX_SHOWN else ""
    words = table("feedback.toml")["finalize"]["unsupported"]
    return str(words.format(count=len(claims), claims=len(support.claims), shown=shown + more))


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _describe_unverified(cited: Cited) -> list[str]:
    """Describe the pieces of evidence that prove nothing, and those that are not in the body."""
    otherwise = {*cited.weak, *cited.too_long, *cited.unsearched}
    missing = [
        citation.quote or f"({citation.start}, {citation.end})"
        for citation in cited.citations
        if not citation.verified
        and not citation.seen
        # A span outside of the body has no quote.
        and not (citation.quote and any(quote.startswith(citation.quote) for quote in otherwise))
    ]
    notes = [*_describe("weak", cited.weak), *_describe("too_long", cited.too_long)]
    return [*notes, _unverified_note(missing, len(cited.citations))] if missing else notes


def _unverified_note(quotes: Sequence[str], pieces: int) -> str:
    words = table("feedback.toml")["finalize"]["unverified"]
    return str(words.format(count=len(quotes), pieces=pieces, shown=_show(quotes)))


def _describe(kind: str, quotes: Sequence[str]) -> list[str]:
    words = table("feedback.toml")["finalize"][kind]
    return [words.format(count=len(quotes), shown=_show(quotes))] if quotes else []


def _show(quotes: Sequence[str]) -> str:
    return "; ".join(f"{quote[:80]!r}" for quote in quotes[:_MAX_SHOWN])


def _describe_unknown_marks(text: str, pieces: int) -> list[str]:
    """Describe the marks of the answer that refer to no piece of evidence. Return at most one line."""
    numbers = unknown_marks(text, pieces)
    if not numbers:
        return []
    shown = ", ".join(f"[{number}]" for number in numbers[:_MAX_SHOWN]) + (
        ", …" if numbers[_MAX_SHOWN:] else ""
    )
    words = table("feedback.toml")["finalize"]
    given = words["some_evidence"].format(pieces=pieces) if pieces else words["no_evidence"]
    return [words["dangling"].format(shown=shown, given=given)]
