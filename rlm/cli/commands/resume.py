"""`rlm resume` and `rlm replay`: a run gone on with, and a run gone through again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.commands.compare import leave_with_comparison
from rlm.cli.commands.research import leave_with_research
from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.outcome import interrupted, leave_with
from rlm.cli.store import RunArgument, StoreOption, with_journal

if TYPE_CHECKING:
    from rlm.journal import Journal
    from rlm.results import RunResult
    from rlm.runs.stored_run import StoredRun
    from rlm.runtime import RLM
    from rlm.tasks.comparison.table import Comparison
    from rlm.tasks.reports.research import Research

__all__ = ["replay", "resume"]

_JOBS = ("research", "compare")

Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no account on stderr.")]


def resume(
    run: RunArgument,
    sandbox: SandboxOption = "auto",
    store: StoreOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was interrupted or killed, or that its provider failed.

    Its model, limits and input are those it had; they are in the journal. No reply that is there is asked
    or paid again: only the code runs again, in a new kernel. Of a run that has ended the result is printed.
    A research or a comparison is one run: its answered questions stay as they are.

    \b
    Examples:
      rlm resume 20260131-142501
      rlm resume 20260131 --json
    """
    from rlm.cli.console.progress import Progress
    from rlm.results import RunResult
    from rlm.runtime import RLM
    from rlm.settings import Settings
    from rlm.tasks.comparison.table import Comparison

    left, job = with_journal(store, lambda journal: _resumable(journal, run))
    if left.result is not None and job is None:
        leave_with(left.result, as_json=as_json, quiet=quiet)
        return
    settings = Settings(sandbox=_level(sandbox, left), store=store, facts=left.model_facts)
    with Progress(quiet=quiet, seconds=left.facts["limits"]["seconds"]) as progress:
        rlm = RLM(
            left.facts["model"],
            sub_model=left.facts["sub_model"],
            summary_model=left.facts["summary_model"],
            settings=settings,
            observe=progress.on_event,
        )
        try:
            found = run_interruptible(_resumed(rlm, left.run_id, job))
        except KeyboardInterrupt:
            progress.close()
            raise interrupted(left.run_id) from None
    if isinstance(found, RunResult):
        leave_with(found, as_json=as_json, quiet=quiet)
    elif isinstance(found, Comparison):
        leave_with_comparison(found, as_json=as_json)
    else:
        leave_with_research(found, None, as_json=as_json, quiet=quiet)


def replay(
    run: RunArgument,
    sandbox: SandboxOption = "auto",
    store: StoreOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go through a whole run again, offline: its code in a new kernel, every reply from the journal.

    The answer must come out the same, byte by byte: exit code 1 says that it did not. Nothing is spent and
    nothing is written to the journal. As a model, replay:RUN gives a run's replies to another run.

    \b
    Examples:
      rlm replay 20260131-142501
      rlm ask "The same question?" the-same.txt --model replay:20260131-142501
    """
    from rlm.cli.console.progress import Progress
    from rlm.journal import default_store
    from rlm.replay import replay as replayed
    from rlm.runs.stored_run import StoredRun
    from rlm.settings import Settings

    left = with_journal(store, lambda journal: StoredRun.read(journal, run))
    settings = Settings(sandbox=_level(sandbox, left))
    with Progress(quiet=quiet, seconds=left.facts["limits"]["seconds"]) as progress:
        again = run_interruptible(
            replayed(
                left.run_id,
                store=store or default_store(os.environ),
                settings=settings,
                observe=progress.on_event,
            )
        )
    if not again.equal:
        say(f"the replay of {left.run_id} went another way: its answer is not that of the run")
        leave_with(again.result, as_json=as_json, quiet=quiet)
        raise typer.Exit(Exit.NO_ANSWER)
    leave_with(again.result, as_json=as_json, quiet=quiet)


def _level(option: SandboxOption, left: StoredRun) -> int | Literal["auto"]:
    from rlm.models.base import EXTRACTIVE

    return allowed_level(option, model_written=left.facts["model"] != EXTRACTIVE)


async def _resumable(journal: Journal, run: str) -> tuple[StoredRun, str | None]:
    """The run, and which kind of job it is, of those that are gone on with."""
    from rlm.runs.stored_run import StoredRun

    name = await journal.resolve(run)
    kind = (await journal.get(name)).settings.get("job")
    job = kind if kind in _JOBS else None
    return await StoredRun.read(journal, name, job=job), job


async def _resumed(rlm: RLM, run_id: str, job: str | None) -> RunResult | Research | Comparison:
    try:
        if job == "research":
            from rlm.tasks.reports.research import resume_research

            return await resume_research(rlm, run_id)
        if job == "compare":
            from rlm.tasks.comparison.compare import resume_comparison

            return await resume_comparison(rlm, run_id)
        return await rlm.resume(run_id)
    finally:
        await rlm.aclose()
