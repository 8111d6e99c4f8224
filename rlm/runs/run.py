"""Runs one question from its input to its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rlm.accounting.budget import STOP_REASONS, Budget, seconds_left
from rlm.accounting.coverage import Above, CoverageLedger
from rlm.accounting.run_context import ConcurrencyLimits, RunContext
from rlm.answers.absence import describe_unread, judge_absence
from rlm.answers.answer_type import AnswerType
from rlm.answers.finalization import CheckAnswer, FinalizePolicy, Finalizer
from rlm.children.child_calls import ChildCalls
from rlm.children.page_looks import PageLooks
from rlm.children.run_input import ParentCoverage, RunInput
from rlm.children.sub_runs import SubRunResult, SubRuns
from rlm.children.tool_calls import ToolCalls
from rlm.documents import FolderCache
from rlm.driver.direct import answer_directly, fits, no_answer
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.loop import Driver
from rlm.driver.map_reduce import MapReduce
from rlm.driver.outcome import Outcome
from rlm.driver.root_input import root_input
from rlm.driver.root_state import RootState
from rlm.errors import BudgetExhausted, JournalError, ModelError, RLMError
from rlm.events import (
    Event,
    KernelOpened,
    Resumed,
    RoundsFolded,
    RunEnded,
    RunStarted,
    Violated,
    Warned,
)
from rlm.journal import RunLog
from rlm.journal.checks import damage_reported
from rlm.models.base import is_extractive
from rlm.playback.border import Border
from rlm.playback.recording import (
    KERNEL_DIED,
    NOTHING_RECORDED,
    Recording,
    cut_reply,
    folded_history,
)
from rlm.prompts import EarlierQuestion
from rlm.results import Citation, RunResult, RunTotals, Strategy, Support
from rlm.retrieval.ranking import Ranking
from rlm.runs.config import RunConfig
from rlm.runs.notes import Notes, check_source, isolation_warning
from rlm.runs.shared_kernel import KernelLease, SharedKernel
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.host.watched_sandbox import watching
from rlm.sandbox.in_kernel.registry import Helper
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import ChildSlice, Span
from rlm.telemetry import span

__all__ = ["Parent", "Run", "RunOptions", "RunResources"]


@dataclass(frozen=True, slots=True)
class Parent:
    """The run above a sub-RLM. `coverage` is its coverage in the characters of the sub-RLM. The parent of a
    part of a job is the job, at depth -1."""

    run_context: RunContext
    coverage: Above
    depth: int


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The optional settings of a run.

    `recording` is what the journal holds of it. With a `parent` the run spends from the parent's
    budget and writes to the parent's log. `warnings` come from loading its input, and `unread` names the
    documents of it that were not read. `checks_support`: the claims of its answer are checked.
    """

    recording: Recording = NOTHING_RECORDED
    answer_type: AnswerType | None = None
    warnings: Sequence[str] = ()
    unread: Sequence[str] = ()
    parent: Parent | None = None
    checks_support: bool = True


@dataclass(frozen=True, slots=True)
class RunResources:
    """The resources of one run. `folder` is private and outlives the run. `ranking` makes the ranking of a
    body. `kernel` is the kernel that the run shares with earlier questions, if there are any."""

    folder: Path
    kernels: KernelSource
    ranking: Callable[[Body], Ranking]
    kernel: SharedKernel | None = None


_ENDS_DIRECT = frozenset({"model", *STOP_REASONS.values()})
"""Stop reasons of a direct call after which rounds would fail, too."""
_FALLS_BACK = frozenset({"contract_violation", "rounds"})
"""Stop reasons of rounds after which "auto" tries a strategy without code."""
_VIOLATIONS_BEFORE_FALLBACK = 2
_MAX_STRETCHES = 1_000
"""Pieces of a sub-RLM's source that the journal keeps, for its readers."""
_INDEX_BYTES = 32 * 2**20
"""Bytes of the indexes of a run's sources on the disk. The newest index may be larger."""


