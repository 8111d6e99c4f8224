"""Whether a claimed answer ends the run, and what is checked of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rlm.coverage import CoverageLedger
from rlm.evidence import cite
from rlm.types import Citation, Confidence
from sandbox.in_kernel.body import Body
from sandbox.types import Finalization, FinalizeVerdict

__all__ = ["Answer", "Finalizer"]

_SHOWN = 3
MAX_ATTEMPTS = 200
MAX_QUOTES = 50
"""Each may have to be looked for in the whole body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer and its citations."""

    value: Any
    confidence: Confidence | None
    citations: tuple[Citation, ...]


class Finalizer:
    """Judges every `finalize` of a run. The first accepted one stands. `told_of_evidence`: whether one was
    refused because its evidence does not stand, which happens once."""

    def __init__(self, body: Body, coverage: CoverageLedger) -> None:
        self._body = body
        self._coverage = coverage
        self.told_of_evidence = False
        self.last_round = False
        self.answer: Answer | None = None
        self._judged = 0

    async def judge(self, final: Finalization) -> FinalizeVerdict:
        """Accept or refuse, saying what to do about it. In the last round nothing is refused for evidence
        that does not stand; what was never looked at is refused to the end."""
        self._coverage.note_read(final.access.read)
        self._coverage.note_scanned(final.access.scanned)
        if self._done():
            return FinalizeVerdict(accepted=True)
        self._judged += 1
        if self._judged > MAX_ATTEMPTS:
            return FinalizeVerdict(accepted=False, reason="too many attempts to finalize in this run")
        if self._body.chars and not self._looked():
            return FinalizeVerdict(
                accepted=False,
                reason="nothing of the input was read, searched or given to a child yet; look at it first",
            )
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
        unverified = [citation for citation in citations if not citation.verified]
        if unverified and not self.told_of_evidence and not self.last_round:
            self.told_of_evidence = True
            shown = "; ".join(f"{citation.quote[:80]!r}" for citation in unverified[:_SHOWN])
            return FinalizeVerdict(
                accepted=False,
                reason=f"{len(unverified)} of {len(citations)} pieces of evidence do not stand in the input "
                f"as given: {shown}. Give spans or verbatim quotes, or finalize again and they are marked "
                "unverified",
            )
        self.answer = Answer(final.value, final.confidence, citations)
        return FinalizeVerdict(accepted=True)

    def _done(self) -> bool:
        return self.answer is not None

    def _looked(self) -> bool:
        seen = self._coverage.report()
        return bool(seen.read_chars or seen.scanned_chars or seen.sent_chars)
