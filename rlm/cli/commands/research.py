"""`rlm research`: a tree of questions, a run for each, and a report with numbered sources."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible, run_with
from rlm.cli.console.out import OutOption, write_output
from rlm.cli.console.outcome import print_account, print_plan, report_interrupt
from rlm.cli.console.render_result import account, full_account
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.errors import ConfigurationError
from rlm.escaping import json_bytes, terminal_text
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN
from rlm.status import dollars, plural

if TYPE_CHECKING:
    from rlm.tasks.reports.asking import QuestionAccount
    from rlm.tasks.reports.plan import Plan
    from rlm.tasks.reports.research import Research

__all__ = ["print_research", "research"]

_QUESTIONS = 8
"""Questions of a plan, at most."""
_WAYS = {"passages": "from its best passages", "direct": "in one call over the whole text"}

EXAMPLES = """\b
Examples:
  rlm research "What does the northern crane cost? Which insurance covers lightning?" examples/offers
  rlm research "Why did the launch slip, and what did it cost?" minutes/ mails/ --out report.md
  rlm research "Compare the offers: price, notice, liability" offers/ --plan-only > plan.md
  rlm research "Compare the offers" offers/ --plan plan.md

A plan is a Markdown list of questions. `[needs 2]` behind one says that it is asked after question 2, with
its answer; `[fact]` says that one or two passages can hold its answer. Where a question has sub-questions,
only these are asked. To choose the questions, print the plan with --plan-only, edit it, and give it to
--plan.

A research is one run, and each question gets an equal share of its limits. If it is interrupted or killed,
`rlm resume` continues it. The report begins with the answer; then come contradictions between sources, what
was not found, and the sources.
"""


@takes(MODELS, INPUT, RUN, LIMITS, OUTPUT, JOURNAL)
def research(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task.", show_default=False)],
    paths: PathsArgument = None,
    plan_only: Annotated[bool, typer.Option("--plan-only", help="Print the plan and stop.")] = False,
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ask the questions of this plan.", show_default=False),
    ] = None,
    out: OutOption = None,
    *,
    options: Options,
) -> None:
    """Research a task and report with verified sources. The report is Markdown."""
    from rlm.tasks.reports.research import estimate_research, plan_research
    from rlm.tasks.reports.research import research as run_research

    read = None if plan is None else _read(plan, task)
    if plan_only and read is not None:
        write_output(read.markdown().rstrip("\n"), out)
        return
    with options.observe() as (progress, observers):
        rlm = options.rlm(observers, runs_code=not plan_only, text_observers=progress.text_observers)
        sources = options.sources(paths)
        try:
            if options.dry_run:
                estimate = run_interruptible(
                    estimate_research(rlm, task, sources, plan=read, most=_QUESTIONS)
                )
                print_plan(estimate, as_json=options.json)
                return
            if plan_only:
                made = run_with(rlm, plan_research(rlm, task, sources, most=_QUESTIONS))
            else:
                found = run_with(rlm, run_research(rlm, task, sources, plan=read, most=_QUESTIONS))
        except KeyboardInterrupt:
            progress.close()
            # --plan-only is one call: there is nothing to resume.
            raise report_interrupt(None if plan_only else progress.run_id, progress.status.waiting) from None
    if plan_only:
        write_output(made.markdown().rstrip("\n"), out)
        if not options.quiet:
            count, share = len(made.leaves), dollars(options.limits.max_cost / len(made.leaves))
            say(f"{plural(count, 'question')}, at most {share} each; nothing was researched")
        return
    print_research(found, out, as_json=options.json, quiet=options.quiet, verbose=options.verbose)


research.__doc__ = f"{research.__doc__}\n\n{EXAMPLES}"


def print_research(
    found: Research, out: Path | None, *, as_json: bool, quiet: bool, verbose: bool = False
) -> None:
    """Print the report, or write it to `out`. Raises typer.Exit if nothing was found."""
    as_text = terminal_text(found.report).rstrip("\n")
    write_output(json_bytes(found.to_json(), indent=2).decode() if as_json else as_text, out)
    if not quiet:
        print_account(_account(found, verbose=verbose))
    if not found.sources:
        raise typer.Exit(Exit.MODEL if found.result.stop_reason == "model" else Exit.NO_ANSWER)


def _read(file: Path, task: str) -> Plan:
    """Return the plan in `file`. Raises ConfigurationError or UsageError."""
    from rlm.tasks.reports.plan import from_markdown

    try:
        return from_markdown(file.read_text(encoding="utf-8"), task)
    except OSError as error:
        raise ConfigurationError(f"cannot read --plan {file}: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"--plan {file} is not UTF-8 text: convert it first") from None


def _account(found: Research, *, verbose: bool) -> str:
    count = len(found.plan.leaves)
    line = (
        f"{count - len(found.gaps):,} of {plural(count, 'question')} answered · "
        f"{plural(len(found.sources), 'source')} · {plural(len(found.conflicts), 'conflict')} · "
    )
    if not verbose:
        return line + account(found.result)
    rows = [f"question {one.number}: {_took(one)}" for one in found.questions]
    return terminal_text("\n".join([line.removesuffix(" · "), *rows, full_account(found.result)]))


def _took(one: QuestionAccount) -> str:
    """Return what a question took, on one line."""
    outcome = "answered" if one.found else "no answer"
    if not one.calls:
        return f"{outcome}, {one.how}" if one.how in ("not asked", "failed") else f"{outcome}, no model call"
    cost = "cost unknown" if one.cost_usd is None else dollars(one.cost_usd)
    how = plural(one.rounds, "round") if one.how == "rounds" else _WAYS[one.how]
    return f"{outcome}, {how}, {plural(one.calls, 'call')}, {one.tokens:,} tokens, {cost}"
