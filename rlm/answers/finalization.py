"""Whether a claimed answer ends the run, and what is checked of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rlm.accounting.coverage import CoverageLedger
from rlm.answers.answer_type import AnswerType
from rlm.answers.citations import cite
from rlm.answers.json_schema import SchemaError
from rlm.citation_markers import unknown_marks
from rlm.results import Citation, Confidence
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Finalization, FinalizeVerdict

__all__ = ["Answer", "Finalizer"]

_SHOWN = 3
MAX_ATTEMPTS = 200
MAX_QUOTES = 50
"""Each may have to be looked for in the whole body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer, its citations, and what is to be said of them."""

    value: Any
    confidence: Confidence | None
    citations: tuple[Citation, ...]
    warnings: tuple[str, ...] = ()


class Finalizer:
    """Judges every `finalize` of a run. The first accepted one stands. `told_of_evidence`: whether one was
    refused because its evidence does not stand, which happens once. `looked_before`: earlier questions in the
    same kernel have looked at the input."""

    def __init__(self, body: Body, coverage: CoverageLedger, answer_type: AnswerType | None = None) -> None:
        self._body = body
        self._coverage = coverage
        self._answer_type = answer_type
        self.told_of_evidence = False
        self.last_round = False
        self.looked_before = False
        self.answer: Answer | None = None
        self._judged = 0

    async def judge(self, final: Finalization) -> FinalizeVerdict:
        """Accept or refuse, saying what to do about it. In the last round nothing is refused for evidence
        that does not stand; what was never looked at, or has the wrong type, is refused to the end."""
        self._coverage.note_read(final.access.read)
        self._coverage.note_scanned(final.access.scanned)
        if self._done():
            return FinalizeVerdict(accepted=True)
        self._judged += 1
        if self._judged > MAX_ATTEMPTS:
            return FinalizeVerdict(accepted=False, reason="too many attempts to finalize in this run")
        if self._body.chars and not self._coverage.looked and not self.looked_before:
            return FinalizeVerdict(
                accepted=False,
                reason="nothing of the input was read, searched or given to a child yet; look at it first",
            )
        if self._answer_type is None and _blank(final.value):
            return FinalizeVerdict(
                accepted=False,
                reason="there is no answer in it: finalize what you found out, or, where the text does not "
                "hold it, a text that begins with `Not in the documents:`",
            )
        if self._answer_type is not None:
            try:
                self._answer_type.check(final.value)
            except SchemaError as error:
                return FinalizeVerdict(accepted=False, reason=str(error))
        quotes = sum(isinstance(piece, str) for piece in final.evidence)
        if quotes > MAX_QUOTES:
            return FinalizeVerdict(
                accepted=False,
                reason=f"{quotes} quotes are given as evidence; give spans or hits instead, or the "
                f"{MAX_QUOTES} that matter",
            )
        text = final.value if isinstance(final.value, str) else ""
        # Locating quotes may search the whole body.
        citations = await asyncio.to_thread(cite, final.evidence, text, self._body)
        if self._done():
            # Another call of the same cell was faster: the first accepted answer stands.
            return FinalizeVerdict(accepted=True)
        dangling = _dangling(text, len(final.evidence))
        faults = [*_unverified(citations), *dangling]
        if faults and not self.told_of_evidence and not self.last_round:
            self.told_of_evidence = True
            return FinalizeVerdict(
                accepted=False, reason=f"{'; '.join(faults)}. Mend it, or finalize again and it is marked so"
            )
        self.answer = Answer(final.value, final.confidence, citations, tuple(dangling))
        return FinalizeVerdict(accepted=True)

    def _done(self) -> bool:
        return self.answer is not None


def _blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _unverified(citations: tuple[Citation, ...]) -> list[str]:
    quotes = [citation.quote for citation in citations if not citation.verified]
    if not quotes:
        return []
    shown = "; ".join(f"{quote[:80]!r}" for quote in quotes[:_SHOWN])
    return [
        f"{len(quotes)} of {len(citations)} pieces of evidence do not stand in the input as given: {shown} "
        "(give spans or verbatim quotes)"
    ]


def _dangling(text: str, pieces: int) -> list[str]:
    """A line about marks of the answer that point at no piece of evidence."""
    numbers = unknown_marks(text, pieces)
    if not numbers:
        return []
    shown = ", ".join(f"[{number}]" for number in numbers[:_SHOWN]) + (", …" if numbers[_SHOWN:] else "")
    given = "no evidence was given" if not pieces else f"evidence has {pieces} of them"
    return [f"the answer points with {shown} at no piece of evidence ({given})"]
