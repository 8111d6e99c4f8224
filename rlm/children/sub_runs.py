"""Serves a kernel's sub-RLMs: each a run of its own, one depth further down, with what is left of the limits.

Where the run goes no deeper, one child reads the source instead, if it fits; the answer says which it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlm.accounting.run_context import RunContext
from rlm.children.child_calls import ChildCalls
from rlm.children.in_flight_cache import InFlightCache
from rlm.errors import BudgetExhausted, JournalError, RLMError
from rlm.events import SubRLMEnded, SubRLMStarted
from rlm.prompts import is_not_found
from rlm.results import RunResult
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import ChildAnswer, ChildSlice, Span, SubRLMBatch

__all__ = ["SubRunResult", "SubRuns"]

_PROMPT_SHOWN = 200


@dataclass(frozen=True, slots=True)
class SubRunResult:
    """What a sub-RLM came to. `evidence` are its verified citations, in the parent's body; the tokens are
    its own, and those of all below it."""

    result: RunResult
    evidence: tuple[Span, ...]
    input_tokens: int = 0
    output_tokens: int = 0


Descend = Callable[[str, ChildSlice | None, str], Awaitable[SubRunResult]]
"""Runs a sub-RLM to its end: its prompt, its source, and the name by which the journal knows it."""


class SubRuns:
    """The sub-RLMs of one run, which is at `depth` (the root: 0) and may go down to `deepest`."""

    def __init__(
        self, descend: Descend, child_calls: ChildCalls, run_context: RunContext, *, depth: int, deepest: int
    ) -> None:
        self._descend = descend
        self._child_calls = child_calls
        self._budget = run_context.budget
        self._observe = run_context.observe
        self._log = run_context.log
        self._concurrency = run_context.concurrency
        self._depth = depth
        self._deepest = deepest
        self._playback = run_context.playback
        self._in_flight = InFlightCache()
        self._begun: Counter[str] = Counter()

    def rewind(self) -> None:
        """The cells of this run are run again: the sub-RLMs they ask for are gone through by the journal."""
        self._in_flight.clear()
        self._begun.clear()

    async def serve(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        """Run every sub-RLM of `batch`; each answer is handed on when it is there. Raises BadCall, before any
        begins, when there are not calls enough for all."""
        self._refuse_what_cannot_be_done(batch)

        async def one(position: int) -> None:
            answer = await self._answer(batch.prompts[position], batch.sources[position])
            self._child_calls.record(answer)
            await answered(position, answer)

        self._child_calls.expect(len(batch.prompts))
        began = time.monotonic()
        tasks = [asyncio.ensure_future(one(position)) for position in range(len(batch.prompts))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._child_calls.took(time.monotonic() - began)

    def _refuse_what_cannot_be_done(self, batch: SubRLMBatch) -> None:
        keys = {_key(*asked) for asked in zip(batch.prompts, batch.sources, strict=True)}
        # What was answered costs nothing, what had begun before the run was left is counted already.
        new = [
            key
            for key in keys
            if key not in self._in_flight and self._name(key) not in self._playback.recording.below
        ]
        left = int(self._budget.remaining()["sub_calls"])
        if not self._playback.repeating and len(new) > left:
            raise BadCall(
                "value",
                f"{len(new):,} sub-RLMs are wanted, but only {left:,} child calls are left, and each takes "
                "one at least: ask for fewer over larger sources, or finalize from what you have",
            )

    def _name(self, key: str) -> str:
        """What the next one of this key is called in the journal."""
        return f"{key[:12]}.{self._begun[key] + 1}"

    async def _answer(self, prompt: str, source: ChildSlice | None) -> ChildAnswer:
        """From memory, from the same one under way, or from a new one."""
        key = _key(prompt, source)
        return await self._in_flight.answer(key, lambda: self._begin(prompt, source, key))

    async def _begin(self, prompt: str, source: ChildSlice | None, key: str) -> ChildAnswer:
        name = self._name(key)
        self._begun[key] += 1
        return await self._ask(prompt, source, name)

    async def _ask(self, prompt: str, source: ChildSlice | None, name: str) -> ChildAnswer:
        if self._depth >= self._deepest:
            return await self._one_child(prompt, source)
        # Why it failed, where this cell was told so before: it is gone through for what it saw, no further.
        past = self._playback.end(name)
        async with self._concurrency.kernels(self._depth + 1):
            self._observe(SubRLMStarted(self._depth + 1, prompt[:_PROMPT_SHOWN]))
            try:
                descent = await self._descend(prompt, source, name)
            except BudgetExhausted as error:
                answer = ChildAnswer("", error=str(error), error_type="limit", found=False, how="rlm")
            except JournalError:
                raise
            except (RLMError, SandboxError) as error:
                answer = ChildAnswer("", error=str(error), error_type="rlm", found=False, how="rlm")
            else:
                answer = _told(descent)
            if past is not None:
                answer = ChildAnswer("", error=past.message, error_type=past.type, found=False, how="rlm")
            self._observe(SubRLMEnded(self._depth + 1, answer.error is None))
            if not self._playback.repeating:
                facts = {"name": name, "error": answer.error, "error_type": answer.error_type}
                await self._log.append("sub_rlm_ended", facts)
        return answer

    async def _one_child(self, prompt: str, source: ChildSlice | None) -> ChildAnswer:
        """The deepest level has no kernels."""
        try:
            return await self._child_calls.single(prompt, source)
        except BadCall as error:
            if error.type != "slice_too_large":
                return ChildAnswer("", error=str(error), error_type=error.type, found=False)
            deeper = self._depth + 1
            return ChildAnswer(
                "",
                error=f"a sub-RLM here would be at depth {deeper}, this run goes down to {self._deepest} "
                "(limits.depth), and the source does not fit one child instead: cut it up with chunk() and "
                "call sub_query_batch",
                error_type="depth",
                found=False,
            )


def _told(descent: SubRunResult) -> ChildAnswer:
    """A sub-RLM's end as its parent's cell sees it."""
    result = descent.result
    if result.answer is None:
        why = result.warnings[-1] if result.warnings else "it did not finalize"
        return ChildAnswer(
            "",
            error=f"the sub-RLM ended without an answer ({result.stop_reason}): {why}",
            error_type="no_answer",
            found=False,
            how="rlm",
        )
    text = result.answer if isinstance(result.answer, str) else json.dumps(result.answer, ensure_ascii=False)
    return ChildAnswer(
        text,
        found=not is_not_found(text),
        value=None if isinstance(result.answer, str) else result.answer,
        how="rlm",
        evidence=descent.evidence,
        input_tokens=descent.input_tokens,
        output_tokens=descent.output_tokens,
    )


def _key(prompt: str, source: ChildSlice | None) -> str:
    pieces = None if source is None else list(source.pieces)
    return hashlib.sha256(json.dumps([prompt, pieces]).encode()).hexdigest()
