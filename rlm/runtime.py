"""RLM: the public class. It puts a run together from its parts and returns the result.

A module that only a run needs is imported within the run: by then its kernel is being started, which takes
as long as these imports.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rlm.children.tools import Toolbox
from rlm.completions import Completions
from rlm.errors import JournalError, UsageError
from rlm.limits import slow_defaults
from rlm.models import CallSettings, Model
from rlm.results import RunResult
from rlm.runs.model_resolver import ModelResolver
from rlm.settings import Limits, Settings
from rlm.telemetry import log_event

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.answers.answer_gate import AnswerCheck, AnswerGate
    from rlm.children.sub_models import SubModels
    from rlm.config_file.mcp_servers import McpServer
    from rlm.documents import Context, Source
    from rlm.events import Event, Observer, TextDelta, TextObserver
    from rlm.journal import Journal
    from rlm.runs.config import RunConfig
    from rlm.runs.opening import OpenInput
    from rlm.runs.session import Session
    from rlm.runs.stored_run import StoredRun
    from rlm.sandbox.host.pool import KernelPool

__all__ = ["RLM"]


class RLM(Completions):
    """Answers questions over contexts of any size.

    model and sub_model are names (`openai:gpt-5`, `extractive`, …) or models. None takes the model whose key
    is set, else `extractive`, which needs no key. sub_model defaults to model. sub_models are several in its
    place, by the names that cells give (`sub_query(…, model="strong")`); the first is the default.
    summary_model (default: the first sub-model) folds rounds when they near the root's window.
    Raises ConfigurationError.
    tools are functions that cells may call: typed, sync or async. They run in this process with validated
    arguments; arguments and results must be JSON. mcp_servers are MCP servers by name, with the keys of
    [mcp.NAME] in a settings file. They run while a run does, and cells may call their tools as NAME_tool.
    options and sub_options say what each call of the root's model and of the children's asks for: a
    CallSettings, or a mapping with its keys (`options={"effort": "high", "output": 16_000}`). sub_options are
    those of the summary model, too. They need models given by name.
    check is a function, sync or async, that gets each answer (ProposedAnswer) before it is accepted. It
    returns None, or what is wrong: the root is told, and may answer again within its rounds. Its other
    errors are raised as AnswerCheckError; the run can then be resumed.
    observe is one function or several, called from the event loop with every Event of every run but the text
    deltas. observe_text is one function or several that get these: the text of replies while it is written.
    """

    def __init__(
        self,
        model: str | Model | None = None,
        *,
        sub_model: str | Model | None = None,
        sub_models: Mapping[str, str | Model] | None = None,
        summary_model: str | Model | None = None,
        limits: Limits | None = None,
        settings: Settings | None = None,
        options: CallSettings | Mapping[str, Any] | None = None,
        sub_options: CallSettings | Mapping[str, Any] | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        mcp_servers: Mapping[str, McpServer | Mapping[str, Any]] | None = None,
        check: AnswerCheck | None = None,
        check_support: bool | None = None,
        observe: Observer | Sequence[Observer] = (),
        observe_text: TextObserver | Sequence[TextObserver] = (),
    ) -> None:
        self.settings = settings or Settings()
        self._own_limits = limits
        self.limits = limits or Limits(**(slow_defaults() if self.settings.slow else {}))
        if check_support is not None:
            self.settings = replace(self.settings, check_support=check_support)
        self.settings = self.settings.with_options(options, sub_options)
        self._kernels: KernelPool | None = None
        self._shared_journal: Journal | None = None
        self._run_id: str | None = None
        self._observers: list[Observer] = [observe] if callable(observe) else list(observe)
        self._text_observers = [observe_text] if callable(observe_text) else list(observe_text)
        self.tools = Toolbox(tools, seconds=self.settings.tool_seconds)
        self._servers = _read_servers(mcp_servers)
        self._gate = _open_gate(check, self.settings)
        own, resolver = self.settings, self._resolver()
        self.model, calls = resolver.resolve(model, own.options, "options")
        self.sub_models, sub_calls = resolver.resolve_children(
            (self.model, calls), model, sub_model, sub_models
        )
        self.summary_model = self.sub_model
        if summary_model is not None:
            self.summary_model, _ = resolver.resolve(summary_model, own.sub_options, "")
        self.settings = own.with_reply_caps(calls.output, sub_calls.output)

    @property
    def sub_model(self) -> Model:
        """Return the model of children that nothing else is said of."""
        return next(iter(self.sub_models.values()))

    @property
    def children(self) -> SubModels:
        """Return the models of children, with the sizes of their prompts."""
        return self._config().children

    async def run(
        self, task: str, context: Context | None = None, *, schema: Any = None, run_id: str | None = None
    ) -> RunResult:
        """Answer `task` over `context`. None asks without a text: the model reasons and computes, and a
        warning of the result says that the answer is its own knowledge.

        `schema` is the type of the answer: a JSON Schema, or a pydantic model (or another type that pydantic
        takes), whose instance is then `result.parsed`. `run_id` names the run in the journal; by default it
        gets a new name. Raises UsageError (sources, settings, no room) and SandboxRefused before anything
        is spent, JournalError when the run can't be recorded. Limits, broken contracts and failing models
        end in a result that says so. It can be cancelled at any time, and leaves nothing in the temporary
        folder."""
        if self.settings.strategy == "rlm":
            from rlm.sandbox.launch.forkserver import warm_forkserver

            warm_forkserver()  # its imports overlap ours, which follow
        from rlm.documents import sources_of
        from rlm.runs.opening import open_input, type_of, with_journal_failure

        answer_type = type_of(task, schema, self.model)
        result: RunResult | None = None
        try:
            async with AsyncExitStack() as stack:
                config = (await self._with_servers(stack))._watched(log_event)._config()
                sources = () if context is None else sources_of(context)
                opening = open_input(config, sources, journal=self._shared_journal, kernels=self._kernels)
                opened = await stack.enter_async_context(opening)
                opened.run_id = run_id or self._run_id
                log = await stack.enter_async_context(opened.log(task, {}, answer_type))
                run = opened.new_run(task, log, answer_type=answer_type)
                result = await run.run()
                await run.log_result(result)
        except JournalError as error:
            if result is None:
                raise
            return with_journal_failure(result, error)
        return result

    def sharing(
        self,
        kernels: KernelPool,
        journal: Journal,
        limits: Limits,
        *,
        run_id: str | None = None,
        observe: Sequence[Observer] = (),
    ) -> RLM:
        """Return an RLM for one of many runs, with these models and settings and `limits` of its own. Its
        kernels come from `kernels` and it is recorded in `journal`; both outlive it, and their owner prunes
        the journal. `run_id` names its run or job, and `observe` gets its events, too."""
        other = self._watched(*observe)
        other._kernels, other._shared_journal = kernels, journal
        other.limits, other._run_id = limits, run_id
        return other

    def kernels(self, runs: int) -> KernelPool:
        """Return a pool for so many runs at a time. Share it with `sharing`, and close it after them."""
        return self._config().shared_kernels(runs)

    async def resume(
        self,
        run: str,
        *,
        context: Context | None = None,
        take_over: bool = False,
        cost_usd: float | None = None,
    ) -> RunResult:
        """Resume a run that was killed, interrupted or failed by its provider, from the last event in its
        journal. `run` is its name, or the start of it.

        Its own limits and settings hold, where this RLM was not given lower ones, and these models answer.
        Journalled calls are neither made nor paid again; blocks run again in a new kernel. A run that has
        ended returns its result. `context` is its input again, for a journal that did not keep it. `cost_usd`
        replaces its cost limit, and includes what it spent before. `take_over` also takes the run from a
        process on another machine, which then fails if it still writes. Raises JournalError, UsageError when
        its models differ or its input is gone or has changed, and what `run` raises."""
        from rlm.documents import sources_of
        from rlm.events import Resumed
        from rlm.runs.opening import open_journal, open_stored, stored_run, with_journal_failure
        from rlm.runs.shared_kernel import read_earlier_runs
        from rlm.runs.stored_run import StoredRun

        result: RunResult | None = None
        try:
            async with AsyncExitStack() as stack:
                journal = await stack.enter_async_context(open_journal(self.settings, self._shared_journal))
                left = await StoredRun.read(journal, run)
                if left.result is not None:
                    return left.result
                rlm = (await self._with_servers(stack)).as_of(left)
                if cost_usd is not None:
                    rlm.limits = replace(rlm.limits, max_cost=cost_usd)
                if rlm.tools.missing:
                    lost = ", ".join(rlm.tools.missing)
                    raise UsageError(
                        f"run {left.run_id} was begun with tools that are missing or changed: {lost}. "
                        "Resume it in Python, with RLM(…, tools=[…]).resume(…), or with --mcp NAME"
                    )
                if "check" in left.facts and rlm._gate is None:
                    raise UsageError(
                        f"run {left.run_id} was begun with a check of its answer ({left.facts['check']}). "
                        "Resume it in Python, with RLM(…, check=…).resume(…)"
                    )
                earlier = await read_earlier_runs(journal, left)
                given = () if context is None else sources_of(context)
                config = rlm._watched(log_event)._config()
                opening = open_stored(config, left, journal, kernels=self._kernels, given=given)
                opened = await stack.enter_async_context(opening)
                log = await stack.enter_async_context(journal.resume(left.run_id, take_over=take_over))
                # Read once the run is ours: another process may have resumed it meanwhile.
                left = replace(left, events=await log.events())
                going_on = await stack.enter_async_context(stored_run(opened, left, log, earlier))
                config.tell(Resumed(left.run_id, going_on.state.rounds, going_on.recording.reply_count))
                result = await going_on.run()
                await going_on.log_result(result)
        except JournalError as error:
            if result is None:
                raise
            return with_journal_failure(result, error)
        return result

    async def replay(self, stored: StoredRun, journal: Journal) -> RunResult:
        """Run a stored run again, with its cells' recorded answers, writing nothing. For `rlm.replay`."""
        from rlm.journal import ReadOnlyLog
        from rlm.runs.opening import open_stored, stored_run
        from rlm.runs.shared_kernel import read_earlier_runs

        earlier = await read_earlier_runs(journal, stored)
        async with (
            open_stored(self._config(), stored, journal, kernels=self._kernels) as opened,
            stored_run(opened, stored, ReadOnlyLog(stored.events), earlier) as run,
        ):
            return await run.run()

    def as_of(self, left: StoredRun) -> RLM:
        """Return these models with a run's limits and settings: its own, but no larger than those that this
        RLM was given. Raises UsageError if its models differ."""
        from rlm.runs.stored_run import limits_of, settings_of

        facts = left.facts
        children = ", ".join(model.name for model in self.sub_models.values())
        for asked, before, now in (
            ("model", facts["model"], self.model.name),
            ("sub_model", ", ".join(left.sub_models.values()), children),
        ):
            if before != now:
                raise UsageError(f"run {left.run_id} was begun with {asked} {before}, not {now}: give that")
        other = copy(self)
        # Its cells use the names of then.
        other.sub_models = dict(zip(left.sub_models, self.sub_models.values(), strict=True))
        other.limits = limits_of(facts, self._own_limits)
        other.settings = replace(
            settings_of(self.settings, facts), facts={**self.settings.facts, **left.model_facts}
        )
        own = self.settings
        other.settings = other.settings.with_reply_caps(own.options.output, own.sub_options.output)
        other.tools = self.tools.as_recorded(facts.get("tools", ()))
        if other.settings.slow and not self.settings.slow:
            other._make_models_slow()
        return other

    def session(self, context: Context = (), *, after: str | None = None) -> Session:
        """Return a session, for many questions in one kernel:
        `async with rlm.session(context) as session: await session.run(…)`. With `after`, a run's name or the
        start of it, the session continues with that run's context and variables, and `context` is appended.
        Entering it raises what `run` and `resume` raise."""
        from rlm.documents import sources_of
        from rlm.runs.session import Session

        if after is None and not sources_of(context):
            raise UsageError("a session needs a context, or the run that it continues (after=…)")
        return Session(
            lambda: self._watched(log_event)._config(), sources_of(context), after, self._open_toolbox
        )

    @asynccontextmanager
    async def open_job(
        self, context: Context | StoredRun, *observers: Observer, given: Sequence[Source] = ()
    ) -> AsyncIterator[OpenInput]:
        """Open what a job works with: these models and limits, `context` loaded (or the input of a stored
        job, which is `given` again if its journal did not keep it), the journal. `observers` get its events,
        too. Raises UsageError and JournalError."""
        from rlm.documents import sources_of
        from rlm.runs.opening import open_input, open_journal, open_stored
        from rlm.runs.stored_run import StoredRun

        async with AsyncExitStack() as stack:
            config = (await self._with_servers(stack))._watched(log_event, *observers)._config()
            shared, kernels = self._shared_journal, self._kernels
            if isinstance(context, StoredRun):
                journal = await stack.enter_async_context(open_journal(self.settings, shared))
                opening = open_stored(config, context, journal, kernels=kernels, given=given, is_job=True)
            else:
                sources = sources_of(context)
                opening = open_input(config, sources, journal=shared, kernels=kernels, is_job=True)
            opened = await stack.enter_async_context(opening)
            opened.run_id = self._run_id
            yield opened

    async def left_job(self, run: str, kind: str) -> StoredRun:
        """Return a stored job of that kind, by its name or the start of it. Raises JournalError."""
        from rlm.runs.opening import open_journal
        from rlm.runs.stored_run import StoredRun

        async with open_journal(self.settings, self._shared_journal) as journal:
            return await StoredRun.read(journal, run, job=kind)

    async def plan(self, context: Context) -> RunPlan:
        """Estimate what a run over `context` takes. Loads it, but asks no model, opens no kernel and records
        nothing. Raises UsageError."""
        return (await self.plan_each([context]))[0]

    async def plan_each(self, contexts: Iterable[Context]) -> list[RunPlan]:
        """Estimate a run over each context, as `plan` does. Loads one after the other, in one thread. Only a
        server on this machine is asked for the window of a model."""
        from rlm.accounting.run_plan import plan_run
        from rlm.documents import load, sources_of
        from rlm.documents.workspace import Workspace
        from rlm.models.http.model import learn
        from rlm.runs.opening import cache_of

        config = self._config()
        await learn((config.model, config.sub_model, config.summary_model), only_here=True)

        def plan_one(context: Context, folder: Path, tick: Callable[[str, int], None]) -> RunPlan:
            tick("", 0)
            try:
                cache = cache_of(self.settings)
                loaded = load(sources_of(context), folder, tick, cache, pictures=config.can_look)
                with loaded.opened() as body:
                    return plan_run(
                        self.model,
                        self.sub_model,
                        body,
                        strategy=config.first_strategy(body, looks=config.can_look),
                        limits=self.limits,
                        prompt_tokens=self.children.default.prompt_tokens,
                        prices=config.prices,
                    )
            finally:
                shutil.rmtree(folder, ignore_errors=True)

        with Workspace() as workspace:
            folder = workspace.folder / "context"
            return await workspace.work(
                lambda tick: [plan_one(context, folder, tick) for context in contexts]
            )

    async def stream(
        self, task: str, context: Context | None = None, *, schema: Any = None
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a run as they happen, with the text of replies while it is written; the last is
        RunFinished, with the result. Raises what `run` raises. To cancel the run, close the iterator
        (`contextlib.aclosing`) or end its task."""
        from rlm.events import RunFinished
        from rlm.runs.event_queue import EventQueue

        events = EventQueue()
        own = self._watched(events.put)
        own._text_observers = [*self._text_observers, events.put]
        running = asyncio.ensure_future(own.run(task, context, schema=schema))
        running.add_done_callback(lambda _: events.close())
        try:
            async for event in events:
                yield event
            yield RunFinished(await running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def __repr__(self) -> str:
        children = ", ".join(one.name for one in self.sub_models.values())
        return f"RLM({self.model.name!r}" + (
            f", sub_model={children!r})" if children != self.model.name else ")"
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the models' connections, as the end of `async with RLM(…)` does. The object may be used
        again."""
        for model in {id(model): model for model in self._config().models}.values():
            await model.aclose()

    def _resolver(self) -> ModelResolver:
        return ModelResolver(self.settings, self.limits.concurrency, self._tell)

    def _make_models_slow(self) -> None:
        slow = {id(one): self._resolver().make_slow(one) for one in self._config().models}
        self.model, self.summary_model = slow[id(self.model)], slow[id(self.summary_model)]
        self.sub_models = {name: slow[id(one)] for name, one in self.sub_models.items()}

    async def _with_servers(self, stack: AsyncExitStack) -> RLM:
        """Return a copy with the tools of the MCP servers, which run until `stack` closes them."""
        other = copy(self)
        other.tools = await stack.enter_async_context(self._open_toolbox())
        return other

    def _open_toolbox(self) -> AbstractAsyncContextManager[Toolbox]:
        from rlm.children.tool_servers import open_toolbox

        return open_toolbox(self.tools, self._servers, self._tell)

    def _watched(self, *observers: Observer | None) -> RLM:
        """Return a copy with more observers, for one run."""
        other = copy(self)
        other._observers = [*self._observers, *(observer for observer in observers if observer is not None)]
        return other

    def _tell(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)

    def _tell_text(self, delta: TextDelta) -> None:
        for observer in self._text_observers:
            observer(delta)

    def _config(self) -> RunConfig:
        from rlm.runs.config import RunConfig

        return RunConfig(
            self.model,
            self.sub_models,
            self.summary_model,
            self.limits,
            self.settings,
            self._tell,
            self.tools,
            self._gate,
            self._tell_text if self._text_observers else None,
        )


def _read_servers(given: Mapping[str, McpServer | Mapping[str, Any]] | None) -> tuple[McpServer, ...]:
    if not given:
        return ()
    from rlm.config_file.mcp_servers import read_mcp_servers

    return tuple(read_mcp_servers(given).values())


def _open_gate(check: AnswerCheck | None, settings: Settings) -> AnswerGate | None:
    if check is None:
        return None
    from rlm.answers.answer_gate import AnswerGate

    return AnswerGate(check, seconds=settings.tool_seconds)
