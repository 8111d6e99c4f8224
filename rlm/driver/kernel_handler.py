"""Answers the requests of a run's kernel with the parts of that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer, FinalizePolicy, Finalizer
from rlm.children.child_calls import ChildCalls
from rlm.children.sub_runs import SubRuns
from rlm.children.tool_calls import ToolCalls
from rlm.errors import UsageError
from rlm.playback.border import Refusal
from rlm.prompts.templates import table
from rlm.retrieval.errors import RetrievalError
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

_MAX_REASON = 4_000
"""Characters of the reason why an answer is refused."""


class RunHandler:
    """Implements JudgingHandler for one run. The first `finalize` is judged by `policy`."""

    refusal: Refusal
    """Why the last answer was refused, if it was."""

    def __init__(
        self,
        child_calls: ChildCalls,
        sub_runs: SubRuns,
        tools: ToolCalls,
        finalizer: Finalizer,
        ranking: Ranking,
        run_context: RunContext,
        policy: FinalizePolicy,
    ) -> None:
        self._child_calls = child_calls
        self._sub_runs = sub_runs
        self._tools = tools
        self._finalizer = finalizer
        self._ranking = ranking
        self._policy = policy
        self._budget = run_context.budget
        self._coverage = run_context.coverage

    def begin_last_round(self) -> None:
        """Judge every following `finalize` as in the last round."""
        self._policy = replace(self._policy, last_round=True)

    def note_refusals(self, refusals: Sequence[Refusal]) -> None:
        """Note why answers were refused before the run was resumed."""
        for one in refusals:
            self._policy = replace(self._policy, warned=one.warned)
            self._finalizer.note(one.gate, one.said)

    def answer(self) -> Answer | None:
        """Return the answer that was accepted, if any.

        Raises AnswerCheckError if the caller's check failed itself. The cell is then not journalled, so that
        a resumed run runs it again and its answer is judged again.
        """
        if self._finalizer.fault is not None:
            raise self._finalizer.fault
        return self._finalizer.answer

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await self._child_calls.ask_all(batch, answered)

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        await self._sub_runs.ask_all(batch, answered)

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        # What the cell has read so far is counted before the answer is judged. Its report comes later.
        self._coverage.note("read", final.access.read)
        self._coverage.note("scanned", final.access.scanned)
        judgement = await self._finalizer.judge(final, self._policy)
        # The journal keeps the reason, which may name parts of the answer.
        verdict = replace(judgement.verdict, reason=judgement.verdict.reason[:_MAX_REASON])
        if not verdict.accepted:
            warned = self._policy.warned or judgement.warns
            self._policy = replace(self._policy, warned=warned)
            said = tuple(reason[:_MAX_REASON] for reason in judgement.reasons)
            self.refusal = Refusal(verdict.reason, judgement.gate, said, warned)
        return verdict

    async def chunk_chars(self) -> int:
        return self._child_calls.chunk_chars

    async def progress(self) -> Progress:
        return Progress(
            has_final_answer=self._finalizer.answer is not None,
            limits=self._budget.used(),
            coverage=asdict(self._coverage.report()),
            plan=self._child_calls.plan(),
        )

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        try:
            packs = await self._ranking.packs(query.query, limit=query.k, within=query.within)
        except (RetrievalError, UsageError) as error:
            raise BadCall("value", table("feedback.toml")["rank_unavailable"].format(error=error)) from error
        return [RankedSpan(Span(pack.start, pack.end), pack.score, pack.heading_path) for pack in packs]

    async def tool(self, call: ToolCall) -> Any:
        return await self._tools.serve(call)
