"""Sets up a run: its input, its journal, its resources, and the facts that the journal keeps."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

from rlm.answers.answer_type import AnswerType
from rlm.documents import ContextCache, FolderCache, Loaded, Progress, Source, default_cache
from rlm.documents.pictures import Originals
from rlm.documents.sources.source import describe
from rlm.documents.workspace import Workspace
from rlm.errors import JournalError, UsageError
from rlm.events import ContextLoaded, Loading, Warned
from rlm.journal import Journal, default_store
from rlm.journal.redaction import secrets_of
from rlm.lazy_dataclass import dataclass
from rlm.limits import LOADING_SHARE
from rlm.models import Model
from rlm.models.base import is_extractive
from rlm.models.http.model import import_early, learn
from rlm.results import Note, RunResult
from rlm.retrieval.ranking import Ranking
from rlm.runs.config import RunConfig
from rlm.runs.load_warnings import pruned_warning, warnings_of, window_warnings
from rlm.runs.options import RunResources
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.host.pool import KernelPool
from rlm.settings import Settings

__all__ = [
    "JobResources",
    "cache_of",
    "check_question",
    "facts_of",
    "load_input",
    "make_room",
    "open_journal",
    "require_model",
    "resources_for",
    "start_warnings",
    "type_of",
    "warm_meanwhile",
    "with_journal_failure",
]


@dataclass(frozen=True, slots=True)
class JobResources:
    """The resources of a job. `kernels` is a pool that it shares with other jobs, or None. `run_id` is the
    name of a new job, or None."""

    config: RunConfig
    loaded: Loaded
    journal: Journal
    workspace: Workspace
    kernels: KernelPool | None = None
    run_id: str | None = None


def cache_of(settings: Settings) -> ContextCache | None:
    """Return the cache of contexts, or None if the settings use none."""
    return default_cache(os.environ) if settings.document_cache else None


async def load_input(
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
    config.tell(
        ContextLoaded(
            context.chars, len(context.documents), len(loaded.of("missing", "other", "nothing")), seconds
        )
    )
    return loaded


_REPORT_SECONDS = 1.0


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


def start_warnings(config: RunConfig, loaded: Loaded) -> list[str]:
    """Return the warnings about the input and the models, and report them to the observers."""
    warnings = [*warnings_of(loaded), *window_warnings(config.models)]
    for warning in warnings:
        config.tell(Warned(warning))
    return warnings


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


def resources_for(config: RunConfig, workspace: Workspace, kernels: KernelSource) -> RunResources:
    """Return the resources of runs with this `config`, in this workspace."""
    # Without the user's cache folder, the index is removed with the run's workspace.
    run_cache = FolderCache(workspace.folder / "index")
    user_caches = (FolderCache.of_user("index", os.environ),) if config.settings.document_cache else ()
    caches = (*user_caches, run_cache)
    return RunResources(workspace.folder, kernels, lambda body: Ranking(body, config.tell, caches))


def facts_of(
    config: RunConfig,
    context: ContextFile,
    sources: Sequence[Mapping[str, Any]],
    warnings: Sequence[str],
    answer_type: AnswerType | None,
) -> dict[str, Any]:
    """Return what the journal stores about the start of a run."""
    schema = None if answer_type is None else answer_type.text
    return {
        **config.facts(),
        **({} if config.gate is None else {"check": config.gate.name}),
        "context_sha256": context.sha256,
        "context_chars": context.chars,
        "documents": len(context.documents),
        **({} if Originals(context.folder).is_empty else {"pictures": True}),
        "sources": list(sources),
        "warnings": list(warnings),
        "answer_schema": schema,
    }


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
def warm_meanwhile(kernels: KernelPool, strategy: str) -> Iterator[None]:
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
