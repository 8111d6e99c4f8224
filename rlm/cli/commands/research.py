"""`rlm research`: a task as a tree of questions, a run for each, and a report with numbered sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.out import OutOption, written
from rlm.cli.console.outcome import interrupted, print_plan
from rlm.cli.console.render_result import account, dollars, json_bytes, plural, printable
from rlm.cli.options import PathsArgument, RunOptions, takes_run_options
from rlm.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.tasks.reports.questions import Plan
    from rlm.tasks.reports.research import Research

__all__ = ["leave_with_research", "research"]

EXAMPLES = """\b
Examples:
  rlm research "Why did the launch slip, and what did it cost?" minutes/ mails/ --out report.md
  rlm research "Compare the offers: price, notice, liability" offers/ --plan-only > plan.md
  rlm research "Compare the offers" offers/ --plan plan.md

A plan is a Markdown list of questions; deeper ones are parts of those above, and only these are asked. Look
at it with --plan-only, edit it, and give it back with --plan: so much is asked, and no more. All is one run;
each question has an equal share of its limits. Interrupted or killed, it is gone on with by rlm resume. The
report names what was found with its sources, which sources contradict each other, and what was not found.
"""


@takes_run_options(refused={"schema": "a report is Markdown"})
def research(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(help="What is to be found out.", show_default=False)],
    paths: PathsArgument,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Print the plan; research nothing.")] = False,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask the questions of this plan.", show_default=False),
    ] = None,
    questions: Annotated[int, typer.Option(min=1, help="How many questions to plan at most.")] = 8,
    out: OutOption = None,
    *,
    given: RunOptions,
) -> None:
    """Research a task over documents: a report in Markdown with numbered, verified sources."""
    read = None if plan is None else _read(plan, task)
    if plan_only and read is not None:
        written(read.markdown().rstrip("\n"), out)
        return
    with given.watched() as (progress, observers):
        rlm = given.rlm(ctx, observers, runs_code=not plan_only)
        sources = given.sources(paths)
        try:
            if given.dry_run:
                foretold = run_interruptible(_foretold(rlm, task, sources, read, questions))
                print_plan(foretold, as_json=given.as_json)
                return
            if plan_only:
                made = run_interruptible(_planned(rlm, task, sources, questions))
            else:
                found = run_interruptible(_researched(rlm, task, sources, read, questions))
        except KeyboardInterrupt:
            progress.close()
            # What only makes a plan is one call: there is nothing to go on with.
            raise interrupted(None if plan_only else progress.run_id) from None
    if plan_only:
        written(made.markdown().rstrip("\n"), out)
        if not given.quiet:
            count, share = len(made.leaves), dollars(given.max_cost / len(made.leaves))
            say(f"{plural(count, 'question')}, each of at most {share}; nothing was researched")
        return
    leave_with_research(found, out, as_json=given.as_json, quiet=given.quiet)


research.__doc__ = f"{research.__doc__}\n\n{EXAMPLES}"


def leave_with_research(found: Research, out: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Print the report, or write it to `out`. Raises typer.Exit where nothing was found."""
    as_text = printable(found.report).rstrip("\n")
    written(json_bytes(found.to_json(), indent=2).decode() if as_json else as_text, out)
    if not quiet:
        typer.echo(_account(found), err=True)
    if not found.sources:
        raise typer.Exit(Exit.MODEL if found.result.stop_reason == "model" else Exit.NO_ANSWER)


def _read(file: Path, task: str) -> Plan:
    """The plan in `file`. Raises ConfigurationError when it can't be read, UsageError for what is no plan."""
    from rlm.tasks.reports.questions import from_markdown

    try:
        return from_markdown(file.read_text(encoding="utf-8"), task)
    except OSError as error:
        raise ConfigurationError(f"--plan {file} can't be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"--plan {file} is not UTF-8 text: convert it") from None


async def _foretold(rlm: RLM, task: str, sources: Sequence[Source], plan: Plan | None, most: int) -> RunPlan:
    from rlm.tasks.reports.research import foretell_research

    return await foretell_research(rlm, task, sources, plan=plan, most=most)


async def _planned(rlm: RLM, task: str, sources: Sequence[Source], most: int) -> Plan:
    from rlm.tasks.reports.research import plan_research

    try:
        return await plan_research(rlm, task, sources, most=most)
    finally:
        await rlm.aclose()


async def _researched(
    rlm: RLM, task: str, sources: Sequence[Source], plan: Plan | None, most: int
) -> Research:
    from rlm.tasks.reports.research import research as run

    try:
        return await run(rlm, task, sources, plan=plan, most=most)
    finally:
        await rlm.aclose()


def _account(found: Research) -> str:
    count = len(found.plan.leaves)
    line = (
        f"{plural(count, 'question')}, {count - len(found.gaps):,} answered; "
        f"{plural(len(found.sources), 'source')}, {plural(len(found.conflicts), 'conflict')}, "
        f"{plural(len(found.gaps), 'gap')}"
    )
    return printable(f"{line}\n{account(found.result)}")
