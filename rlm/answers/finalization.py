"""Decides whether an answer is accepted. An accepted answer ends the run.

An answer of any strategy passes the same gates: `input` (something was looked at), `schema`, `evidence` (its
quotes and spans are in the input), `support` (its sources support its claims) and `check` (the caller's own).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from rlm.accounting.coverage import CoverageLedger
from rlm.answers.answer_gate import AnswerGate
from rlm.answers.answer_type import AnswerType, SchemaError, size_of
from rlm.answers.citations import Cited, cite
from rlm.answers.quote_places import Fault
from rlm.citation_markers import unknown_marks
from rlm.errors import AnswerCheckError
from rlm.prompts.templates import table
from rlm.results import Citation, Confidence, Gate, ProposedAnswer, Support
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Evidence, Finalization, FinalizeVerdict

__all__ = ["Answer", "CheckAnswer", "FinalizePolicy", "Finalizer", "Judgement"]

_MAX_SHOWN = 3
_MAX_CLAIM = 160
MAX_ATTEMPTS = 200
MAX_QUOTES = 50
"""Limit of quotes, because each may need a search of the whole body."""
_MAX_REFUSALS = 50

GateName = Literal["input", "schema", "evidence", "support", "check"]
_CORRECTABLE: frozenset[GateName] = frozenset({"evidence", "support"})
"""Gates that refuse an answer once, if a round can correct it. After that it is accepted and marked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, its citations, warnings about them, and whether they support its claims."""

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
    answer was already refused by a gate that does so once only. `looked_before`: earlier questions in the
    same kernel have read the input.
    """

    last_round: bool = False
    warned: bool = False
    looked_before: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of one answer. `gate` is the name of the gate that refused it, and `reasons` what it
    said."""

    verdict: FinalizeVerdict
    gate: GateName | None = None
    reasons: tuple[str, ...] = ()

    @property
    def warns(self) -> bool:
        """Return whether the gate that refused the answer does so once only."""
        return self.gate in _CORRECTABLE


@dataclass(slots=True)
class _Draft:
    """An answer on its way through the gates. `evidence` is None if its citations were looked up before."""

    answer: Answer
    evidence: Sequence[Evidence] | None
    policy: FinalizePolicy


class Finalizer:
    """Judges every answer of a run. `answer` is the first accepted answer of a `finalize`.

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
    ) -> None:
        self._body = body
        self._coverage = coverage
        self._answer_type = answer_type
        self._task = task
        self._sub_calls = sub_calls
        self._checks: dict[GateName, Callable[[_Draft], Awaitable[Sequence[str]]]] = {}
        if body.chars:
            self._checks["input"] = self._check_input
        self._checks |= {"schema": self._check_form, "evidence": self._check_evidence}
        if check_support is not None:
            self._checks["support"] = partial(self._check_claims, check_support)
        if gate is not None:
            self._checks["check"] = partial(self._ask_caller, gate)
        self._gates = {str(name): Gate(name) for name in self._checks if answer_type or name != "schema"}
        self.fault: AnswerCheckError | None = None
        self.answer: Answer | None = None
        self._attempts = 0
        self._judging = asyncio.Lock()

    async def judge(self, final: Finalization, policy: FinalizePolicy) -> Judgement:
        """Accept or refuse the answer of a `finalize`. The reason of a refusal says what to do.

        In the last round, unverified evidence is accepted. An answer of the wrong type is always refused, and
        so is an answer without any look at the input. Concurrent calls are judged one after another.
        """
        words = table("feedback.toml")["finalize"]
        async with self._judging:
            if self.answer is not None:
                # Lost a race with another call of the same cell: the first accepted answer wins.
                return _ACCEPTED
            self._attempts += 1
            if self._attempts > MAX_ATTEMPTS:
                return _refused(words["too_many"])
            draft = _Draft(Answer(final.value, final.confidence, ()), final.evidence, policy)
            try:
                if self.fault is not None:
                    raise self.fault
                judgement = await self._judge(draft)
            except AnswerCheckError as error:
                self.fault = error
                return _refused(words["check_failed"])
            if judgement.verdict.accepted:
                self.answer = draft.answer
            return judgement

    async def judge_direct(self, answer: Answer) -> tuple[Answer, str | None]:
        """Judge an answer that no round can correct, and whose citations were looked up. Return it with the
        support of its claims, and why it is refused, or None. Raises AnswerCheckError."""
        policy = FinalizePolicy(last_round=True, looked_before=True)
        draft = _Draft(answer, None, policy)
        judgement = await self._judge(draft)
        return draft.answer, None if judgement.verdict.accepted else judgement.verdict.reason

    def gates(self, *, has_answer: bool) -> tuple[Gate, ...]:
        """Return what each gate said last, in the order in which they judge. Only a run without an answer
        shows what was rejected."""
        return tuple(replace(one, rejected=None) if has_answer else one for one in self._gates.values())

    async def _judge(self, draft: _Draft) -> Judgement:
        words = table("feedback.toml")["finalize"]["refusals"]
        for name, check in self._checks.items():
            reasons = tuple(await check(draft))
            self.note(name, reasons, draft.answer.value)
            is_lenient = draft.policy.warned or draft.policy.last_round
            if reasons and not (is_lenient and name in _CORRECTABLE):
                reason = words.get(name, "{reasons}").format(reasons="; ".join(reasons))
                return Judgement(FinalizeVerdict(accepted=False, reason=reason), name, reasons)
        return _ACCEPTED

    def note(self, name: str | None, reasons: Sequence[str], value: Any = None) -> None:
        """Note what a gate said of an answer, now or in the journal. `reasons` refuse it."""
        if name is not None and (gate := self._gates.get(name)) is not None:
            refusals = (*gate.refusals, *reasons)[:_MAX_REFUSALS]
            self._gates[name] = Gate(name, not reasons, refusals, value if reasons else None)

    async def _check_input(self, draft: _Draft) -> Sequence[str]:
        if self._coverage.looked or draft.policy.looked_before:
            return ()
        return (table("feedback.toml")["finalize"]["not_looked"],)

    async def _check_form(self, draft: _Draft) -> Sequence[str]:
        """Check the value and the number of quotes, before any of them is looked up."""
        words, value = table("feedback.toml")["finalize"], draft.answer.value
        is_blank = value is None or (isinstance(value, str) and not value.strip())
        if self._answer_type is None and is_blank:
            return (words["blank"],)
        try:
            size_of(value)
            if self._answer_type is not None:
                await self._answer_type.check(value)
        except SchemaError as error:
            return (str(error),)
        quotes = sum(isinstance(piece, str) for piece in draft.evidence or ())
        if quotes > MAX_QUOTES:
            return (words["too_many_quotes"].format(quotes=quotes, most=MAX_QUOTES),)
        return ()

    async def _check_evidence(self, draft: _Draft) -> Sequence[str]:
        answer = draft.answer
        cited, pieces = Cited(answer.citations), len(answer.citations)
        text = answer.value if isinstance(answer.value, str) else ""
        if draft.evidence is not None:
            pieces = len(draft.evidence)
            cited = await cite(
                draft.evidence,
                text,
                self._body,
                was_seen=self._coverage.has_seen,
                read_on=self._coverage.read_on,
            )
        told = [*_describe("unsearched", cited), *_describe_unknown_marks(text, pieces)]
        draft.answer = replace(answer, citations=cited.citations, warnings=(*answer.warnings, *told))
        faults: Sequence[Fault] = ("common", "too_long", "missing")
        return [*(line for fault in faults for line in _describe(fault, cited)), *told]

    async def _check_claims(self, check: CheckAnswer, draft: _Draft) -> Sequence[str]:
        support = await check(draft.answer.value, draft.answer.citations)
        draft.answer = replace(draft.answer, support=support)
        return _doubts(support, draft.answer.value)

    async def _ask_caller(self, gate: AnswerGate, draft: _Draft) -> Sequence[str]:
        kind, answer = self._answer_type, draft.answer
        return await gate.reasons(
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


_ACCEPTED = Judgement(FinalizeVerdict(accepted=True))


def _refused(reason: str) -> Judgement:
    return Judgement(FinalizeVerdict(accepted=False, reason=reason))


def _doubts(support: Support | None, value: Any) -> list[str]:
    """Describe the claims of an answer that are unsupported, in one line if there are any. What a value of
    another type cites is not known item by item: it is told, and not doubted."""
    if support is None or not support.unsupported or not isinstance(value, str):
        return []
    claims = [one for one in support.claims if one.status == "unsupported"]
    shown = "; ".join(f"{one.text[:_MAX_CLAIM]!r} ({one.reason})" for one in claims[:_MAX_SHOWN])
    more = f"; and {len(claims) - _MAX_SHOWN} more" if len(claims) > _MAX_SHOWN else ""
    words = table("feedback.toml")["finalize"]["unsupported"]
    return [words.format(count=len(claims), claims=len(support.claims), shown=shown + more)]


def _describe(fault: Fault, cited: Cited) -> list[str]:
    """Describe the pieces of evidence that are unverified for one reason, in one line if there are any."""
    quotes = cited.unverified(fault)
    shown = "; ".join(f"{quote[:80]!r}" for quote in quotes[:_MAX_SHOWN])
    words = table("feedback.toml")["finalize"][fault]
    return [words.format(count=len(quotes), pieces=len(cited.citations), shown=shown)] if quotes else []


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
