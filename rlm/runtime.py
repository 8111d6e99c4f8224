"""RLM: the public class. It puts a run together from its parts, and gives back what came of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prompts import Budget as PromptBudget
from prompts import HandleFacts, HelperDoc, RootInput
from rlm.accounts import Accounts
from rlm.answer_type import AnswerType
from rlm.budget import STOP_REASONS, Budget, Limits
from rlm.calls import Caller
from rlm.coverage import CoverageLedger
from rlm.direct import DirectSettings, answer_directly, fits
from rlm.documents import Guessed, Loaded, Skipped, Source, default_cache
from rlm.driver import Driver, Outcome, RootSettings
from rlm.errors import BudgetExhausted, JournalError, ModelError, UsageError
from rlm.events import (
    ContextLoaded,
    Event,
    KernelOpened,
    Observer,
    Resumed,
    Retrying,
    RunEnded,
    RunFinished,
    RunStarted,
    Warned,
)
from rlm.finalization import Finalizer
from rlm.handler import RunHandler
from rlm.models import Model, ModelOptions, resolve
from rlm.models.facts import ModelFacts
from rlm.models.prices import Prices
from rlm.plan import RunPlan, plan_run
from rlm.playback import Playback
from rlm.recording import Recording
from rlm.resume import LeftRun, input_to_keep, restored, source_facts
from rlm.retrieval import IndexCache, default_index_cache
from rlm.retrieval.ranking import Ranking
from rlm.subcalls import ChildSettings, SubCalls
from rlm.telemetry import log_event, run_spans
from rlm.types import RunResult, Strategy
from rlm.workspace import Workspace
from sandbox.in_kernel.body import Body
from sandbox.in_kernel.registry import HELPERS
from sandbox.isolation.policy import IsolationReport
from sandbox.kernel import JupyterSandbox, SandboxLevel
from sandbox.kernel_process import FreshKernels
from sandbox.pool import KernelPool
from sandbox.sandbox import Sandbox
from sandbox.types import KernelLimits

if TYPE_CHECKING:
    from rlm.journal import Journal, RunLog

__all__ = ["RLM", "Context", "Settings"]

Context: TypeAlias = str | Path | Source | Sequence[str | Path | Source]
"""A text, a path (file or folder), or a list of these."""

_WARM_AFTER: Mapping[str, float | None] = {"rlm": 0.0, "auto": 0.2, "direct": None}
"""Seconds of loading after which a kernel is started beside it. Under "auto", what is loaded sooner is mostly
short enough to be answered directly, without a kernel."""
_PREVIEW = 500
_GUESSES_SHOWN = 3
_DOCUMENTS_TOLD = 20
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION")


@dataclass(frozen=True, slots=True)
class Settings:
    """How runs go about their work. Each field's own type says what it holds.

    sandbox: the isolation level, or "auto" for the strongest there is; store: the journal's file or URL
    (None: the user's state folder), which loses its oldest finished runs when it takes more than store_mb
    megabytes; document_cache: whether the text of large files is kept from run to run in the user's cache
    folder; cache: children's answers are taken from earlier runs in the store, where the call is the same;
    facts: windows and prices by model name, which go before the shipped.
    """

    strategy: Literal["auto", "rlm", "direct"] = "auto"
    sandbox: SandboxLevel = "auto"
    store: Path | str | None = None
    document_cache: bool = True
    store_mb: int = 2_048
    cache: bool = False
    root: RootSettings = field(default_factory=RootSettings)
    child: ChildSettings = field(default_factory=ChildSettings)
    direct: DirectSettings = field(default_factory=DirectSettings)
    kernel: KernelLimits = field(default_factory=KernelLimits)
    models: ModelOptions = field(default_factory=ModelOptions)
    facts: Mapping[str, ModelFacts] = field(default_factory=dict)


class RLM:
    """Answers questions over contexts of any size.

    model and sub_model are names (`openai:gpt-5`, `extractive`, …) or models; None takes the one whose key
    is set, else `extractive`, which needs none; sub_model None is the model. summary_model (None: sub_model)
    folds rounds when they near the root's window. Raises ConfigurationError.
    observe is called (or each of several are) with every Event of every run, from the event loop.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        sub_model: str | Model | None = None,
        summary_model: str | Model | None = None,
        limits: Limits | None = None,
        settings: Settings | None = None,
        observe: Observer | Sequence[Observer] = (),
    ) -> None:
        self.limits = limits or Limits()
        self.settings = settings or Settings()
        self._observers: list[Observer] = [observe] if callable(observe) else list(observe)
        self.model = self._resolved(model)
        self.sub_model = self.model if sub_model is None else self._resolved(sub_model)
        self.summary_model = self.sub_model if summary_model is None else self._resolved(summary_model)

    async def run(self, task: str, context: Context, *, schema: Any = None) -> RunResult:
        """Answer `task` over `context`. `schema` is what the answer must be: a pydantic model (or another
        type that pydantic takes), whose instance is then in `result.parsed`, or a JSON Schema. Raises
        UsageError (sources, settings, no room) and SandboxRefused before anything is spent, JournalError
        when the run can't be recorded; limits, broken contracts and failing models end in a result that
        says so. It can be cancelled at any time, also while it loads, and leaves nothing in the temp
        folder."""
        if not task.strip():
            raise UsageError("the question is empty: say what is to be answered")
        answer_type = None if schema is None else AnswerType(schema)
        if answer_type is not None and self.model.name == "extractive" and not answer_type.is_text:
            raise UsageError("extractive answers in plain text: choose a model for an answer of a given type")
        result: RunResult | None = None
        try:
            async with AsyncExitStack() as stack:
                run = await self._watched(log_event, run_spans())._prepared(task, context, stack, answer_type)
                result = await run.go()
                await run.log_result(result)
        except JournalError as error:
            # The one place where a broken journal is forgiven: the answer is there and paid for, only its
            # last entry (or the closing of the journal) failed. Before that a run must not go on unrecorded.
            if result is None:
                raise
            return replace(result, warnings=(*result.warnings, f"the end of this run is not kept: {error}"))
        return result

    async def _prepared(
        self, task: str, context: Context, stack: AsyncExitStack, answer_type: AnswerType | None
    ) -> _Run:
        """A run that can go; `stack` closes what it stands on."""
        from rlm.journal import new_run_id

        workspace = stack.enter_context(Workspace())
        kernels = self._kernels()
        stack.push_async_callback(kernels.close)
        began = time.monotonic()
        sources = _sources(context)
        cache = default_cache(os.environ) if self.settings.document_cache else None
        with _soon(kernels.warm, _WARM_AFTER.get(self.settings.strategy)):
            loaded = await workspace.load(sources, cache=cache)
        self._tell(
            ContextLoaded(
                loaded.context.chars,
                len(loaded.context.documents),
                len(loaded.skipped),
                time.monotonic() - began,
            )
        )
        journal = await stack.enter_async_context(self._journal())
        removed = await journal.prune(most_bytes=self.settings.store_mb << 20)
        facts = {
            **self._facts(loaded),
            "sources": source_facts(sources),
            "warnings": _warnings_of(loaded),
            "answer_schema": None if answer_type is None else answer_type.text,
        }
        kept = input_to_keep(journal, loaded.context.folder, facts["sources"])
        log = await stack.enter_async_context(journal.run(new_run_id(), task, facts, input=kept))
        body = stack.enter_context(Body.open(loaded.context.folder))
        run = _Run(
            self, task, loaded, body, log, kernels, self._ranking(body, workspace), answer_type=answer_type
        )
        if removed:
            run.warn(_pruned(removed, self.settings.store_mb))
        return run

    async def resume(self, run: str) -> RunResult:
        """Go on with a run that was left (killed, interrupted, or failed by its provider) from the last event
        in its journal; `run` is its name, or the start of it. Its limits and settings hold, these models
        answer. What is journalled is neither asked nor paid again; blocks are run again in a new kernel. The
        result of a run that has ended is given as it was. Raises JournalError, and UsageError when its models
        are others or its input is not to be had as it was; else as `run`."""
        result: RunResult | None = None
        try:
            async with AsyncExitStack() as stack:
                journal = await stack.enter_async_context(self._journal())
                left = await LeftRun.read(journal, run)
                if left.result is not None:
                    return left.result
                rlm = self.as_of(left)
                workspace = stack.enter_context(Workspace())
                loaded = await left.load(journal, workspace)
                log = await stack.enter_async_context(journal.resume(left.run_id))
                # Read after it has become ours: another process may have gone on with it meanwhile.
                left = replace(left, events=await log.events())
                result = await rlm._watched(log_event, run_spans()).go_through(left, loaded, log, workspace)
        except JournalError as error:
            if result is None:
                raise
            return replace(result, warnings=(*result.warnings, f"the end of this run is not kept: {error}"))
        return result

    async def go_through(self, left: LeftRun, loaded: Loaded, log: RunLog, workspace: Workspace) -> RunResult:
        """Take a run up where its recording ends, writing to `log`. For `resume` and `rlm.replay`."""
        recording = left.recording()
        async with AsyncExitStack() as stack:
            kernels = self._kernels()
            stack.push_async_callback(kernels.close)
            body = stack.enter_context(loaded.context.open())
            run = _Run(
                self,
                left.task,
                loaded,
                body,
                log,
                kernels,
                self._ranking(body, workspace),
                recording,
                answer_type=left.answer_type,
            )
            run.warnings[:] = left.facts["warnings"]
            replies = sum(map(len, recording.replies.values()))
            self._tell(Resumed(left.run_id, len(recording.rounds), replies))
            result = await run.go()
            await run.log_result(result)
        return result

    def as_of(self, left: LeftRun) -> RLM:
        """These models under the limits and settings of a run. Raises UsageError when it had others."""
        facts = left.facts
        for asked, model in (("model", self.model), ("sub_model", self.sub_model)):
            if facts[asked] != model.name:
                raise UsageError(
                    f"run {left.run_id} was begun with {asked} {facts[asked]}, not {model.name}: give that"
                )
        other = copy(self)
        other.limits = restored(Limits, facts["limits"])
        other.settings = replace(
            self.settings,
            strategy=facts["strategy"],
            cache=facts["cache"],
            root=restored(RootSettings, facts["root"]),
            child=restored(ChildSettings, facts["child"]),
            direct=restored(DirectSettings, facts["direct"]),
            kernel=restored(KernelLimits, facts["kernel"]),
        )
        return other

    @asynccontextmanager
    async def _journal(self) -> AsyncIterator[Journal]:
        # The database library takes a third of a second: `import rlm` must not.
        from rlm.journal import Journal, default_store

        async with Journal.open(self.settings.store or default_store(os.environ)) as journal:
            journal.redact(_secrets(os.environ))
            yield journal

    async def plan(self, context: Context) -> RunPlan:
        """What a run over `context` would about take. Loads it, asks no model, opens no kernel, keeps
        nothing. Raises UsageError."""
        with Workspace() as workspace:
            loaded = await workspace.load(_sources(context))
            with Body.open(loaded.context.folder) as body:
                return plan_run(
                    self.model,
                    self.sub_model,
                    body,
                    strategy="direct" if self._begins_directly(body) else "rlm",
                    limits=self.limits,
                    prompt_tokens=self.settings.child.prompt_tokens,
                    prices=Prices(self.settings.facts),
                )

    def _begins_directly(self, body: Body) -> bool:
        strategy = self.settings.strategy
        return strategy == "direct" or (strategy == "auto" and fits(self.model, body, self.settings.direct))

    async def stream(self, task: str, context: Context, *, schema: Any = None) -> AsyncIterator[Event]:
        """The events of a run as they happen; the last is RunFinished, with the result. Raises what `run`
        raises. Whoever stops listening cancels the run: close the iterator (`contextlib.aclosing`) or let
        its task end."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        own = self._watched(events.put_nowait)
        running = asyncio.ensure_future(own.run(task, context, schema=schema))
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield RunFinished(await running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def run_sync(self, task: str, context: Context, *, schema: Any = None) -> RunResult:
        """`run` for callers without an event loop. In one (a notebook) raises UsageError: await `run`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(task, context, schema))
        raise UsageError("run_sync was called inside an event loop (a notebook?): use `await rlm.run(...)`")

    async def _run_and_close(self, task: str, context: Context, schema: Any) -> RunResult:
        try:
            return await self.run(task, context, schema=schema)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the models' connections. The object may be used again."""
        models = (self.model, self.sub_model, self.summary_model)
        for model in {id(model): model for model in models}.values():
            await model.aclose()

    def _resolved(self, model: str | Model | None) -> Model:
        if model is not None and not isinstance(model, str):
            return model
        options = replace(
            self.settings.models,
            concurrency=self.limits.concurrency,
            on_retry=lambda attempt, wait, reason: self._tell(Retrying(attempt, wait, reason)),
        )
        store = self.settings.store
        resolved = resolve(model, os.environ, options, store=store)
        facts = self.settings.facts.get(resolved.name)
        window = None if facts is None else facts.window_beside(resolved.window)
        if window is None:
            return resolved
        return resolve(model, os.environ, replace(options, window=window), store=store)

    def _watched(self, *observers: Observer | None) -> RLM:
        """The same with more observers, for one run alone."""
        other = copy(self)
        other._observers = [*self._observers, *(observer for observer in observers if observer is not None)]
        return other

    def _ranking(self, body: Body, workspace: Workspace) -> Ranking:
        # Where the user's cache folder is not to be used, or can't be, the index lives as long as the run.
        own = IndexCache(workspace.folder / "index")
        kept = (IndexCache(default_index_cache(os.environ)),) if self.settings.document_cache else ()
        return Ranking(body, self._tell, (*kept, own))

    def _kernels(self) -> KernelPool:
        """The kernels of one run, with a spare that is started beside something else: loading, or a round."""
        source = FreshKernels(
            self.settings.kernel,
            level=self.settings.sandbox,
            # Cells that this product wrote itself may run anywhere: the answer must come without set-up.
            minimum=0 if self.model.name == "extractive" else 2,
        )
        return KernelPool(2, source=source)

    def _tell(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)

    def _facts(self, loaded: Loaded) -> dict[str, Any]:
        """What the journal keeps of the settings: no secret is among them."""
        return {
            "model": self.model.name,
            "sub_model": self.sub_model.name,
            "summary_model": self.summary_model.name,
            "limits": asdict(self.limits),
            "strategy": self.settings.strategy,
            "sandbox": self.settings.sandbox,
            "contract": self.settings.root.contract,
            "cache": self.settings.cache,
            "root": asdict(self.settings.root),
            "child": asdict(self.settings.child),
            "direct": asdict(self.settings.direct),
            "kernel": asdict(self.settings.kernel),
            "windows": {
                "model": asdict(self.model.window),
                "sub_model": asdict(self.sub_model.window),
            },
            "context_sha256": loaded.context.sha256,
            "context_chars": loaded.context.chars,
            "documents": len(loaded.context.documents),
        }


