"""Answer a question by single calls over spans of the input: its best passages, or its beginning.

The look-ups of a research and two methods of a comparison share it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rlm.driver.direct import DirectReply, Question, ask_directly
from rlm.models.base import Model, SliceText
from rlm.results import Note, RunResult, StopReason
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.settings import DirectSettings
from rlm.tasks.jobs.parts import Part

__all__ = ["SpanCalls"]


@dataclass(frozen=True, slots=True)
class SpanCalls:
    """Calls of `model` over spans, on behalf of `part`, since `began` (of `time.monotonic`)."""

    part: Part
    model: Model
    settings: DirectSettings
    began: float

    @classmethod
    def of(cls, part: Part, model: Model, settings: DirectSettings) -> SpanCalls:
        return cls(part, model, settings, time.monotonic())

    @property
    def body(self) -> Body:
        return self.part.part_resources.source.body

    async def best_passages(self, query: str, limit: int) -> list[Span]:
        """Return the passages that rank best for `query`. Raises RetrievalError."""
        ranking = self.part.part_resources.resources.ranking(self.body)
        try:
            return [Span(pack.start, pack.end) for pack in await ranking.packs(query, limit=limit)]
        finally:
            await ranking.aclose()

    async def ask(self, question: Question, spans: Sequence[Span]) -> DirectReply:
        """Ask over these spans in one call, and note that they were read. Raises SliceTooLarge and
        BudgetExceeded (prompts) if they do not fit, ModelError and BudgetExhausted."""
        pieces = []
        for span in sorted(spans):
            document = self.body.document_at(span.start)
            pieces.append(SliceText(self.body.text(*span), span, document.name if document else None))
        reply = await ask_directly(
            self.model,
            question,
            pieces,
            self.body,
            run_context=self.part.run_context,
            settings=self.settings,
        )
        if reply.complete or reply.fault == "not_found":
            self.part.run_context.coverage.note("answered", list(spans))
        return reply

    def result(
        self, reply: DirectReply | None, *, is_answer: bool, reason: StopReason = "finalized", note: str = ""
    ) -> RunResult:
        """Return the result of the part. Its answer is that of the reply if `is_answer`."""
        return RunResult(
            run_id=self.part.run_context.log.run_id,
            answer=reply.text if reply is not None and is_answer else None,
            confidence=None,
            stop_reason=reason,
            forced=False,
            strategy="direct",
            citations=() if reply is None else reply.citations,
            coverage=self.part.run_context.coverage.report(),
            usage=(),
            rounds=0,
            sub_calls=int(self.part.run_context.budget.used()["sub_calls"]["used"]),
            seconds=round(time.monotonic() - self.began, 3),
            notes=(Note(note),) if note else (),
        )