class Run:
    """One run and its parts, which serve this run only. RunOptions can make it a sub-RLM or a resumed run."""

    def __init__(
        self,
        config: RunConfig,
        task: str,
        input_: RunInput,
        log: RunLog,
        resources: RunResources,
        options: RunOptions,
    ) -> None:
        self.config = config
        self.input = input_
        self._task = task
        self._log = log
        self._resources = resources
        self._options = options
        self._kernel = resources.kernel
        self._earlier: list[EarlierQuestion] = []
        self._variables: tuple[str, ...] = ()
        self._session = log.run_id
        if self._kernel is not None:
            self._earlier = [one.question for one in self._kernel.past]
            self._variables, self._session = self._kernel.variables, self._kernel.first_run(log.run_id)
        self._depth = 0 if options.parent is None else options.parent.depth + 1
        self._ranking = resources.ranking(input_.body)
        # A default value in a tool's signature may be an API key.
        self._tools = [
            Helper(*log.redact((tool.name, tool.signature, tool.summary))) for tool in config.tools.docs
        ]
        self._kernels_opened = 0
        self._notes = Notes(options.warnings)
        self.run_context = self._new_context()
        with damage_reported(log.run_id):
            events = ((event.kind, event.data) for event in options.recording.events)
            self.state = RootState.of(events, config.settings.root.output_limit)
        self._looks = PageLooks(config.looking_model, input_)
        self._child_calls = ChildCalls(
            config.children,
            input_.body,
            run_context=self.run_context,
            settings=config.settings.child,
            looks=self._looks,
        )
        self._sub_runs = SubRuns(
            self._run_sub_rlm,
            self._child_calls,
            self.run_context,
            options.recording,
            depth=self._depth,
            max_depth=config.limits.max_depth,
        )
        self._finalizer = Finalizer(
            input_.body,
            self.run_context.coverage,
            options.answer_type,
            check_support=self._support_check(),
            task=task,
            # A part of a job and a sub-RLM give no answer to the caller.
            gate=config.gate if options.parent is None else None,
            sub_calls=lambda: self._child_calls.calls,
        )
        self.handler = RunHandler(
            self._child_calls,
            self._sub_runs,
            ToolCalls(config.tools, self.run_context),
            self._finalizer,
            self._ranking,
            self.run_context,
            FinalizePolicy(looked_before=bool(self._earlier)),
        )
        self._border = Border(self.handler)
        self._began = time.monotonic()
        if options.parent is None:
            self._began -= options.recording.spent.seconds

    def _new_context(self) -> RunContext:
        """Return the ledgers of this run: its own, or branches of the parent's."""
        config, log, options = self.config, self._log, self._options
        chars, recording = self.input.body.chars, options.recording
        if (parent := options.parent) is not None:
            above = parent.run_context
            budget = above.budget.branch()
            metered = above.metered.branch(budget, log, recording)
            coverage = CoverageLedger(chars, parent.coverage)
            context = RunContext(budget, metered, coverage, log, above.concurrency, self._observe)
        else:
            budget = Budget(config.limits)
            metered = config.metered(budget, log, recording)
            concurrency, coverage = ConcurrencyLimits(config.limits.concurrency), CoverageLedger(chars)
            context = RunContext(budget, metered, coverage, log, concurrency, self._observe)
            for kind, detail in recording.degradations.items():
                self._notes.add(Warned(detail, kind=kind))
        coverage.restore(recording)
        return context

    def _support_check(self) -> CheckAnswer | None:
        """Return the check of the answer's claims. The claims of a sub-RLM are not checked: its answer is
        material for the root. Nor are those of `extractive`, which quotes."""
        if self._depth > 0 or not self._options.checks_support or is_extractive(self.config.model):
            return None

        async def check(value: Any, citations: Sequence[Citation]) -> Support:
            # Imported once there is an answer: a first request does not wait for it.
            from rlm.answers.support.check import check_answer
            from rlm.answers.support.model_check import SupportModel

            config, model = self.config, None
            if config.settings.check_support and (one := config.summary_model) and not is_extractive(one):
                model = SupportModel(one, self.run_context)
            return await check_answer(value, citations, self.input.body, model)

        return check

    @property
    def recording(self) -> Recording:
        """Return what the journal held of the run when it was opened."""
        return self._options.recording

    async def run(self) -> RunResult:
        """Answer the task: by the strategy of the settings, but a sub-RLM in rounds. A part of a job and a
        sub-RLM leave it to what is above them to record their end."""
        log, is_part, is_sub_rlm = self._log, self._options.parent is not None, self._depth > 0
        facts = {"run_id": log.run_id, "model": self.config.model.name, "task": self._task}
        session, chars = None if is_part else self._session, self.input.body.chars
        try:
            with span("run", **facts, depth=self._depth, chars=chars, session=session) as note:
                result = await (self._answer_in_rounds() if is_sub_rlm else self._answer())
                note(result)
                return result
        except asyncio.CancelledError:
            if not is_part:
                self.config.tell(RunEnded("cancelled", time.monotonic() - self._began))
                await log.append("interrupted", {"stop_reason": "cancelled", **asdict(self._totals())})
            raise
        finally:
            if is_part:
                self.run_context.budget.close()
            await self.aclose()

    async def _answer(self) -> RunResult:
        first = self.config.first_strategy(
            self.input.body, self._earlier, self._task, looks=self._looks.are_possible
        )
        if first == "map-reduce":
            self.config.tell(RunStarted(self._log.run_id, first, self.config.model.name))
            return self._finish(await self._outcome_without_code(first), first)
        falls_back = self.config.settings.strategy == "auto"
        if first == "direct":
            result = await self._answer_directly()
            if result is not None:
                return result
            # The same call would give the same again.
            falls_back = False
        return await self._answer_in_rounds(falls_back=falls_back)

    async def _run_sub_rlm(
        self, prompt: str, source: ChildSlice | None, name: str, model: str, recording: Recording | None
    ) -> SubRunResult:
        """Run a sub-RLM over a source in this body."""
        log, budget = self._log.part(name), self.run_context.budget
        below = self._depth + 1
        folder = self._resources.folder / f"sub-{name}-{time.monotonic_ns()}"
        async with AsyncExitStack() as undo:
            async with seconds_left(budget):
                sub_input = await undo.enter_async_context(self.input.part(source, folder))
            if recording is None:
                # A sub-RLM counts as one child call. Its own calls are counted separately.
                budget.settle(budget.reserve(tokens=0, cost_usd=0.0), tokens=0, cost_usd=0.0)
                facts = {"depth": below, "prompt": prompt, "stretches": sub_input.stretches[:_MAX_STRETCHES]}
                await log.append("sub_rlm", {**facts, **({"model": model} if model else {})})
            coverage = ParentCoverage(self.run_context.coverage, sub_input)
            run = Run(
                self.config.for_sub_rlm(self._observe, model),
                prompt,
                sub_input,
                log,
                replace(
                    self._resources,
                    kernels=self.config.kernels_below(self._resources.kernels),
                    kernel=None,
                    ranking=self._ranking_of_a_source,
                ),
                RunOptions(
                    recording=recording or NOTHING_RECORDED,
                    parent=Parent(self.run_context, coverage, self._depth),
                ),
            )
            outcome: RunResult | RLMError | SandboxError
            try:
                outcome = await run.run()
            except JournalError:
                raise
            except (RLMError, SandboxError) as error:
                outcome = error
        citations = outcome.citations if isinstance(outcome, RunResult) else ()
        cited = [
            Span(one.start, one.end)
            for one in citations
            if one.verified and one.start is not None and one.end is not None
        ]
        usage = run.run_context.metered.branch_usage
        return SubRunResult(outcome, usage, tuple(sub_input.above(cited)))

    def _ranking_of_a_source(self, body: Body) -> Ranking:
        """Return the ranking of a sub-RLM's source. Its index is removed with the run: a cell may rank any
        number of sources, which must not fill the user's cache."""
        cache = FolderCache(self._resources.folder / "index-of-sources", _INDEX_BYTES)
        return Ranking(body, self.config.tell, (cache,))

    async def _answer_directly(self) -> RunResult | None:
        """Answer by one direct call. Return None if the run must continue as an RLM."""
        self.config.tell(RunStarted(self._log.run_id, "direct", self.config.model.name))
        outcome = await self._outcome_without_code("direct")
        ended = outcome.stop_reason in _ENDS_DIRECT
        if outcome.answer is None and not ended and self.config.settings.strategy == "auto":
            why = outcome.detail if outcome.stop_reason == "invalid_reply" else outcome.stop_reason
            abstained = f"the direct call gave no checked answer ({why}): continued as an RLM"
            self.run_context.metered.withdraw_answer()
            await self._note_degradation("direct_call", abstained)
            return None
        return self._finish(outcome, "direct")

    async def _answer_in_rounds(self, *, falls_back: bool = False) -> RunResult:
        config, options = self.config, self._options
        config.tell(RunStarted(self._log.run_id, "rlm", config.model.name))
        driver = Driver(
            config.model,
            self._task,
            new_sandbox=lambda: watching(self._new_sandbox(), self.input.body),
            child_calls=self._child_calls,
            handler=self.handler,
            border=self._border,
            state=self.state,
            restore_sub_rlms=self._sub_runs.restore,
            run_context=self.run_context,
            settings=config.settings.root,
            summary_model=config.summary_model,
            violations=min(config.limits.max_violations, _VIOLATIONS_BEFORE_FALLBACK)
            if falls_back
            else config.limits.max_violations,
        )
        prompt = root_input(
            self._task,
            self.input.body,
            config.model,
            config.limits,
            config.settings,
            config.children,
            config.prices,
            answer_type=options.answer_type,
            earlier=self._earlier,
            variables=self._variables,
            tools=self._tools,
            looks=self._looks.are_possible,
        )
        outcome = await driver.run(prompt)
        if falls_back and outcome.answer is None and outcome.stop_reason in _FALLS_BACK:
            return await self._answer_after(outcome)
        return self._finish(outcome, "rlm")

    async def _answer_after(self, ended: Outcome) -> RunResult:
        """Answer without code, after rounds that ended without an answer. If that fails, too, the run ends as
        its rounds did."""
        config, body = self.config, self.input.body
        short = fits(config.model, body, config.settings.direct, self._earlier)
        strategy: Strategy = "direct" if short else "map-reduce"
        message = f"the rounds gave no answer ({ended.detail}): fell back to {strategy}"
        await self._note_degradation("strategy", message)
        outcome = await self._outcome_without_code(strategy)
        if outcome.answer is None:
            self.warn(f"{strategy} gave no answer either: {outcome.detail}")
            return self._finish(ended, "rlm")
        return self._finish(outcome, strategy)

    async def _outcome_without_code(self, strategy: Strategy) -> Outcome:
        """Return the outcome of a direct call or of map-reduce. A failing model or a limit becomes its
        reason."""
        model, body, settings = self.config.model, self.input.body, self.config.settings.direct
        map_reduce = MapReduce(model, self._child_calls, body, self.run_context, settings)
        answer = map_reduce.answer
        if strategy == "direct":
            answer = partial(
                answer_directly, model, body=body, run_context=self.run_context, settings=settings
            )
        try:
            found = await answer(self._task, answer_type=self._options.answer_type, earlier=self._earlier)
        except ModelError as error:
            return Outcome(None, "model", detail=str(error))
        except BudgetExhausted as error:
            return Outcome(None, STOP_REASONS[error.limit], detail=error.cause)
        if found.answer is None:
            return found
        judged, refused = await self._finalizer.judge_direct(found.answer)
        return replace(found, answer=judged) if refused is None else no_answer("invalid_reply", refused)

    def _new_sandbox(self) -> Sandbox:
        if self._kernel is not None:
            return KernelLease(
                self._kernel,
                self._border,
                self.input.body.chars,
                self._log.run_id,
                on_open=self._note_kernel,
                on_replay=lambda questions: self.config.tell(Resumed(self._log.run_id, 0, 0, questions)),
                on_change=self._warn_about_changes,
            )
        return JupyterSandbox(
            self.input.context,
            self._border,
            on_open=self._note_kernel,
            seed=f"{self._log.run_id}:{self._depth}{self._log.within}",
            kernels=self._resources.kernels,
            window=self.input.window,
            tools=self._tools,
        )

    def _finish(self, outcome: Outcome, strategy: Strategy) -> RunResult:
        for change in check_source(self.input.body):
            self.warn(change)
        if outcome.answer is None:
            self.run_context.metered.withdraw_answer()
        result = self._result(outcome, strategy)
        if self._depth == 0:
            answer_type = self._options.answer_type
            gates = self._finalizer.gates(has_answer=result.answer is not None)
            result = replace(result, gates=gates, unread=tuple(self._options.unread))
            if is_extractive(self.config.model):
                from rlm.models.offline.extractive import with_status

                result = with_status(result, describe_unread(result))
            elif answer_type is None or answer_type.is_text:
                result = judge_absence(result)
            else:
                result = replace(result, found=result.answer is not None)
        self.config.tell(RunEnded(result.stop_reason, result.seconds))
        return result

    def _result(self, outcome: Outcome, strategy: Strategy) -> RunResult:
        """Return the result, after adding the last warnings to it."""
        context, answer, answer_type = self.run_context, outcome.answer, self._options.answer_type
        # Only the root warns about the whole tree.
        if self._depth == 0 and not context.budget.cost_known:
            unknown = [one.model for one in context.metered.usage() if one.cost_usd is None]
            self.warn(
                f"the price of {' and '.join(unknown) or 'a model'} is not known: the cost limit was not "
                "applied, only the token limit (rlm.toml takes prices of your own, also 0)",
                "cost_limit",
            )
        if self._depth == 0 and self._notes.dropped:
            self.warn(f"{self._notes.dropped:,} more warnings of sub-RLMs: rlm show {context.log.run_id}")
        if answer is None and outcome.detail:
            self.warn(outcome.detail)
        if self._depth == 0 and answer is not None and not self.input.body.chars:
            self.warn(
                "no text was given: the answer is the model's own knowledge, and nothing in it is verified"
            )
        for warning in () if answer is None else answer.warnings:
            self.warn(warning)
        return RunResult(
            run_id=context.log.run_id,
            answer=None if answer is None else answer.value,
            confidence=None if answer is None else answer.confidence,
            stop_reason=outcome.stop_reason,
            forced=outcome.forced,
            strategy=strategy,
            citations=() if answer is None else answer.citations,
            coverage=context.coverage.report(),
            usage=context.metered.usage(),
            rounds=context.budget.rounds,
            sub_calls=self._child_calls.calls,
            seconds=round(time.monotonic() - self._began, 3),
            notes=tuple(self._notes.kept),
            support=None if answer is None else answer.support,
            variables=outcome.variables,
            parsed=None if answer is None or answer_type is None else answer_type.parsed(answer.value),
        )

    async def aclose(self) -> None:
        """Release the resources of a run that was never started. The `run` methods do this themselves."""
        try:
            await self._looks.aclose()
        finally:
            await self._ranking.aclose()

    async def log_result(self, result: RunResult) -> None:
        """Write the last event of the run. Raises JournalError."""
        await self._log.append("finished", {**result.to_json(), **asdict(self._totals())})

    def warn(self, message: str, kind: str = "warning") -> None:
        """Add a note to the result and report it to the observers."""
        self._observe(Warned(message, kind=kind))

    async def _note_degradation(self, kind: str, message: str) -> None:
        """Warn that the run does without something, and record it for a resumed run."""
        self.warn(message, kind)
        await self._log.append("warning", {"message": message, "degradation": kind})

    def _observe(self, event: Event) -> None:
        """Pass an event of any part to the observers. Each warning is passed once."""
        if not isinstance(event, Warned) or self._notes.add(event):
            self.config.tell(event)
        match event:
            case RoundsFolded(last=last):
                self._note(*folded_history(last))
            case Violated(round=number, kind="truncated_reply"):
                self._note(*cut_reply(number))

    def _note(self, kind: str, detail: str) -> None:
        """Note what the observers know from another event, if it is not that of a sub-RLM."""
        if self._depth:
            self.warn(detail, kind)
        else:
            self._notes.add(Warned(detail, kind=kind))

    def _warn_about_changes(self, question: int, rounds: list[int]) -> None:
        self.warn(
            f"when the blocks of question {question} were run again in a new kernel, some results "
            f"changed: rounds {', '.join(map(str, rounds))}"
        )

    def _note_kernel(self, isolation: IsolationReport) -> None:
        self._kernels_opened += 1
        if self._kernels_opened > 1:
            self._note(*KERNEL_DIED)
        missing = "; ".join(f"{layer} ({reason})" for layer, reason in isolation.failed.items())
        self.config.tell(KernelOpened(isolation.level, missing))
        if isolation.level < 2:
            self._note("isolation", isolation_warning(isolation.level, missing))

    def _totals(self) -> RunTotals:
        return self.run_context.metered.totals(self.run_context.budget.rounds, self._child_calls.calls)
