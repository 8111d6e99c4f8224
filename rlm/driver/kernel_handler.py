"""Answers the requests of a run's kernel with the parts of that run.

Some replies cannot be computed again: the state of the run, a refusal. These are journalled by round, helper
and order of the call. A cell that is re-run gets the same replies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer, FinalizePolicy, Finalizer
from rlm.children.child_calls import ChildCalls
from rlm.children.sub_runs import SubRuns
from rlm.children.tool_calls import ToolCalls
from rlm.errors import UsageError
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

MAX_JOURNALLED_CALLS = 1_000
"""Limit of journalled calls of one helper in one round, because a cell that calls in a loop must not fill the
journal."""

_MAX_REASON = 4_000
"""Characters of the reason why an answer is refused."""


class RunHandler:
    """Implements KernelHandler for one run. The first `finalize` is judged by `policy`."""

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
        self._log = run_context.log
        self._playback = run_context.playback

    def begin_last_round(self) -> None:
        """Judge every following `finalize` as in the last round."""
        self._policy = replace(self._policy, last_round=True)

    def accept_all(self) -> None:
        """Accept every answer. In a replay, each refusal comes from the journal, so all other answers were
        accepted."""
        self._policy = replace(self._policy, last_round=True, looked_before=True, replayed=True)

    def answer(self) -> Answer | None:
        """Return the answer that was accepted, if any.

        Raises AnswerCheckError if the caller's check failed itself. The cell is then not journalled, so that
        a resumed run runs it again and its answer is judged again.
        """
        if self._finalizer.fault is not None:
            raise self._finalizer.fault
        return self._finalizer.answer

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await self._serve_batch("children", partial(self._child_calls.ask_all, batch, answered))

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        await self._serve_batch("sub_rlms", partial(self._sub_runs.ask_all, batch, answered))

    async def _serve_batch(self, helper: str, ask: Callable[[], Awaitable[object]]) -> None:
        """Serve a batch. A cell that is re-run gets the recorded refusal, whatever budget is left now."""
        order = self._playback.order(helper)
        refused = self._playback.helper(helper, order)
        if refused is not None:
            raise BadCall(refused["type"], refused["message"])
        try:
            await ask()
        except BadCall as error:
            await self._journal_reply(helper, order, {"type": error.type, "message": str(error)})
            raise

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        # What the cell has read so far is counted before the answer is judged. Its report comes later.
        self._coverage.note("read", final.access.read)
        self._coverage.note("scanned", final.access.scanned)
        order = self._playback.order("finalize")
        refused = self._playback.helper("finalize", order)
        if refused is not None:
            self._policy = replace(self._policy, warned=refused["told_of_evidence"])
            self._finalizer.note_refusal(refused.get("gate"), refused.get("said", ()))
            return FinalizeVerdict(accepted=False, reason=refused["reason"])
        judgement = await self._finalizer.judge(final, self._policy)
        # The journal keeps the reason, which may name parts of the answer.
        verdict = replace(judgement.verdict, reason=judgement.verdict.reason[:_MAX_REASON])
        if not verdict.accepted and self._finalizer.fault is None:
            warned = self._policy.warned or judgement.warns
            self._policy = replace(self._policy, warned=warned)
            await self._journal_reply(
                "finalize",
                order,
                {
                    "reason": verdict.reason,
                    "told_of_evidence": warned,
                    "gate": judgement.gate,
                    "said": [reason[:_MAX_REASON] for reason in judgement.reasons],
                },
            )
        return verdict

    async def chunk_chars(self) -> int:
        return self._child_calls.chunk_chars

    async def progress(self) -> Progress:
        order = self._playback.order("progress")
        recorded = self._playback.helper("progress", order)
        if recorded is not None:
            return Progress(**recorded)
        if order < MAX_JOURNALLED_CALLS:
            self._playback.miss()
        progress = Progress(
            has_final_answer=self._finalizer.answer is not None,
            limits=self._budget.used(),
            coverage=asdict(self._coverage.report()),
            plan=self._child_calls.plan(),
        )
        await self._journal_reply("progress", order, asdict(progress))
        return progress

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        try:
            packs = await self._ranking.packs(query.query, limit=query.k, within=query.within)
        except (RetrievalError, UsageError) as error:
            raise BadCall("value", table("feedback.toml")["rank_unavailable"].format(error=error)) from error
        return [RankedSpan(Span(pack.start, pack.end), pack.score, pack.heading_path) for pack in packs]

    async def tool(self, call: ToolCall) -> Any:
        return await self._tools.serve(call)

    async def _journal_reply(self, helper: str, order: int, result: Mapping[str, Any]) -> None:
        if order >= MAX_JOURNALLED_CALLS:
            return
        event_fields = {"round": self._playback.round, "helper": helper, "order": order, "result": result}
        await self._log.append("helper", event_fields)
