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


@dataclass(frozen=True, slots=True)
class Answer:
    """An accepted answer and its citations."""

    value: Any
    confidence: Confidence | None
    citations: tuple[Citation, ...]


class Finalizer:
    """Judges every `finalize` of a run. The first accepted one stands."""

    def __init__(self, body: Body, coverage: CoverageLedger) -> None:
        self._body = body
        self._coverage = coverage
        self._told_of_evidence = False
        self.last_round = False
        self.answer: Answer | None = None

    async def judge(self, final: Finalization) -> FinalizeVerdict:
        """Accept or refuse, saying what to do about it. The last round is not refused for want of proof."""
        self._coverage.note_read(final.access.read)
        self._coverage.note_scanned(final.access.scanned)
        if self.answer is not None:
            return FinalizeVerdict(accepted=True)
        if self._body.chars and not self._looked() and not self.last_round:
            return FinalizeVerdict(
                accepted=False,
                reason="nothing of the input was read, searched or given to a child yet; look at it first",
            )
        text = final.value if isinstance(final.value, str) else ""
        # Locating quotes may search the whole body.
        citations = await asyncio.to_thread(cite, final.evidence, text, self._body)
        unverified = [citation for citation in citations if not citation.verified]
        if unverified and not self._told_of_evidence and not self.last_round:
            self._told_of_evidence = True
            shown = "; ".join(f"{citation.quote[:80]!r}" for citation in unverified[:_SHOWN])
            return FinalizeVerdict(
                accepted=False,
                reason=f"{len(unverified)} of {len(citations)} pieces of evidence do not stand in the input "
                f"as given: {shown}. Give spans or verbatim quotes, or finalize again and they are marked "
                "unverified",
            )
        self.answer = Answer(final.value, final.confidence, citations)
        return FinalizeVerdict(accepted=True)

    def _looked(self) -> bool:
        seen = self._coverage.report()
        return bool(seen.read_chars or seen.scanned_chars or seen.sent_chars)
