"""What the kernel of a run may ask of its driver, answered by the run's own parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rlm.budget import Budget
from rlm.coverage import CoverageLedger
from rlm.errors import UsageError
from rlm.finalization import Finalizer
from rlm.retrieval import RetrievalError
from rlm.retrieval.ranking import Ranking
from rlm.subcalls import SubCalls
from sandbox.requests import BadCall
from sandbox.sandbox import AnswerSink
from sandbox.types import ChildBatch, Finalization, FinalizeVerdict, Progress, RankedSpan, RankQuery, Span

__all__ = ["RunHandler"]


class RunHandler:
    """Implements KernelHandler."""

    def __init__(
        self,
        subcalls: SubCalls,
        finalizer: Finalizer,
        budget: Budget,
        coverage: CoverageLedger,
        ranking: Ranking,
    ) -> None:
        self._subcalls = subcalls
        self._finalizer = finalizer
        self._budget = budget
        self._coverage = coverage
        self._ranking = ranking

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await self._subcalls.serve(batch, answered)

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        return await self._finalizer.judge(final)

    async def progress(self) -> Progress:
        return Progress(
            has_final_answer=self._finalizer.answer is not None,
            limits=self._budget.used(),
            coverage=asdict(self._coverage.report()),
            plan=self._subcalls.plan(),
        )

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        try:
            packs = await self._ranking.packs(query.query, limit=query.k)
        except (RetrievalError, UsageError) as error:
            raise BadCall("value", f"rank() is not to be had: {error}; use search()") from error
        return [RankedSpan(Span(pack.start, pack.end), pack.score, pack.heading_path) for pack in packs]
