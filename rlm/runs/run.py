"""One run, from its input to its result: its parts, put together for it alone."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rlm.accounting.budget import STOP_REASONS, Budget
from rlm.accounting.concurrency import ConcurrencyLimits
from rlm.accounting.coverage import Above, CoverageLedger
from rlm.accounting.metered_model import MeteredModel
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType
from rlm.answers.finalization import FinalizePolicy, Finalizer
from rlm.children.child_calls import ChildCalls
from rlm.children.run_input import ParentCoverage, RunInput
from rlm.children.sub_runs import SubRunResult, SubRuns
from rlm.children.tool_calls import ToolCalls
from rlm.driver.direct import answer_directly
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.loop import Driver, Outcome
from rlm.errors import BudgetExhausted, ModelError
from rlm.events import Event, KernelOpened, QuestionsRepeated, RunEnded, RunStarted, Warned
from rlm.playback.cursor import ReplayCursor
from rlm.playback.recording import Recording
from rlm.prompts import Budget as PromptBudget
from rlm.prompts import EarlierQuestion, HandleFacts, HelperDoc, RootInput
from rlm.prompts.recipes.root import PREVIEW_CHARS
from rlm.prompts.templates import table
from rlm.results import RunResult, Strategy
from rlm.runs.config import FROM_BELOW, RunConfig
from rlm.runs.replayed_run import ReplayedRun
from rlm.runs.resources import RunResources
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.in_kernel.helper_api.registry import HELPERS, Helper
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.types import ChildSlice, Span

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["Parent", "Run"]

_MAX_FROM_BELOW = 5
"""Warnings of sub-RLMs: there may be a thousand of them, each with numbers of its own."""


@dataclass(frozen=True, slots=True)
class Parent:
    """What is above a sub-RLM: a run, its books, and its ledger of coverage as seen from below. Above the
    parts of a job is the job, at depth -1."""

    run_context: RunContext
    coverage: Above
    depth: int


class Run:
    """One run: its parts, made for it alone. `recording` is what was had of it before. With a `parent` it is
    a sub-RLM: it spends from the same ledger, writes to the same log, and its strategy is always rlm.
    `earlier` are the questions before it in the same kernel, and `variables` what they left there."""

    def __init__(
        self,
        config: RunConfig,
        task: str,
        source: RunInput,
        log: RunLog,
        resources: RunResources,
        recording: Recording | None = None,
        *,
        answer_type: AnswerType | None = None,
        warnings: Sequence[str] = (),
        parent: Parent | None = None,
        earlier: Sequence[EarlierQuestion] = (),
        variables: Sequence[str] = (),
    ) -> None:
        self._config = config
        self._task = task
        self._source = source
        self._body = body = source.body
        self._log = log
        self._resources = resources
        self._ranking = resources.ranking(body)
        self._answer_type = answer_type
        self._earlier = tuple(earlier)
        self._variables = tuple(variables)
        # A default value of a signature may be a key.
        self._tools = [
            Helper(*log.redacted((tool.name, tool.signature, tool.summary))) for tool in config.tools.docs
        ]
        self._depth = 0 if parent is None else parent.depth + 1
        self._playback = playback = ReplayCursor(recording)
        self._began = time.monotonic()
        self.warnings = list(warnings)
        self._from_below = 0
        if parent is None:
            self._began -= playback.recording.spent.seconds
            self._budget = Budget(config.limits)
            self._metered = MeteredModel(
                self._budget, log, playback, config.tell, config.prices, remember=config.settings.cache
            )
            self._coverage = CoverageLedger(body.chars)
            concurrency = ConcurrencyLimits(config.limits.concurrency)
        else:
            self._budget = parent.run_context.budget.branch()
            self._metered = parent.run_context.metered.branch(self._budget, log, playback)
            self._coverage = CoverageLedger(body.chars, parent.coverage)
            concurrency = parent.run_context.concurrency
        self._run_context = RunContext(
            self._budget, self._metered, self._coverage, log, playback, concurrency, self._observe
        )
        self._child_calls = ChildCalls(
            config.sub_model,
            body,
            run_context=self._run_context,
            settings=replace(config.settings.child, concurrency=config.limits.concurrency),
        )
        self._sub_runs = SubRuns(
            self._descend,
            self._child_calls,
            self._run_context,
            depth=self._depth,
            deepest=config.limits.depth,
        )

    async def run(self) -> RunResult:
        """Direct first where that suits, then rounds."""
        try:
            return await self._run_strategy()
        except asyncio.CancelledError:
            self._config.tell(RunEnded("cancelled", time.monotonic() - self._began))
            await self._log.append("interrupted", {"stop_reason": "cancelled", **self._totals()})
            raise
        finally:
            await self._ranking.aclose()

    async def run_as_part(self) -> RunResult:
        """As a part of a job, which writes down its end."""
        try:
            return await self._run_strategy()
        finally:
            self._budget.close()
            await self._ranking.aclose()

    async def _run_strategy(self) -> RunResult:
        if self._config.first_strategy(self._body, self._earlier) == "direct":
            result = await self._direct()
            if result is not None:
                return result
        return await self._recursive()

    async def run_as_child(self) -> RunResult:
        """As a sub-RLM: rounds alone, and nothing told of its end but its result."""
        try:
            return await self._recursive()
        finally:
            self._budget.close()
            await self._ranking.aclose()

    async def _descend(self, prompt: str, source: ChildSlice | None, name: str) -> SubRunResult:
        """Run a sub-RLM over a source in this body."""
        from rlm.journal import PartLog

        log = PartLog(self._log, name)
        recording = self._playback.part(name)
        if name not in self._playback.recording.below:
            # It counts as one child call; what it asks itself is counted apart.
            self._budget.settle(self._budget.reserve(tokens=0, cost_usd=0.0), tokens=0, cost_usd=0.0)
            await log.append("sub_rlm", {"depth": self._depth + 1, "prompt": prompt})
        folder = self._resources.folder / f"sub-{name}-{time.monotonic_ns()}"
        inner = await self._source.part(source, folder)
        try:
            run = Run(
                self._config.below(self._observe),
                prompt,
                inner,
                log,
                replace(self._resources, kernels=self._config.fresh_kernels(), kernel=None),
                recording,
                parent=Parent(
                    self._run_context, ParentCoverage(self._coverage, inner.stretches), self._depth
                ),
            )
            result = await run.run_as_child()
        finally:
            inner.body.close()
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        cited = [
            Span(one.start, one.end)
            for one in result.citations
            if one.verified and one.start is not None and one.end is not None
        ]
        return SubRunResult(result, tuple(inner.stretches.above(cited)), *run.tokens)

    async def _direct(self) -> RunResult | None:
        """None when the run goes on as an RLM."""
        self._config.tell(RunStarted(self._log.run_id, "direct", self._config.model.name))
        stop: Outcome
        try:
            answer = await answer_directly(
                self._config.model,
                self._task,
                self._body,
                run_context=self._run_context,
                settings=self._config.settings.direct,
                answer_type=self._answer_type,
                earlier=self._earlier,
            )
        except ModelError as error:
            stop = Outcome(None, "model", detail=str(error))
        except BudgetExhausted as error:
            stop = Outcome(None, STOP_REASONS[error.limit], detail=str(error))
        else:
            if answer is not None:
                return self._finished(Outcome(answer, "finalized"), "direct")
            if self._config.settings.strategy == "auto":
                abstained = "the direct answer abstained or its quotes did not stand: went on as an RLM"
                self.warn(abstained)
                await self._log.append("warning", {"message": abstained})
                return None
            stop = Outcome(
                None,
                "finalized",
                detail="the direct call gave no answer whose quotes stand in the input; try --strategy rlm",
            )
        return self._finished(stop, "direct")

    async def _recursive(self) -> RunResult:
        config = self._config
        config.tell(RunStarted(self._log.run_id, "rlm", config.model.name))
        handler = self._handler(FinalizePolicy(looked_before=bool(self._earlier)))

        def new_sandbox() -> Sandbox:
            if self._resources.kernel is not None:
                return self._resources.kernel.seat(
                    handler,
                    self._body.chars,
                    opened=self._kernel_opened,
                    repeating=lambda questions: self._config.tell(QuestionsRepeated(questions)),
                    changed=self._past_changed,
                )
            return JupyterSandbox(
                self._source.context,
                handler,
                opened=self._kernel_opened,
                seed=f"{self._log.run_id}:{self._depth}{self._log.within}",
                kernels=self._resources.kernels,
                window=self._source.window,
                tools=self._tools,
            )

        driver = Driver(
            config.model,
            self._task,
            new_sandbox=new_sandbox,
            child_calls=self._child_calls,
            handler=handler,
            run_context=self._run_context,
            settings=config.settings.root,
            summary_model=config.summary_model,
            rewind=self._rewind,
        )
        return self._finished(await driver.run(self._root_input()), "rlm")

    def again(self) -> ReplayedRun:
        """This run, which has ended, to be gone through in a kernel that a later one is given."""
        # Refusals come from the journal: every other `finalize` was accepted.
        return ReplayedRun(
            self._handler(FinalizePolicy(last_round=True, looked_before=True)),
            self._body.chars,
            self._run_context,
            self._config.settings.root.contract,
            self._config.limits.cell_seconds,
        )

    async def aclose(self) -> None:
        """Give up what it holds, when it is not `go` that ends it."""
        await self._ranking.aclose()

    def _handler(self, policy: FinalizePolicy) -> RunHandler:
        return RunHandler(
            self._child_calls,
            self._sub_runs,
            ToolCalls(self._config.tools, self._run_context),
            Finalizer(self._body, self._coverage, self._answer_type),
            self._ranking,
            self._run_context,
            policy,
        )

    @property
    def tokens(self) -> tuple[int, int]:
        """Of a sub-RLM: tokens in and out, those below it included."""
        return self._metered.branch_tokens

    def _rewind(self) -> None:
        self._child_calls.rewind()
        self._sub_runs.rewind()

    def _past_changed(self, question: int, rounds: list[int]) -> None:
        self.warn(
            f"when the blocks of question {question} were run again in a new kernel, not all came out "
            f"as before: rounds {', '.join(map(str, rounds))}"
        )

    def _kernel_opened(self, isolation: IsolationReport) -> None:
        missing = "; ".join(f"{layer} ({reason})" for layer, reason in isolation.failed.items())
        self._config.tell(KernelOpened(isolation.level, missing))
        if isolation.level < 2:
            why = f": this machine refuses {missing}" if missing else ""
            held = "not isolated" if isolation.level == 0 else "only partly isolated"
            said = f"the code of this run was {held} (level {isolation.level}){why}"
            if said not in self.warnings:  # a kernel after one that died says the same
                self.warnings.append(said)

    def _root_input(self) -> RootInput:
        body = self._body
        limits = self._config.limits
        settings, window = self._config.settings.root, self._config.model.window
        child_tokens = self._config.settings.child.prompt_tokens
        return RootInput(
            task=self._task,
            helpers=tuple(HelperDoc(helper.call, helper.summary, helper.fields) for helper in HELPERS),
            earlier=self._earlier,
            variables=self._variables,
            tools=tuple(HelperDoc(tool.call, tool.summary) for tool in self._tools),
            handle=HandleFacts(
                chars=body.chars,
                lines=body.lines,
                documents=len(body.documents),
                document_names=tuple(document.name for document in body.documents[:20]),
                preview=body.text(0, PREVIEW_CHARS),
                tail_preview=body.text(max(0, body.chars - PREVIEW_CHARS), body.chars),
            ),
            limits=tuple(
                (
                    name,
                    words.format(
                        rounds=limits.rounds,
                        sub_calls=f"{limits.sub_calls:,}",
                        child_tokens=f"{child_tokens:,}",
                        cell_seconds=f"{limits.cell_seconds:g}",
                        seconds=f"{limits.seconds:g}",
                    ),
                )
                for name, words in table("root.toml")["limits"].items()
            ),
            output_limit=settings.output_limit,
            contract=settings.contract,
            answer_schema=None if self._answer_type is None else self._answer_type.text,
            model=self._config.model.name,
            budget=PromptBudget(window.context - min(settings.output_tokens, window.output)),
        )

    def _finished(self, outcome: Outcome, strategy: Strategy) -> RunResult:
        if not self._budget.cost_known and not self._depth:
            unknown = [one.model for one in self._metered.usage() if one.cost_usd is None]
            self.warn(
                f"the price of {' and '.join(unknown) or 'a model'} is not known: the cost limit was not "
                "held, the token limit was (rlm.toml takes prices of your own, also 0)"
            )
        if self._from_below > _MAX_FROM_BELOW and not self._depth:
            more = self._from_below - _MAX_FROM_BELOW
            self.warn(f"{more:,} more warnings of sub-RLMs: rlm show {self._log.run_id}")
        if outcome.answer is None and outcome.detail:
            self.warn(outcome.detail)
        answer = outcome.answer
        for warning in () if answer is None else answer.warnings:
            self.warn(warning)
        result = RunResult(
            run_id=self._log.run_id,
            answer=None if answer is None else answer.value,
            confidence=None if answer is None else answer.confidence,
            stop_reason=outcome.stop_reason,
            forced=outcome.forced,
            strategy=strategy,
            citations=() if answer is None else answer.citations,
            coverage=self._coverage.report(),
            usage=self._metered.usage(),
            rounds=self._budget.rounds,
            sub_calls=self._child_calls.calls,
            seconds=round(time.monotonic() - self._began, 3),
            warnings=tuple(self.warnings),
            variables=outcome.variables,
            parsed=None
            if answer is None or self._answer_type is None
            else self._answer_type.parsed(answer.value),
        )
        self._config.tell(RunEnded(result.stop_reason, result.seconds))
        return result

    async def log_result(self, result: RunResult) -> None:
        """The last entry of the run. Raises JournalError."""
        await self._log.append("finished", {**result.to_json(), **self._totals()})

    def warn(self, message: str) -> None:
        self._observe(Warned(message))

    def _observe(self, event: Event) -> None:
        """What any part says goes to whoever watches; a warning into the result, too, and once."""
        if isinstance(event, Warned):
            if event.message in self.warnings:
                return
            if event.message.startswith(FROM_BELOW):
                self._from_below += 1
                if self._from_below > _MAX_FROM_BELOW:
                    return
            self.warnings.append(event.message)
        self._config.tell(event)

    def _totals(self) -> dict[str, Any]:
        return {
            "rounds": self._budget.rounds,
            "sub_calls": self._child_calls.calls,
            "cost_usd": self._metered.cost_usd,
        }
