"""`rlm resume` and `rlm replay`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.commands.compare import print_comparison
from rlm.cli.commands.research import print_research
from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.outcome import print_and_exit, report_interrupt
from rlm.cli.store import RunArgument, StoreOption, with_journal

if TYPE_CHECKING:
    from rlm.journal import Journal
    from rlm.results import RunResult
    from rlm.runs.stored_run import StoredRun
    from rlm.runtime import RLM
    from rlm.tasks.comparison.table import Comparison
    from rlm.tasks.reports.research import Research

__all__ = ["replay", "resume"]

_JOBS = ("research", "compare", "attempts")

Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print neither progress nor the account on stderr.")
]


def resume(
    run: RunArgument,
    sandbox: SandboxOption = "auto",
    store: StoreOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Resume a run that was interrupted or failed.

    This includes runs that were killed, and runs whose provider failed. The journal holds the model, limits
    and input of the run. Replies in the journal are neither requested nor paid again; only the code is
    re-run, in a new kernel. If the run has ended, its result is printed. A research or a comparison is one
    run, and keeps its answered questions.

    \b
    Examples:
      rlm resume 20260131-142501
      rlm resume 20260131 --json
    """
    from rlm.cli.console.progress import Progress
    from rlm.cli.telemetry import start_telemetry
    from rlm.results import RunResult
    from rlm.runtime import RLM
    from rlm.settings import Settings
    from rlm.tasks.comparison.table import Comparison

    stored, job = with_journal(store, lambda journal: _resumable(journal, run))
    if stored.result is not None and job is None:
        print_and_exit(stored.result, as_json=as_json, quiet=quiet)
        return
    settings = Settings(sandbox=_level(sandbox, stored), store=store, facts=stored.model_facts)
    start_telemetry()
    with Progress(quiet=quiet, seconds=stored.facts["limits"]["seconds"]) as progress:
        rlm = RLM(
            stored.facts["model"],
            sub_model=stored.facts["sub_model"],
            summary_model=stored.facts["summary_model"],
            settings=settings,
            observe=progress.on_event,
        )
        try:
            found = run_interruptible(_resume_job(rlm, stored.run_id, job))
        except KeyboardInterrupt:
            progress.close()
            raise report_interrupt(stored.run_id) from None
    if isinstance(found, RunResult):
        print_and_exit(found, as_json=as_json, quiet=quiet)
    elif isinstance(found, Comparison):
        print_comparison(found, as_json=as_json)
    else:
        print_research(found, None, as_json=as_json, quiet=quiet)


def replay(
    run: RunArgument,
    sandbox: SandboxOption = "auto",
    store: StoreOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Replay a run offline and compare its answer.

    The code runs in a new kernel; every reply comes from the journal. The answer must be the same, byte by
    byte; otherwise the exit code is 1. A replay spends nothing and does not write to the journal. The model
    replay:RUN gives the replies of a run to another run.

    \b
    Examples:
      rlm replay 20260131-142501
      rlm ask "The same question?" the-same.txt --model replay:20260131-142501
    """
    from rlm.cli.console.progress import Progress
    from rlm.journal import default_store
    from rlm.replay import replay as replay_run
    from rlm.runs.stored_run import StoredRun
    from rlm.settings import Settings

    stored = with_journal(store, lambda journal: StoredRun.read(journal, run))
    settings = Settings(sandbox=_level(sandbox, stored))
    with Progress(quiet=quiet, seconds=stored.facts["limits"]["seconds"]) as progress:
        replayed = run_interruptible(
            replay_run(
                stored.run_id,
                store=store or default_store(os.environ),
                settings=settings,
                observe=progress.on_event,
            )
        )
    if not replayed.equal:
        say(f"the replay of {stored.run_id} diverged: its answer differs from that of the run")
        print_and_exit(replayed.result, as_json=as_json, quiet=quiet)
        raise typer.Exit(Exit.NO_ANSWER)
    print_and_exit(replayed.result, as_json=as_json, quiet=quiet)


def _level(option: SandboxOption, stored: StoredRun) -> int | Literal["auto"]:
    from rlm.models.base import EXTRACTIVE

    return allowed_level(option, model_written=stored.facts["model"] != EXTRACTIVE)


async def _resumable(journal: Journal, run: str) -> tuple[StoredRun, str | None]:
    """Return the run, and the kind of job that it is, if it is one."""
    from rlm.runs.stored_run import StoredRun

    name = await journal.resolve(run)
    kind = (await journal.get(name)).settings.get("job")
    job = kind if kind in _JOBS else None
    return await StoredRun.read(journal, name, job=job), job


async def _resume_job(rlm: RLM, run_id: str, job: str | None) -> RunResult | Research | Comparison:
    try:
        if job == "research":
            from rlm.tasks.reports.research import resume_research

            return await resume_research(rlm, run_id)
        if job == "compare":
            from rlm.tasks.comparison.compare import resume_comparison

            return await resume_comparison(rlm, run_id)
        if job == "attempts":
            from rlm.tasks.attempts import resume_attempts

            return await resume_attempts(rlm, run_id)
        return await rlm.resume(run_id)
    finally:
        await rlm.aclose()
