"""`rlm resume` and `rlm replay`."""

from __future__ import annotations

import os
from typing import Literal

import typer

from rlm.cli.commands.compare import print_comparison
from rlm.cli.commands.research import print_research
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible, run_with
from rlm.cli.console.outcome import print_and_exit, report_interrupt
from rlm.cli.console.progress import Progress
from rlm.cli.options import Options, takes
from rlm.cli.store import RunArgument, with_journal
from rlm.cli.telemetry import start_telemetry
from rlm.errors import UsageError
from rlm.journal import Journal, default_store
from rlm.models.base import EXTRACTIVE
from rlm.models.call_settings import CallSettings
from rlm.replay import read_replayable
from rlm.replay import replay as replay_run
from rlm.results import RunResult
from rlm.runs.stored_run import StoredRun
from rlm.runtime import RLM
from rlm.settings import Settings
from rlm.settings_table import CALL_OPTIONS, JOURNAL
from rlm.tasks import resume_job
from rlm.tasks.comparison import Comparison
from rlm.tasks.resuming import RESUMED_JOBS

__all__ = ["replay", "resume"]


@takes(JOURNAL, "option", "sub_option", "mcp", "sandbox", "json", "quiet", "verbose", tables=("models",))
def resume(
    run: RunArgument = "latest",
    *,
    options: Options,
) -> None:
    """Resume a run that was interrupted or failed.

    This includes runs that were killed, and runs whose provider failed. The journal holds the model, its
    options, the limits and the input of the run. Replies in the journal are neither requested nor paid again;
    only the code is re-run, in a new kernel. If the run has ended, its result is printed. A research or a
    comparison is one run, and keeps its answered questions.

    \b
    Examples:
      rlm resume 20260131-142501
      rlm resume 20260131 --json
    """
    stored, job = with_journal(options.store, lambda journal: _resumable(journal, run))
    if stored.result is not None and job is None:
        print_and_exit(stored.result, as_json=options.json, quiet=options.quiet, verbose=options.verbose)
        return
    store = options.store
    settings = Settings(
        sandbox=_level(options, stored),
        store=store,
        options=_with_headers(options, "option", stored, "model").over(stored.calls("model")),
        sub_options=_with_headers(options, "sub_option", stored, "sub_model").over(stored.calls("sub_model")),
        facts=stored.model_facts,
    )
    start_telemetry()
    seconds = stored.facts["limits"]["seconds"]
    with Progress(quiet=options.quiet, seconds=seconds, verbose=options.verbose) as progress:
        rlm = RLM(
            stored.facts["model"],
            sub_models=stored.sub_models,
            summary_model=stored.facts["summary_model"],
            settings=settings,
            mcp_servers=options.files.servers(options.mcp or (), os.environ),
            observe=progress.on_event,
            observe_text=progress.text_observers,
        )
        try:
            found = run_with(rlm, resume_job(rlm, stored.run_id))
        except KeyboardInterrupt:
            progress.close()
            raise report_interrupt(stored.run_id, progress.status.waiting) from None
    if isinstance(found, RunResult):
        print_and_exit(found, as_json=options.json, quiet=options.quiet, verbose=options.verbose)
    elif isinstance(found, Comparison):
        print_comparison(found, as_json=options.json)
    else:
        print_research(found, None, as_json=options.json, quiet=options.quiet, verbose=options.verbose)


@takes(JOURNAL, "sandbox", "json", "quiet")
def replay(
    run: RunArgument = "latest",
    *,
    options: Options,
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
    stored = with_journal(options.store, lambda journal: read_replayable(journal, run))
    settings = Settings(sandbox=_level(options, stored))
    with Progress(quiet=options.quiet, seconds=stored.facts["limits"]["seconds"]) as progress:
        replayed = run_interruptible(
            replay_run(
                stored.run_id,
                store=options.store or default_store(os.environ),
                settings=settings,
                observe=progress.on_event,
            )
        )
    if not replayed.equal:
        say(f"the replay of {stored.run_id} diverged: its answer differs from that of the run")
        print_and_exit(replayed.result, as_json=options.json, quiet=options.quiet)
        raise typer.Exit(Exit.NO_ANSWER)
    if not options.quiet:
        say(f"the replay of {stored.run_id} gives the same answer")
    print_and_exit(replayed.result, as_json=options.json, quiet=options.quiet)


def _level(options: Options, stored: StoredRun) -> int | Literal["auto"]:
    return options.level(model_written=stored.facts["model"] != EXTRACTIVE)


def _with_headers(
    options: Options, name: Literal["option", "sub_option"], stored: StoredRun, kind: str
) -> CallSettings:
    """Return the given options with the headers that the user's settings files set for the model. Raises
    UsageError if one is missing that the run was begun with: the journal keeps only their names."""
    given = options.call_settings(name)
    wanted = stored.headers(kind)
    if not wanted:
        return given
    model = stored.facts[kind]
    facts = options.files.models.get(model)
    if facts is not None:
        given = given.over(CallSettings(headers=facts.calls.headers))
    missing = [one for one in wanted if one not in given.headers]
    if missing:
        raise UsageError(
            f"run {stored.run_id} was begun with the header {missing[0]} for {model}, whose value is not "
            f"stored: add {CALL_OPTIONS[name].flag} headers.{missing[0]}=VALUE"
        )
    return given


async def _resumable(journal: Journal, run: str) -> tuple[StoredRun, str | None]:
    """Return the run, and the kind of job that it is, if it is one."""
    name = await journal.resolve(run)
    kind = (await journal.get(name)).settings.get("job")
    job = kind if kind in RESUMED_JOBS else None
    return await StoredRun.read(journal, name, job=job), job
