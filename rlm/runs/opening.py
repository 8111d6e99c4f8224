"""Opens what runs and jobs work with: their input, the journal that records them, a private folder,
kernels."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from rlm.answers.answer_type import AnswerType
from rlm.children.run_input import RunInput
from rlm.documents import ContextCache, FolderCache, Loaded, Progress, Source, default_cache
from rlm.documents.pictures import Originals
from rlm.documents.sources.source import describe
from rlm.documents.workspace import Workspace
from rlm.errors import JournalError, UsageError
from rlm.events import ContextLoaded, Loading, Warned
from rlm.journal import Journal, RunLog, default_store, new_run_id
from rlm.journal.redaction import secrets_of
from rlm.limits import LOADING_SHARE
from rlm.models import Model
from rlm.models.base import is_extractive
from rlm.models.http.model import import_early, learn
from rlm.playback.recording import NOTHING_RECORDED, Recording
from rlm.results import Note, RunResult
from rlm.retrieval.ranking import Ranking
from rlm.runs.config import RunConfig
from rlm.runs.notes import pruned_warning, warnings_of, window_warnings
from rlm.runs.run import Run, RunOptions, RunResources
from rlm.runs.shared_kernel import PreviousQuestion, SharedKernel
from rlm.runs.stored_run import StoredRun, input_to_keep, source_facts
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.host.pool import KernelPool
from rlm.sandbox.text.body import Body
from rlm.settings import Settings

__all__ = [
    "OpenInput",
    "cache_of",
    "check_question",
    "make_room",
    "open_input",
    "open_journal",
    "open_stored",
    "problem_facts",
    "require_model",
    "stored_run",
    "type_of",
    "with_journal_failure",
]


@dataclass(slots=True)
class OpenInput:
    """Holds the open input of runs and the journal that records them. The input of a session grows.

    `sources` are what the journal keeps of the sources. `warnings` are about the input and the models, and
    `unread` names the documents that were not read. `problems` are the JSON of `Loaded.problems`. `kernels`
    are those of one run; None if a job is to make its own. `run_id` names the next run, None for a new name.
    """

    config: RunConfig
    workspace: Workspace
    journal: Journal
    context: ContextFile
    body: Body
    sources: list[dict[str, Any]]
    warnings: list[str]
    unread: list[str]
    problems: list[dict[str, Any]]
    kernels: KernelPool | None = None
    run_id: str | None = None

    @asynccontextmanager
    async def log(
        self, task: str, facts: Mapping[str, Any], answer_type: AnswerType | None = None, *, keep: bool = True
    ) -> AsyncIterator[RunLog]:
        """Record a new run with these `facts` and those of its settings and its input. With `keep`, the
        journal keeps the input, if it may."""
        config, context = self.config, self.context
        known = {
            **config.facts(),
            **({} if config.gate is None else {"check": config.gate.name}),
            "context_sha256": context.sha256,
            "context_chars": context.chars,
            "documents": len(context.documents),
            **({} if Originals(context.folder).is_empty else {"pictures": True}),
            "sources": self.sources,
            "warnings": self.warnings,
            "unread": self.unread,
            "problems": self.problems,
            "answer_schema": None if answer_type is None else answer_type.text,
        }
        kept = input_to_keep(self.journal, context.folder, self.sources, config.settings) if keep else None
        name = self.run_id or new_run_id()
        async with self.journal.run(name, task, {**known, **facts}, input=kept) as log:
            yield log

    def close(self) -> None:
        """Close the body: of a session, the one that it has grown to."""
        self.body.close()

    def new_run(
        self,
        task: str,
        log: RunLog,
        *,
        answer_type: AnswerType | None = None,
        recording: Recording = NOTHING_RECORDED,
        kernel: SharedKernel | None = None,
    ) -> Run:
        """Return a run over this input that is ready to start. It shares `kernel` with earlier questions, and
        goes on from `recording`."""
        assert self.kernels is not None
        options = RunOptions(recording, answer_type, self.warnings, self.unread)
        resources = replace(self.resources(self.kernels), kernel=kernel)
        return Run(self.config, task, RunInput(self.context, self.body), log, resources, options)

    def resources(self, kernels: KernelSource) -> RunResources:
        """Return the resources of runs over this input, with these kernels."""
        # Without the user's cache folder, the index is removed with the run's workspace.
        is_cached = self.config.settings.document_cache
        user_caches = (FolderCache.of_user("index", os.environ),) if is_cached else ()
        caches = (*user_caches, FolderCache(self.workspace.folder / "index"))
        return RunResources(
            self.workspace.folder, kernels, lambda body: Ranking(body, self.config.tell, caches)
        )


@asynccontextmanager
async def open_input(
    config: RunConfig,
    sources: Sequence[Source],
    *,
    journal: Journal | None = None,
    kernels: KernelPool | None = None,
    is_job: bool = False,
) -> AsyncIterator[OpenInput]:
    """Load `sources` and open what runs over them need. A `journal` and `kernels` that are given are shared
    with others, and stay open. Raises what `RLM.run` raises before anything is spent."""
    settings = config.settings
    async with AsyncExitStack() as stack:
        workspace = stack.enter_context(Workspace())
        pool = kernels
        if is_job:
            loaded = await _load(config, sources, workspace)
        else:
            pool = config.kernels(kernels)
            stack.push_async_callback(pool.close)
            with _warm_meanwhile(pool, settings.strategy):
                loaded = await _load(config, sources, workspace, pictures=True)
        if not loaded.context.chars and settings.strategy == "map-reduce" and not is_job:
            raise UsageError("map-reduce reads a text, and none is given: choose another strategy")
        warnings = [*warnings_of(loaded), *window_warnings(config.models)]
        async with open_journal(settings, journal) as opened:
            # The owner of a shared journal prunes it.
            warnings += [] if journal is not None else await make_room(opened, settings)
            for warning in warnings:
                config.tell(Warned(warning))
            given = OpenInput(
                config,
                workspace,
                opened,
                loaded.context,
                loaded.context.open(),
                source_facts(sources),
                warnings,
                list(loaded.unread),
                problem_facts(loaded),
                pool,
            )
            stack.callback(given.close)
            yield given


@asynccontextmanager
async def stored_run(
    opened: OpenInput, stored: StoredRun, log: RunLog, earlier: Sequence[StoredRun]
) -> AsyncIterator[Run]:
    """Yield a stored run that goes on where its events end, and writes to `log`. `earlier` are the runs that
    it continues, oldest first."""
    assert opened.kernels is not None
    recording = stored.recording()
    async with AsyncExitStack() as stack:
        kernel: SharedKernel | None = None
        if earlier:
            past = [PreviousQuestion.of(one) for one in earlier]
            tools = opened.config.tools.docs
            kernel = SharedKernel(opened.context, opened.kernels, past=past, tools=tools)
            stack.push_async_callback(kernel.close)
        run = opened.new_run(
            stored.task, log, answer_type=stored.answer_type, recording=recording, kernel=kernel
        )
        yield run


@asynccontextmanager
async def open_stored(
    config: RunConfig,
    stored: StoredRun,
    journal: Journal,
    *,
    kernels: KernelPool | None = None,
    given: Sequence[Source] = (),
    is_job: bool = False,
) -> AsyncIterator[OpenInput]:
    """Open the input of a stored run again, from the journal, from `given` or from its files. Raises
    UsageError if it is gone or has changed."""
    async with AsyncExitStack() as stack:
        workspace = stack.enter_context(Workspace())
        loaded = await stored.load(journal, workspace, given, cache_of(config.settings))
        pool = kernels if is_job else config.kernels(kernels)
        if pool is not None and not is_job:
            stack.push_async_callback(pool.close)
        opened = OpenInput(
            config,
            workspace,
            journal,
            loaded.context,
            loaded.context.open(),
            list(stored.facts["sources"]),
            list(stored.facts["warnings"]),
            list(stored.facts.get("unread", ())),
            list(stored.facts.get("problems", ())),
            pool,
        )
        stack.callback(opened.close)
        yield opened


def problem_facts(loaded: Loaded) -> list[dict[str, Any]]:
    """Return what the journal keeps of the problems of an input."""
    return [asdict(problem) for problem in loaded.problems[:_MOST_PROBLEMS]]


def cache_of(settings: Settings) -> ContextCache | None:
    """Return the cache of contexts, or None if the settings use none."""
    return default_cache(os.environ) if settings.document_cache else None


async def _load(
    config: RunConfig, sources: Sequence[Source], workspace: Workspace, *, pictures: bool = False
) -> Loaded:
    """Load the sources as one body and report it to the observers. Meanwhile, imports the modules that the
    first model call needs, and asks the models' servers for their windows. With `pictures`, pages are kept
    for children that can look at them. Raises DocumentError and UsageError."""
    began = time.monotonic()
    import_early(config.models)
    cache = cache_of(config.settings)
    learning = asyncio.ensure_future(learn(config.models))
    try:
        loaded = await workspace.load(
            sources,
            _loading_reporter(config),
            cache,
            seconds=config.limits.max_seconds * LOADING_SHARE,
            pictures=pictures and config.can_look,
        )
        await learning
    finally:
        learning.cancel()
    context = loaded.context
    seconds = time.monotonic() - began
    left_out = loaded.of("missing", "other", "nothing")
    config.tell(ContextLoaded(context.chars, len(context.documents), len(left_out), seconds))
    return loaded


_REPORT_SECONDS = 1.0
_MOST_PROBLEMS = 20_000
"""Of an input, in the journal."""


def _loading_reporter(config: RunConfig) -> Progress:
    """Return a function that reports Loading from the reading thread, once a second."""
    loop = asyncio.get_running_loop()
    next_report: float | None = None

    def report(document: str, bytes_read: int) -> None:
        nonlocal next_report
        now = time.monotonic()
        if next_report is None:
            next_report = now + _REPORT_SECONDS
        elif document and now >= next_report:
            next_report = now + _REPORT_SECONDS
            loop.call_soon_threadsafe(config.tell, Loading(document, bytes_read))

    return report


@asynccontextmanager
async def open_journal(settings: Settings, shared: Journal | None = None) -> AsyncIterator[Journal]:
    """Open the journal of the settings, or yield `shared` and leave it open. The journal never writes a
    secret of the environment."""
    if shared is not None:
        yield shared
        return
    async with Journal.open(settings.store or default_store(os.environ)) as journal:
        journal.redact(secrets_of(os.environ))
        yield journal


async def make_room(journal: Journal, settings: Settings) -> list[str]:
    """Remove the oldest runs if the journal exceeds the limit of the settings. Return the warnings."""
    removed = await journal.prune(most_bytes=settings.store_mb << 20)
    return [pruned_warning(removed, settings.store_mb)] if removed else []


def with_journal_failure(result: RunResult, error: JournalError) -> RunResult:
    """Return the result with a warning that its last event was not written.

    A run ends with any earlier failure of the journal, because it must not continue unrecorded. This failure
    is only a warning, because the answer exists and is paid for.
    """
    return replace(result, notes=(*result.notes, Note(f"the end of this run was not stored: {error}")))


def check_question(question: Any) -> None:
    """Raise UsageError if a question (or a task) is empty or not a text."""
    if not isinstance(question, str):
        raise UsageError(f"the question is {describe(question)}: give a text")
    if not question.strip():
        raise UsageError("the question is empty. Write a question")


def require_model(model: Model, what: str) -> None:
    """Raise UsageError if `model` is the program `extractive`: `what` (`a comparison`) needs a language
    model."""
    if is_extractive(model):
        raise UsageError(
            f"{what} needs a language model: set the key of one, or name it (--model anthropic:NAME, "
            "openai:NAME or ollama:NAME)"
        )


def type_of(task: str, schema: Any, model: Model) -> AnswerType | None:
    """Return the type of the answer. Raises UsageError for an empty question or an unsupported type."""
    check_question(task)
    answer_type = None if schema is None else AnswerType(schema)
    if answer_type is not None and not answer_type.is_text:
        require_model(model, "an answer of a given type")
    return answer_type


_WARM_AFTER: Mapping[str, float | None] = {"rlm": 0.0, "auto": 0.2}
"""Seconds of loading after which a kernel starts meanwhile. Under "auto", an input that loads faster is
mostly short enough for a direct answer, which needs no kernel, nor does map-reduce."""


@contextmanager
def _warm_meanwhile(kernels: KernelPool, strategy: str) -> Iterator[None]:
    """Start a kernel while the block loads the input, if a run of that strategy will need one."""
    seconds = _WARM_AFTER.get(strategy)
    if seconds is None:
        yield
        return
    timer = asyncio.get_running_loop().call_later(seconds, kernels.warm)
    try:
        yield
    finally:
        timer.cancel()
