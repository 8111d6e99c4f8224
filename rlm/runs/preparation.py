"""Puts a run together from its parts."""

from __future__ import annotations

from contextlib import AsyncExitStack

from rlm.answers.answer_type import AnswerType
from rlm.children.run_input import RunInput
from rlm.documents import Context, sources_of
from rlm.documents.workspace import Workspace
from rlm.errors import UsageError
from rlm.journal import Journal, new_run_id
from rlm.runs.config import RunConfig
from rlm.runs.options import RunOptions
from rlm.runs.run import Run
from rlm.runs.setup import (
    facts_of,
    load_input,
    make_room,
    open_journal,
    resources_for,
    start_warnings,
    warm_meanwhile,
)
from rlm.runs.stored_run import input_to_keep, source_facts
from rlm.sandbox.host.pool import KernelPool

__all__ = ["prepare_run"]


async def prepare_run(
    config: RunConfig,
    task: str,
    context: Context | None,
    stack: AsyncExitStack,
    *,
    answer_type: AnswerType | None,
    run_id: str | None,
    kernels: KernelPool | None,
    journal: Journal | None,
) -> Run:
    """Return a run that is ready to start. `stack` closes what it uses, but not `kernels` and `journal`: it
    shares these with other runs. Raises what `RLM.run` raises before anything is spent."""
    settings, shared = config.settings, journal
    workspace = stack.enter_context(Workspace())
    pool = config.kernels(kernels)
    stack.push_async_callback(pool.close)
    sources = () if context is None else sources_of(context)
    with warm_meanwhile(pool, settings.strategy):
        loaded = await load_input(config, sources, workspace, pictures=True)
    body = stack.enter_context(loaded.context.open())
    if not body.chars and settings.strategy == "map-reduce":
        raise UsageError("map-reduce reads a text, and none is given: choose another strategy")
    if config.first_strategy(body, task=task, looks=config.can_look) == "rlm":
        # The kernel starts while the journal opens.
        pool.warm()
    journal = await stack.enter_async_context(open_journal(settings, shared))
    # The owner of a shared journal prunes it.
    removed = [] if shared is not None else await make_room(journal, settings)
    warnings = start_warnings(config, loaded)
    facts = facts_of(config, loaded.context, source_facts(sources), warnings, answer_type)
    facts["unread"] = list(loaded.unread)
    kept = input_to_keep(journal, loaded.context.folder, facts["sources"], settings)
    log = await stack.enter_async_context(journal.run(run_id or new_run_id(), task, facts, input=kept))
    run = Run(
        config,
        task,
        RunInput(loaded.context, body),
        log,
        resources_for(config, workspace, pool),
        RunOptions(answer_type=answer_type, warnings=warnings, unread=loaded.unread),
    )
    for warning in removed:
        run.warn(warning)
    return run
