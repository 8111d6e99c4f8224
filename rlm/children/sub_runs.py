"""Runs the sub-RLMs that a kernel asks for. Each is a run of its own, one level deeper, with the limits left.

At the deepest level one child reads the source instead, if it fits. The answer says which of the two it was.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from rlm.accounting.run_context import RunContext
from rlm.children.child_answers import failure, total_cost
from rlm.children.child_calls import ChildCalls, SharedAnswers, as_known, share_answer
from rlm.errors import BudgetExhausted, JournalError, RLMError, cause_of
from rlm.events import SubRLMStarted
from rlm.playback.border import call_digest, changed_fields
from rlm.playback.recording import Recording
from rlm.prompts import is_not_found
from rlm.prompts.templates import table
from rlm.results import RunResult, Usage
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.protocol import AnswerSink
from rlm.sandbox.types import ChildAnswer, ChildBatch, ChildSlice, Span, SubRLMBatch

__all__ = ["SubRunResult", "SubRuns"]

_PROMPT_SHOWN = 200
_NAME_CHARS = 12


@dataclass(frozen=True, slots=True)
class SubRunResult:
    """How a sub-RLM ended: its result, or the error that ended it. `usage` is that of all its calls and of
    those below it. `evidence` are its verified citations, in the parent's body."""

    outcome: RunResult | RLMError | SandboxError
    usage: tuple[Usage, ...] = ()
    evidence: tuple[Span, ...] = ()


Descend = Callable[[str, ChildSlice | None, str, str, Recording | None], Awaitable[SubRunResult]]
"""Runs a sub-RLM to its end, given its prompt, its source, its name in the journal, the name of the sub-model
that is its root ("" for the model of this root), and what the journal holds of it if it has begun."""


class SubRuns:
    """The sub-RLMs of one run, which is at `depth` (the root: 0) and may go down to `max_depth`."""

    def __init__(
        self,
        descend: Descend,
        child_calls: ChildCalls,
        run_context: RunContext,
        recording: Recording,
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
        self._answers: SharedAnswers = {}
        self.restore(recording)

    def restore(self, recording: Recording) -> None:
        """Go on from what the journal holds: the sub-RLMs of the cell that is run again are begun again under
        the same names, and go on where they stopped."""
        self._recording = recording
        self._begun = Counter(recording.begun)

    async def ask_all(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        """Run every sub-RLM of `batch` and pass on each answer as it comes. Raises BadCall, before any
        begins, if too few calls are left for all, or if there is no such sub-model."""
        if self._depth >= self._max_depth:
            await self._ask_children(batch, answered)
            return
        self._child_calls.models.named(batch.model)
        keys = [
            call_digest(prompt, source and source.pieces, batch.model)
            for prompt, source in zip(batch.prompts, batch.sources, strict=True)
        ]
        self._refuse_impossible(set(keys))

        def ask(position: int) -> Awaitable[ChildAnswer]:
            prompt, source, key = batch.prompts[position], batch.sources[position], keys[position]
            run = partial(self._run, prompt, source, batch.model, key)
            return share_answer(self._answers, key, run)

        slots = self._concurrency.kernels(self._depth + 1)
        await self._child_calls.collect(len(keys), ask, answered, slots)

    async def _ask_children(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        """Ask one child for each sub-RLM: the deepest level has no kernels."""
        try:
            children = ChildBatch(batch.prompts, batch.sources, model=batch.model)
            await self._child_calls.ask_all(children, answered)
        except BadCall as error:
            if error.type != "slice_too_large":
                raise
            words = table("feedback.toml")["forecast"]["depth"]
            message = words.format(depth=self._depth + 1, deepest=self._max_depth)
            raise BadCall("depth", message) from error

    def _refuse_impossible(self, keys: set[str]) -> None:
        # Known answers cost nothing. A sub-RLM that began before the run stopped is counted already.
        below = self._recording.below
        new = [
            key
            for key in keys
            if key not in self._answers
            and self._name(key) not in below
            and self._answer_of_an_earlier_cell(key) is None
        ]
        left = int(self._budget.remaining()["sub_calls"])
        if len(new) > left:
            words = table("feedback.toml")["forecast"]["sub_rlms"]
            raise BadCall("value", words.format(wanted=f"{len(new):,}", left=f"{left:,}"))

    def _name(self, key: str) -> str:
        """Return the name that the next sub-RLM of this key has in the journal."""
        start = key[:_NAME_CHARS]
        return f"{start}.{self._begun[start] + 1}"

    def _answer_of_an_earlier_cell(self, key: str) -> ChildAnswer | None:
        """Return the answer that the journal has from a cell that ended."""
        start = key[:_NAME_CHARS]
        names = (f"{start}.{number}" for number in range(1, self._recording.begun.get(start, 0) + 1))
        answers = self._recording.sub_answers
        return next((answers[name] for name in names if name in answers), None)

    async def _run(self, prompt: str, source: ChildSlice | None, model: str, key: str) -> ChildAnswer:
        if (earlier := self._answer_of_an_earlier_cell(key)) is not None:
            return as_known(earlier)
        name, depth = self._name(key), self._depth + 1
        self._begun[key[:_NAME_CHARS]] += 1
        if (known := self._recording.sub_answers.get(name)) is not None:
            return known
        self._observe(SubRLMStarted(depth, prompt[:_PROMPT_SHOWN]))
        try:
            # The run's limits bound a sub-RLM, and a clock of their own its cells.
            with waiting():
                begun = self._recording.part(name) if name in self._recording.below else None
                ended = await self._descend(prompt, source, name, model, begun)
        except JournalError:
            raise
        except (RLMError, SandboxError) as error:
            ended = SubRunResult(error)
        answer = _answer_of(ended)
        facts = {"name": name, "error": answer.error, "error_type": answer.error_type}
        given = None if answer.error is not None else changed_fields(answer)
        await self._log.append("sub_rlm_ended", {**facts, "answer": given})
        return answer


def _answer_of(ended: SubRunResult) -> ChildAnswer:
    """Convert the end of a sub-RLM to the answer that its parent's cell gets."""
    outcome = ended.outcome
    if not isinstance(outcome, RunResult):
        type_ = "limit" if isinstance(outcome, BudgetExhausted) else "rlm"
        answer = failure(type_, cause_of(outcome))
    elif outcome.answer is None:
        words = table("feedback.toml")["sub_rlm"]
        why = outcome.warnings[-1] if outcome.warnings else words["not_finalized"]
        answer = failure("no_answer", words["no_answer"].format(reason=outcome.stop_reason, why=why))
    elif isinstance(text := outcome.answer, str):
        answer = ChildAnswer(text, found=not is_not_found(text), evidence=ended.evidence)
    else:
        text = json.dumps(outcome.answer, ensure_ascii=False)
        answer = ChildAnswer(
            text, found=not is_not_found(text), value=outcome.answer, evidence=ended.evidence
        )
    return replace(
        answer,
        how="rlm",
        input_tokens=sum(one.input_tokens for one in ended.usage),
        output_tokens=sum(one.output_tokens for one in ended.usage),
        calls=sum(one.calls for one in ended.usage),
        cost_usd=total_cost(one.cost_usd for one in ended.usage),
    )
