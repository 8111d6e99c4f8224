"""`rlm resume` and `rlm replay`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.commands.compare import print_comparison
from rlm.cli.commands.research import print_research
from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.outcome import print_and_exit, report_interrupt
from rlm.cli.options import McpOption, OptionOption, SubOptionOption, read_options
from rlm.cli.store import RunArgument, StoreOption, with_journal
from rlm.errors import UsageError

if TYPE_CHECKING:
    from rlm.config_file.mcp_servers import McpServer
    from rlm.journal import Journal
    from rlm.models.call_settings import CallSettings
    from rlm.results import RunResult
    from rlm.runs.stored_run import StoredRun
    from rlm.runtime import RLM
    from rlm.tasks.comparison.table import Comparison
    from rlm.tasks.reports.research import Research

__all__ = ["replay", "resume"]

Json = Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print neither progress nor the account on stderr.")
]


def resume(
    run: RunArgument = "latest",
    option: OptionOption = None,
    sub_option: SubOptionOption = None,
    mcp: McpOption = None,
    sandbox: SandboxOption = "auto",
    store: StoreOption = None,
    as_json: Json = False,
    quiet: Quiet = False,
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
    root, child = read_options("--option", option), read_options("--sub-option", sub_option)
    settings = Settings(
        sandbox=_level(sandbox, stored),
        store=store,
        options=_with_headers("--option", root, stored, "model").over(stored.calls("model")),
        sub_options=_with_headers("--sub-option", child, stored, "sub_model").over(stored.calls("sub_model")),
        facts=stored.model_facts,
    )
    start_telemetry()
    with Progress(quiet=quiet, seconds=stored.facts["limits"]["seconds"]) as progress:
        rlm = RLM(
            stored.facts["model"],
            sub_models=stored.sub_models,
            summary_model=stored.facts["summary_model"],
            settings=settings,
            mcp_servers=_mcp_servers(mcp or ()),
            observe=progress.on_event,
        )
        try:
            found = run_interruptible(_resume(rlm, stored.run_id))
        except KeyboardInterrupt:
            progress.close()
            raise report_interrupt(stored.run_id, progress.waiting) from None
    if isinstance(found, RunResult):
        print_and_exit(found, as_json=as_json, quiet=quiet)
    elif isinstance(found, Comparison):
        print_comparison(found, as_json=as_json)
    else:
        print_research(found, None, as_json=as_json, quiet=quiet)


def replay(
    run: RunArgument = "latest",
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
    from rlm.replay import read_replayable
    from rlm.replay import replay as replay_run
    from rlm.settings import Settings

    stored = with_journal(store, lambda journal: read_replayable(journal, run))
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


def _mcp_servers(names: Sequence[str]) -> Mapping[str, McpServer]:
    from rlm.cli.config import choose_mcp_servers
    from rlm.config_file.loading import load_settings
    from rlm.config_file.settings_file import settings_files

    if not names:
        return {}
    return choose_mcp_servers(load_settings(settings_files(None, os.environ, Path.cwd())), names)


def _with_headers(flag: str, given: CallSettings, stored: StoredRun, kind: str) -> CallSettings:
    """Return the given options with the headers that the user's settings files set for the model. Raises
    UsageError if one is missing that the run was begun with: the journal keeps only their names."""
    from rlm.config_file.loading import load_settings
    from rlm.config_file.settings_file import settings_files
    from rlm.models.call_settings import CallSettings

    name = stored.facts[kind]
    wanted = stored.headers(kind)
    if not wanted:
        return given
    facts = load_settings(settings_files(None, os.environ, Path.cwd())).models.get(name)
    if facts is not None:
        given = given.over(CallSettings(extra_headers=facts.calls.extra_headers))
    missing = [one for one in wanted if one not in given.extra_headers]
    if missing:
        raise UsageError(
            f"run {stored.run_id} was begun with the header {missing[0]} for {name}, whose value is not "
            f"stored: add {flag} headers.{missing[0]}=VALUE"
        )
    return given


async def _resumable(journal: Journal, run: str) -> tuple[StoredRun, str | None]:
    """Return the run, and the kind of job that it is, if it is one."""
    from rlm.runs.stored_run import StoredRun
    from rlm.tasks.resuming import RESUMED_JOBS

    name = await journal.resolve(run)
    kind = (await journal.get(name)).settings.get("job")
    job = kind if kind in RESUMED_JOBS else None
    return await StoredRun.read(journal, name, job=job), job


async def _resume(rlm: RLM, run_id: str) -> RunResult | Research | Comparison:
    from rlm.tasks import resume_job

    try:
        return await resume_job(rlm, run_id)
    finally:
        await rlm.aclose()