class _Run:
    """One run: its parts, made for it alone. `recording` is what was had of it before."""

    def __init__(
        self,
        rlm: RLM,
        task: str,
        loaded: Loaded,
        body: Body,
        log: RunLog,
        kernels: KernelPool,
        ranking: Ranking,
        recording: Recording | None = None,
        *,
        answer_type: AnswerType | None = None,
    ) -> None:
        self._rlm = rlm
        self._task = task
        self._loaded = loaded
        self._body = body
        self._log = log
        self._kernels = kernels
        self._ranking = ranking
        self._answer_type = answer_type
        playback = Playback(recording)
        self._began = time.monotonic() - playback.recording.spent.seconds
        self.warnings = _warnings_of(loaded)
        self._budget = Budget(rlm.limits)
        prices = Prices(rlm.settings.facts)
        self._caller = Caller(self._budget, log, playback, rlm._tell, prices, remember=rlm.settings.cache)
        self._coverage = CoverageLedger(body.chars)
        self._accounts = Accounts(self._budget, self._caller, self._coverage, log, playback, self._observe)
        self._finalizer = Finalizer(body, self._coverage, answer_type)
        self._subcalls = SubCalls(
            rlm.sub_model,
            body,
            accounts=self._accounts,
            settings=replace(rlm.settings.child, concurrency=rlm.limits.concurrency),
        )

    async def go(self) -> RunResult:
        """Direct first where that suits, then rounds."""
        try:
            if self._rlm._begins_directly(self._body):
                result = await self._direct()
                if result is not None:
                    return result
            return await self._recursive()
        except asyncio.CancelledError:
            self._rlm._tell(RunEnded("cancelled", time.monotonic() - self._began))
            await self._log.append("interrupted", {"stop_reason": "cancelled", **self._totals()})
            raise

    async def _direct(self) -> RunResult | None:
        """None when the run goes on as an RLM."""
        self._rlm._tell(RunStarted(self._log.run_id, "direct", self._rlm.model.name))
        stop: Outcome
        try:
            answer = await answer_directly(
                self._rlm.model,
                self._task,
                self._body,
                accounts=self._accounts,
                settings=self._rlm.settings.direct,
                answer_type=self._answer_type,
            )
        except ModelError as error:
            stop = Outcome(None, "model", detail=str(error))
        except BudgetExhausted as error:
            stop = Outcome(None, STOP_REASONS[error.limit], detail=str(error))
        else:
            if answer is not None:
                return self._finished(Outcome(answer, "finalized"), "direct")
            if self._rlm.settings.strategy == "auto":
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
        rlm = self._rlm
        rlm._tell(RunStarted(self._log.run_id, "rlm", rlm.model.name))
        handler = RunHandler(self._subcalls, self._finalizer, self._ranking, self._accounts)

        def new_sandbox() -> Sandbox:
            return JupyterSandbox(
                self._loaded.context,
                handler,
                opened=self._kernel_opened,
                seed=f"{self._log.run_id}:0",
                kernels=self._kernels,
            )

        driver = Driver(
            rlm.model,
            self._task,
            new_sandbox=new_sandbox,
            subcalls=self._subcalls,
            finalizer=self._finalizer,
            accounts=self._accounts,
            settings=rlm.settings.root,
            summary_model=rlm.summary_model,
        )
        try:
            return self._finished(await driver.run(self._root_input()), "rlm")
        finally:
            await self._ranking.aclose()

    def _kernel_opened(self, isolation: IsolationReport) -> None:
        missing = "; ".join(f"{layer} ({reason})" for layer, reason in isolation.failed.items())
        self._rlm._tell(KernelOpened(isolation.level, missing))
        if isolation.level < 2:
            why = f": this machine refuses {missing}" if missing else ""
            held = "not isolated" if isolation.level == 0 else "only partly isolated"
            self.warnings.append(f"the code of this run was {held} (level {isolation.level}){why}")

    def _root_input(self) -> RootInput:
        body = self._body
        limits = self._rlm.limits
        settings = self._rlm.settings.root
        return RootInput(
            task=self._task,
            helpers=tuple(HelperDoc(helper.call, helper.summary, helper.fields) for helper in HELPERS),
            handle=HandleFacts(
                chars=body.chars,
                lines=body.lines,
                documents=len(body.documents),
                document_names=tuple(document.name for document in body.documents[:20]),
                preview=body.text(0, _PREVIEW),
                tail_preview=body.text(max(0, body.chars - _PREVIEW), body.chars),
            ),
            limits=(
                ("rounds", f"{limits.rounds} rounds, the last for finalize"),
                (
                    "children",
                    f"{limits.sub_calls:,} child calls of {self._rlm.settings.child.prompt_tokens:,} tokens",
                ),
                ("cell", f"{limits.cell_seconds:g} s of computing a block"),
                ("time", f"{limits.seconds:g} s in all"),
            ),
            output_limit=settings.output_limit,
            contract=settings.contract,
            answer_schema=None if self._answer_type is None else self._answer_type.text,
            model=self._rlm.model.name,
            budget=PromptBudget(self._rlm.model.window.context - settings.output_tokens),
        )

    def _finished(self, outcome: Outcome, strategy: Strategy) -> RunResult:
        if not self._budget.cost_known:
            self.warn("a model's price is not known: the cost limit was not held, the token limit was")
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
            usage=self._caller.usage(),
            rounds=self._budget.rounds,
            sub_calls=self._subcalls.calls,
            seconds=round(time.monotonic() - self._began, 3),
            warnings=tuple(self.warnings),
            variables=outcome.variables,
            parsed=None
            if answer is None or self._answer_type is None
            else self._answer_type.parsed(answer.value),
        )
        self._rlm._tell(RunEnded(result.stop_reason, result.seconds))
        return result

    async def log_result(self, result: RunResult) -> None:
        """The last entry of the run. Raises JournalError."""
        await self._log.append("finished", {**result.to_json(), **self._totals()})

    def warn(self, message: str) -> None:
        self._observe(Warned(message))

    def _observe(self, event: Event) -> None:
        """What any part says goes to whoever watches; a warning into the result, too."""
        if isinstance(event, Warned):
            self.warnings.append(event.message)
        self._rlm._tell(event)

    def _totals(self) -> dict[str, Any]:
        return {
            "rounds": self._budget.rounds,
            "sub_calls": self._subcalls.calls,
            "cost_usd": self._caller.cost_usd,
        }


