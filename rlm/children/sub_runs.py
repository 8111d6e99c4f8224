"""Serves the sub-RLMs that a kernel asks for. Each is a run of its own, one level deeper, with the limits
left.

At the deepest level one child reads the source instead, if it fits. The answer says which of the two it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rlm.accounting.run_context import RunContext
from rlm.children.child_calls import ChildCalls
from rlm.children.in_flight_cache import InFlightCache
from rlm.errors import BudgetExhausted, JournalError, RLMError, cause_of
from rlm.events import SubRLMEnded, SubRLMStarted
from rlm.lazy_dataclass import dataclass
from rlm.prompts import is_not_found
from rlm.prompts.templates import table
from rlm.results import RunResult, Usage
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import ChildAnswer, ChildSlice, Span, SubRLMBatch

__all__ = ["SubRunResult", "SubRuns"]

_PROMPT_SHOWN = 200


@dataclass(frozen=True, slots=True)
class SubRunResult:
    """How a sub-RLM ended: a result, or else the error that ended it. `usage` is that of all its calls and of
    those below it, whichever it was. `evidence` are its verified citations, in the parent's body."""

    result: RunResult | None
    error: RLMError | SandboxError | None
    usage: tuple[Usage, ...] = ()
    evidence: tuple[Span, ...] = ()


Descend = Callable[[str, ChildSlice | None, str, str], Awaitable[SubRunResult]]
"""Runs a sub-RLM to its end, given its prompt, its source, its name in the journal, and the name of the
sub-model that is its root ("" for the model of this root)."""


