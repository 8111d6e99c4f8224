"""Sets up what every run needs: its input, the journal, its resources, the facts that the journal keeps."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm.answers.answer_type import AnswerType
from rlm.documents import Loaded, Source, default_cache
from rlm.documents.workspace import Workspace
from rlm.errors import JournalError, UsageError
from rlm.events import ContextLoaded
from rlm.journal.redaction import secrets_of
from rlm.models import Model
from rlm.models.base import is_extractive
from rlm.models.preload import import_early
from rlm.results import RunResult
from rlm.retrieval import IndexCache, default_index_cache
from rlm.retrieval.ranking import Ranking
from rlm.runs.config import RunConfig
from rlm.runs.load_warnings import pruned
from rlm.runs.resources import RunResources
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.host.pool import KernelPool
from rlm.settings import Settings

if TYPE_CHECKING:
    from rlm.journal import Journal

__all__ = [
    "JobResources",
    "facts_of",
    "load_input",
    "make_room",
    "open_journal",
    "resources_for",
    "type_of",
    "with_journal_failure",
]


@dataclass(frozen=True, slots=True)
class JobResources:
    """What a job works with. `kernels` is a pool that it shares with other jobs, or None."""

    config: RunConfig
    loaded: Loaded
    journal: Journal
    workspace: Workspace
    kernels: KernelPool | None = None


async def load_input(
    config: RunConfig, sources: Sequence[str | Path | Source], workspace: Workspace
) -> Loaded:
    """Load the sources as one body and report it. Imports what the first model call needs meanwhile. Raises
    DocumentError and UsageError."""
    began = time.monotonic()
    import_early((config.model, config.sub_model, config.summary_model))
    cache = default_cache(os.environ) if config.settings.document_cache else None
    loaded = await workspace.load(sources, cache=cache)
    context = loaded.context
    seconds = time.monotonic() - began
    config.tell(ContextLoaded(context.chars, len(context.documents), len(loaded.skipped), seconds))
    return loaded


@asynccontextmanager
async def open_journal(settings: Settings, shared: Journal | None = None) -> AsyncIterator[Journal]:
    """Open the journal that the settings name, or yield `shared`, which stays open. The journal never writes
    a secret of the environment."""
    if shared is not None:
        yield shared
        return
    # The database library takes a third of a second: `import rlm` must not.
    from rlm.journal import Journal, default_store

    async with Journal.open(settings.store or default_store(os.environ)) as journal:
        journal.redact(secrets_of(os.environ))
        yield journal


async def make_room(journal: Journal, settings: Settings) -> list[str]:
    """Remove the oldest runs from a journal that is over the limit of the settings. Return the warnings."""
    removed = await journal.prune(most_bytes=settings.store_mb << 20)
    return [pruned(removed, settings.store_mb)] if removed else []


def with_journal_failure(result: RunResult, error: JournalError) -> RunResult:
    """Return the result with a warning that its last entry was not written.

    Only this failure of a journal is forgiven, because the answer is there and paid for. Before that a run
    must not continue unrecorded."""
    return replace(result, warnings=(*result.warnings, f"the end of this run is not kept: {error}"))


def resources_for(config: RunConfig, workspace: Workspace, kernels: KernelSource) -> RunResources:
    """Return the resources of runs under `config`, in that workspace."""
    # Without the user's cache folder the index lives as long as the run.
    own = IndexCache(workspace.folder / "index")
    kept = (IndexCache(default_index_cache(os.environ)),) if config.settings.document_cache else ()
    return RunResources(workspace.folder, kernels, lambda body: Ranking(body, config.tell, (*kept, own)))


def facts_of(
    config: RunConfig,
    context: ContextFile,
    sources: Sequence[Mapping[str, Any]],
    warnings: Sequence[str],
    answer_type: AnswerType | None,
) -> dict[str, Any]:
    """Return what the journal keeps of how a run began."""
    return {
        **config.facts(),
        "context_sha256": context.sha256,
        "context_chars": context.chars,
        "documents": len(context.documents),
        "sources": list(sources),
        "warnings": list(warnings),
        "answer_schema": None if answer_type is None else answer_type.text,
    }


def type_of(task: str, schema: Any, model: Model) -> AnswerType | None:
    """Return the type that the answer must have. Raises UsageError for a question that can't be asked."""
    if not task.strip():
        raise UsageError("the question is empty: say what is to be answered")
    answer_type = None if schema is None else AnswerType(schema)
    if answer_type is not None and is_extractive(model) and not answer_type.is_text:
        raise UsageError("extractive answers in plain text: choose a model for an answer of a given type")
    return answer_type