def _pruned(removed: Sequence[str], most_mb: int) -> str:
    runs = "the oldest run was" if len(removed) == 1 else f"the {len(removed):,} oldest runs were"
    return f"the journal had passed {most_mb:,} MB (store_mb): {runs} removed from it"


@contextmanager
def _soon(act: Callable[[], object], seconds: float | None) -> Iterator[None]:
    """`act` is called if what goes on within takes longer than that; never for None."""
    if seconds is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(seconds, act)
    try:
        yield
    finally:
        timer.cancel()


def _sources(context: Context) -> list[str | Path | Source]:
    return [context] if isinstance(context, str | Path | Source) else list(context)


def _warnings_of(loaded: Loaded) -> list[str]:
    """What is to be said of the sources: what was left out of them, what could not be decoded."""
    warnings = _documents_told(loaded)
    skipped = [one for one in loaded.skipped if not one.remedy]
    if skipped:
        first = skipped[0]
        count = len(skipped)
        warnings.append(
            f"{count:,} {'source was' if count == 1 else 'sources were'} passed over "
            f"({Path(first.path).name} is {first.reason}{', …' if count > 1 else ''})"
        )
    if loaded.replaced:
        warnings.append(f"{loaded.replaced:,} bytes were no valid text and were replaced by U+FFFD")
    if loaded.guessed:
        warnings.append(_guesses(loaded.guessed))
    return warnings