class SubRuns:
    """The sub-RLMs of one run, which is at `depth` (the root: 0) and may go down to `max_depth`."""

    def __init__(
        self,
        descend: Descend,
        child_calls: ChildCalls,
        run_context: RunContext,
        *,
        depth: int,
        max_depth: int,
    ) -> None:
        self._descend = descend
        self._child_calls = child_calls
        self._budget = run_context.budget
        self._observe = run_context.observe
        self._log = run_context.log
        self._concurrency = run_context.concurrency
        self._depth = depth
        self._max_depth = max_depth
        self._playback = run_context.playback
        self._in_flight = InFlightCache()
        self._begun: Counter[str] = Counter()

    def forget_answers(self) -> None:
        """Forget all answers. The cells are re-run and their sub-RLMs are replayed."""
        self._in_flight.clear()
        self._begun.clear()

    async def serve(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        """Run every sub-RLM of `batch` and pass on each answer as it comes. Raises BadCall, before any
        begins, if too few calls are left for all, or if there is no such sub-model."""
        self._child_calls.models.named(batch.model)
        self._refuse_impossible(batch)

        async def one(position: int) -> None:
            answer = await self._answer(batch.prompts[position], batch.sources[position], batch.model)
            self._child_calls.record(answer)
            await answered(position, answer)

        self._child_calls.add_expected(len(batch.prompts))
        began = time.monotonic()
        tasks = [asyncio.ensure_future(one(position)) for position in range(len(batch.prompts))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._child_calls.add_seconds(time.monotonic() - began)

    def _refuse_impossible(self, batch: SubRLMBatch) -> None:
        keys = {_key(*asked, batch.model) for asked in zip(batch.prompts, batch.sources, strict=True)}
        # Known answers cost nothing. A sub-RLM that began before the run stopped is counted already.
        new = [
            key
            for key in keys
            if key not in self._in_flight and self._name(key) not in self._playback.recording.below
        ]
        left = int(self._budget.remaining()["sub_calls"])
        if not self._playback.repeating and len(new) > left:
            raise BadCall(
                "value",
                table("feedback.toml")["forecast"]["sub_rlms"].format(
                    wanted=f"{len(new):,}", left=f"{left:,}"
                ),
            )

    def _name(self, key: str) -> str:
        """Return the name that the next sub-RLM of this key has in the journal."""
        return f"{key[:12]}.{self._begun[key] + 1}"

    async def _answer(self, prompt: str, source: ChildSlice | None, model: str) -> ChildAnswer:
        """Answer from memory, from the same sub-RLM in flight, or from a new one."""
        key = _key(prompt, source, model)
        return await self._in_flight.answer(key, lambda: self._begin(prompt, source, model, key))

    async def _begin(self, prompt: str, source: ChildSlice | None, model: str, key: str) -> ChildAnswer:
        name = self._name(key)
        self._begun[key] += 1
        return await self._ask(prompt, source, model, name)

    async def _ask(self, prompt: str, source: ChildSlice | None, model: str, name: str) -> ChildAnswer:
        if self._depth >= self._max_depth:
            return await self._one_child(prompt, source, model)
        # The run's limits bound a sub-RLM, and a clock of their own its cells.
        with waiting():
            async with self._concurrency.kernels(self._depth + 1):
                return await self._run(prompt, source, model, name)

    async def _run(self, prompt: str, source: ChildSlice | None, model: str, name: str) -> ChildAnswer:
        # If the journal says that it failed, it is replayed only for its coverage.
        past = self._playback.end(name)
        self._observe(SubRLMStarted(self._depth + 1, prompt[:_PROMPT_SHOWN]))
        try:
            answer = _answer_of(await self._descend(prompt, source, name, model))
        except JournalError:
            raise
        except (RLMError, SandboxError) as error:
            answer = _answer_of(SubRunResult(None, error, ()))
        if past is not None:
            answer = replace(
                answer, text="", error=past.message, error_type=past.type, found=False, evidence=()
            )
        self._observe(SubRLMEnded(self._depth + 1, answer.error is None))
        if not self._playback.repeating:
            facts = {"name": name, "error": answer.error, "error_type": answer.error_type}
            await self._log.append("sub_rlm_ended", facts)
        return answer

    async def _one_child(self, prompt: str, source: ChildSlice | None, model: str) -> ChildAnswer:
        """Answer by one child: the deepest level has no kernels."""
        try:
            return await self._child_calls.ask_one(prompt, source, model)
        except BadCall as error:
            if error.type != "slice_too_large":
                return ChildAnswer("", error=str(error), error_type=error.type, found=False)
            deeper = self._depth + 1
            return ChildAnswer(
                "",
                error=table("feedback.toml")["forecast"]["depth"].format(
                    depth=deeper, deepest=self._max_depth
                ),
                error_type="depth",
                found=False,
            )


def _answer_of(descent: SubRunResult) -> ChildAnswer:
    """Convert the end of a sub-RLM to the answer that its parent's cell gets."""
    result, costs = descent.result, [one.cost_usd for one in descent.usage]
    failed = ChildAnswer(
        "",
        error_type="limit" if isinstance(descent.error, BudgetExhausted) else "rlm",
        found=False,
        how="rlm",
        input_tokens=sum(one.input_tokens for one in descent.usage),
        output_tokens=sum(one.output_tokens for one in descent.usage),
        calls=sum(one.calls for one in descent.usage),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
    )
    if result is None:
        assert descent.error is not None
        return replace(failed, error=cause_of(descent.error))
    if result.answer is None:
        words = table("feedback.toml")["sub_rlm"]
        why = result.warnings[-1] if result.warnings else words["not_finalized"]
        error = words["no_answer"].format(reason=result.stop_reason, why=why)
        return replace(failed, error=error, error_type="no_answer")
    text = result.answer if isinstance(result.answer, str) else json.dumps(result.answer, ensure_ascii=False)
    return replace(
        failed,
        text=text,
        error_type=None,
        found=not is_not_found(text),
        value=None if isinstance(result.answer, str) else result.answer,
        evidence=descent.evidence,
    )


def _key(prompt: str, source: ChildSlice | None, model: str = "") -> str:
    pieces = None if source is None else list(source.pieces)
    named = [model] if model else []
    return hashlib.sha256(json.dumps([prompt, pieces, *named]).encode()).hexdigest()
