"""RLM: the public class. It puts a run together from its parts, and gives back what came of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prompts import Budget as PromptBudget
from prompts import HandleFacts, HelperDoc, RootInput
from rlm.accounts import Accounts
from rlm.budget import STOP_REASONS, Budget, Limits
from rlm.calls import Caller
from rlm.coverage import CoverageLedger
from rlm.direct import DirectSettings, answer_directly, fits
from rlm.documents import Guessed, Loaded, Skipped, Source, default_cache
from rlm.driver import Driver, Outcome, RootSettings
from rlm.errors import BudgetExhausted, JournalError, ModelError, UsageError
from rlm.events import ContextLoaded, Event, KernelOpened, Observer, Retrying, RunEnded, RunStarted, Warned
from rlm.finalization import Finalizer
from rlm.handler import RunHandler
from rlm.models import Model, ModelOptions, resolve
from rlm.subcalls import ChildSettings, SubCalls
from rlm.types import RunResult, Strategy
from rlm.workspace import Workspace
from sandbox.in_kernel.body import Body
from sandbox.in_kernel.registry import HELPERS
from sandbox.isolation.policy import IsolationReport
from sandbox.kernel import JupyterSandbox, SandboxLevel
from sandbox.sandbox import Sandbox
from sandbox.types import KernelLimits

if TYPE_CHECKING:
    from rlm.journal import RunLog

__all__ = ["RLM", "Context", "Settings"]

Context: TypeAlias = str | Path | Source | Sequence[str | Path | Source]
"""A text, a path (file or folder), or a list of these."""

_PREVIEW = 500
_GUESSES_SHOWN = 3
_DOCUMENTS_TOLD = 20
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "AUTHORIZATION")


@dataclass(frozen=True, slots=True)
class Settings:
    """How runs go about their work. Each field's own type says what it holds.

    sandbox: the isolation level, or "auto" for the strongest there is; store: the journal's file or URL
    (None: the user's state folder); document_cache: whether the text of large files is kept from run to run
    in the user's cache folder.
    """

    strategy: Literal["auto", "rlm", "direct"] = "auto"
    sandbox: SandboxLevel = "auto"
    store: Path | str | None = None
    document_cache: bool = True
    root: RootSettings = field(default_factory=RootSettings)
    child: ChildSettings = field(default_factory=ChildSettings)
    direct: DirectSettings = field(default_factory=DirectSettings)
    kernel: KernelLimits = field(default_factory=KernelLimits)
    models: ModelOptions = field(default_factory=ModelOptions)


class RLM:
    """Answers questions over contexts of any size.

    model and sub_model are names (`openai:gpt-5`, `extractive`, …) or models; None takes the one whose key
    is set, else `extractive`, which needs none; sub_model None is the model. Raises ConfigurationError.
    observe is called with every Event of every run, from the event loop.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        sub_model: str | Model | None = None,
        limits: Limits | None = None,
        settings: Settings | None = None,
        observe: Observer | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.settings = settings or Settings()
        self._observers: list[Observer] = [observe] if observe else []
        self.model = self._resolved(model)
        self.sub_model = self.model if sub_model is None else self._resolved(sub_model)

    async def run(self, task: str, context: Context) -> RunResult:
        """Answer `task` over `context`. Raises UsageError (sources, settings, no room) and SandboxRefused
        before anything is spent, JournalError when the run can't be recorded; limits, broken contracts and
        failing models end in a result that says so. It can be cancelled at any time, also while it loads,
        and leaves nothing in the temp folder."""
        if not task.strip():
            raise UsageError("the question is empty: say what is to be answered")
        result: RunResult | None = None
        try:
            async with AsyncExitStack() as stack:
                run = await self._prepared(task, context, stack)
                result = await run.go()
                await run.log_result(result)
        except JournalError as error:
            # The one place where a broken journal is forgiven: the answer is there and paid for, only its
            # last entry (or the closing of the journal) failed. Before that a run must not go on unrecorded.
            if result is None:
                raise
            return replace(result, warnings=(*result.warnings, f"the end of this run is not kept: {error}"))
        return result

    async def _prepared(self, task: str, context: Context, stack: AsyncExitStack) -> _Run:
        """A run that can go; `stack` closes what it stands on."""
        # The database library takes a third of a second: `import rlm` must not.
        from rlm.journal import Journal, default_store, new_run_id

        workspace = stack.enter_context(Workspace())
        began = time.monotonic()
        cache = default_cache(os.environ) if self.settings.document_cache else None
        loaded = await workspace.load(_sources(context), cache=cache)
        self._tell(
            ContextLoaded(
                loaded.context.chars,
                len(loaded.context.documents),
                len(loaded.skipped),
                time.monotonic() - began,
            )
        )
        journal = await stack.enter_async_context(
            Journal.open(self.settings.store or default_store(os.environ))
        )
        journal.redact(_secrets(os.environ))
        log = await stack.enter_async_context(journal.run(new_run_id(), task, self._facts(loaded)))
        body = stack.enter_context(Body.open(loaded.context.folder))
        return _Run(self, task, loaded, body, log)

    def run_sync(self, task: str, context: Context) -> RunResult:
        """`run` for callers without an event loop. In one (a notebook) raises UsageError: await `run`."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(task, context))
        raise UsageError("run_sync was called inside an event loop (a notebook?): use `await rlm.run(...)`")

    async def _run_and_close(self, task: str, context: Context) -> RunResult:
        try:
            return await self.run(task, context)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the models' connections. The object may be used again."""
        for model in {id(model): model for model in (self.model, self.sub_model)}.values():
            await model.aclose()

    def _resolved(self, model: str | Model | None) -> Model:
        if model is not None and not isinstance(model, str):
            return model
        options = replace(
            self.settings.models,
            on_retry=lambda attempt, wait, reason: self._tell(Retrying(attempt, wait, reason)),
        )
        return resolve(model, os.environ, options)

    def _tell(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)

    def _facts(self, loaded: Loaded) -> dict[str, Any]:
        """What the journal keeps of the settings: no secret is among them."""
        return {
            "model": self.model.name,
            "sub_model": self.sub_model.name,
            "limits": asdict(self.limits),
            "strategy": self.settings.strategy,
            "sandbox": self.settings.sandbox,
            "contract": self.settings.root.contract,
            "context_sha256": loaded.context.sha256,
            "context_chars": loaded.context.chars,
            "documents": len(loaded.context.documents),
        }


class _Run:
    """One run: its parts, made for it alone."""

    def __init__(self, rlm: RLM, task: str, loaded: Loaded, body: Body, log: RunLog) -> None:
        self._rlm = rlm
        self._task = task
        self._loaded = loaded
        self._body = body
        self._log = log
        self._began = time.monotonic()
        self._warnings = _warnings_of(loaded)
        self._budget = Budget(rlm.limits)
        self._caller = Caller(self._budget, log)
        self._coverage = CoverageLedger(body.chars)
        self._accounts = Accounts(self._budget, self._caller, self._coverage, log, rlm._tell)
        self._finalizer = Finalizer(body, self._coverage)
        self._subcalls = SubCalls(
            rlm.sub_model,
            body,
            accounts=self._accounts,
            settings=replace(rlm.settings.child, concurrency=rlm.limits.concurrency),
        )

    async def go(self) -> RunResult:
        """Direct first where that suits, then rounds."""
        settings = self._rlm.settings
        try:
            if settings.strategy == "direct" or (
                settings.strategy == "auto" and fits(self._rlm.model, self._body, settings.direct)
            ):
                result = await self._direct()
                if result is not None:
                    return result
            return await self._recursive()
        except asyncio.CancelledError:
            self._rlm._tell(RunEnded("cancelled", time.monotonic() - self._began))
            await self._log.append("finished", {"stop_reason": "cancelled", **self._totals()})
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
                self._warn(abstained)
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
        handler = RunHandler(self._subcalls, self._finalizer, self._budget, self._coverage)

        def new_sandbox() -> Sandbox:
            return JupyterSandbox(
                self._loaded.context,
                handler,
                limits=rlm.settings.kernel,
                level=rlm.settings.sandbox,
                # Cells that this product wrote itself may run anywhere: the answer must come without set-up.
                minimum=0 if rlm.model.name == "extractive" else 2,
                opened=self._kernel_opened,
            )

        driver = Driver(
            rlm.model,
            self._task,
            new_sandbox=new_sandbox,
            subcalls=self._subcalls,
            finalizer=self._finalizer,
            accounts=self._accounts,
            settings=rlm.settings.root,
        )
        return self._finished(await driver.run(self._root_input()), "rlm")

    def _kernel_opened(self, isolation: IsolationReport) -> None:
        missing = "; ".join(f"{layer} ({reason})" for layer, reason in isolation.failed.items())
        self._rlm._tell(KernelOpened(isolation.level, missing))
        if isolation.level < 2:
            why = f": this machine refuses {missing}" if missing else ""
            held = "not isolated" if isolation.level == 0 else "only partly isolated"
            self._warnings.append(f"the code of this run was {held} (level {isolation.level}){why}")

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
            model=self._rlm.model.name,
            budget=PromptBudget(self._rlm.model.window.context - settings.output_tokens),
        )

    def _finished(self, outcome: Outcome, strategy: Strategy) -> RunResult:
        if not self._budget.cost_known:
            self._warn("a model's price is not known: the cost limit was not held, the token limit was")
        if outcome.answer is None and outcome.detail:
            self._warn(outcome.detail)
        answer = outcome.answer
        for warning in () if answer is None else answer.warnings:
            self._warn(warning)
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
            warnings=tuple(self._warnings),
            variables=outcome.variables,
        )
        self._rlm._tell(RunEnded(result.stop_reason, result.seconds))
        return result

    async def log_result(self, result: RunResult) -> None:
        """The last entry of the run. Raises JournalError."""
        await self._log.append("finished", {**result.to_json(), **self._totals()})

    def _warn(self, message: str) -> None:
        self._warnings.append(message)
        self._rlm._tell(Warned(message))

    def _totals(self) -> dict[str, Any]:
        return {
            "rounds": self._budget.rounds,
            "sub_calls": self._subcalls.calls,
            "cost_usd": self._caller.cost_usd,
        }


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
