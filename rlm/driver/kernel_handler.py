"""What the kernel of a run may ask of its driver, answered by the run's own parts.

What it is told and could not be told again (where the run stands, a refusal) is journalled by round, helper
and order, so that the same cell run again is told the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Finalizer
from rlm.children.child_calls import ChildCalls
from rlm.children.sub_runs import SubRuns
from rlm.children.tool_calls import ToolCalls
from rlm.errors import UsageError
from rlm.retrieval import RetrievalError
from rlm.retrieval.ranking import Ranking
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import (
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    Span,
    SubRLMBatch,
    ToolCall,
)

__all__ = ["RunHandler"]

MAX_NOTED = 1_000
"""Of the calls of one helper in one round: a cell that asks in a loop must not fill the journal."""


class RunHandler:
    """Implements KernelHandler."""

    def __init__(
        self,
        child_calls: ChildCalls,
        sub_runs: SubRuns,
        tools: ToolCalls,
        finalizer: Finalizer,
        ranking: Ranking,
        run_context: RunContext,
    ) -> None:
        self._child_calls = child_calls
        self._sub_runs = sub_runs
        self._tools = tools
        self._finalizer = finalizer
        self._ranking = ranking
        self._budget = run_context.budget
        self._coverage = run_context.coverage
        self._log = run_context.log
        self._playback = run_context.playback

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await self._served("children", partial(self._child_calls.serve, batch, answered))

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        await self._served("sub_rlms", partial(self._sub_runs.serve, batch, answered))

    async def _served(self, helper: str, serve: Callable[[], Awaitable[None]]) -> None:
        """Serve a batch. A refusal is told again where the cell is run again, whatever is left by then."""
        order = self._playback.order(helper)
        refused = self._playback.helper(helper, order)
        if refused is not None:
            raise BadCall(refused["type"], refused["message"])
        try:
            await serve()
        except BadCall as error:
            await self._note(helper, order, {"type": error.type, "message": str(error)})
            raise

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        order = self._playback.order("finalize")
        refused = self._playback.helper("finalize", order)
        if refused is not None:
            self._finalizer.told_of_evidence = refused["told_of_evidence"]
            return FinalizeVerdict(accepted=False, reason=refused["reason"])
        verdict = await self._finalizer.judge(final)
        if not verdict.accepted:
            told = self._finalizer.told_of_evidence
            await self._note("finalize", order, {"reason": verdict.reason, "told_of_evidence": told})
        return verdict

    async def progress(self) -> Progress:
        order = self._playback.order("progress")
        told = self._playback.helper("progress", order)
        if told is not None:
            return Progress(**told)
        if order < MAX_NOTED:
            self._playback.miss()
        progress = Progress(
            has_final_answer=self._finalizer.answer is not None,
            limits=self._budget.used(),
            coverage=asdict(self._coverage.report()),
            plan=self._child_calls.plan(),
        )
        await self._note("progress", order, asdict(progress))
        return progress

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        try:
            packs = await self._ranking.packs(query.query, limit=query.k)
        except (RetrievalError, UsageError) as error:
            raise BadCall("value", f"rank() is not to be had: {error}; use search()") from error
        return [RankedSpan(Span(pack.start, pack.end), pack.score, pack.heading_path) for pack in packs]

    async def tool(self, call: ToolCall) -> Any:
        return await self._tools.serve(call)

    async def _note(self, helper: str, order: int, result: Mapping[str, Any]) -> None:
        if order >= MAX_NOTED:
            return
        facts = {"round": self._playback.round, "helper": helper, "order": order, "result": result}
        await self._log.append("helper", facts)