def _documents_told(loaded: Loaded) -> list[str]:
    """A line for each document that could not be read, or not wholly, with the remedy; bounded."""
    broken: list[Skipped] = [one for one in loaded.skipped if one.remedy]
    lines = [f"{one.path} was passed over, it is {one.reason}: {one.remedy}" for one in broken]
    lines += loaded.notes
    if len(lines) > _DOCUMENTS_TOLD:
        rest = len(lines) - _DOCUMENTS_TOLD
        lines[_DOCUMENTS_TOLD:] = [f"… and {rest:,} more documents that could not be read, or not wholly"]
    return lines


def _guesses(guessed: Sequence[Guessed]) -> str:
    """`3 documents were no UTF-8 and were read as cp1252 (notes.txt, …) and cp1251 (brief.txt)`."""
    by_encoding: dict[str, list[str]] = {}
    for guess in guessed:
        by_encoding.setdefault(guess.encoding, []).append(guess.document)
    readings = [
        f"{encoding} ({documents[0]}{', …' if len(documents) > 1 else ''})"
        for encoding, documents in by_encoding.items()
    ]
    subject = "1 document was" if len(guessed) == 1 else f"{len(guessed):,} documents were"
    verb = "was" if len(guessed) == 1 else "were"
    shown = " and ".join(readings[:_GUESSES_SHOWN])
    rest = len(readings) - _GUESSES_SHOWN
    return f"{subject} no UTF-8 and {verb} read as {shown}" + (
        f", and in {rest} other ways" if rest > 0 else ""
    )


def _secrets(environment: Mapping[str, str]) -> list[str]:
    """The values that must never be written down: whatever looks like a key in the environment."""
    return [
        value
        for name, value in environment.items()
        if any(word in name.upper() for word in _SECRET_WORDS) and value.strip()
    ]
