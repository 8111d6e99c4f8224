"""`rlm compare`: one question in four ways, side by side."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.exits import Exit
from rlm.cli.console.interrupts import run_interruptible, run_with
from rlm.cli.console.outcome import print_plan, report_interrupt
from rlm.cli.console.render_result import answer_text
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_text
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN
from rlm.status import dollars, share

if TYPE_CHECKING:
    from rlm.tasks.comparison import Comparison, MethodRow

__all__ = ["compare", "print_comparison"]

EXAMPLES = """\b
Examples:
  rlm compare "What does the crane of the northern yard cost?" examples/offers
  rlm compare "Which clause ends the contract early?" contract.pdf
  rlm compare "Who is the supplier?" folder/ --model openai:gpt-5 --sub-model openai:gpt-5-mini --max-cost 0.5
  rlm compare "What failed?" big.log --method bm25 --method rlm --json

\b
  direct      one call over the input, cut at the end if it is too long
  bm25        one call over the passages that rank best for the question
  map-reduce  a child for every part, then one call over their findings
  rlm         the recursive run of rlm ask

You pay for every method. --max-cost and the other limits apply to all methods together. Each method gets a
share of what is left when it starts; the shares of rlm and map-reduce are three times as large as the others.
If the command is interrupted or killed, `rlm resume` continues it.
"""


@takes(MODELS, INPUT, RUN, LIMITS, OUTPUT, JOURNAL, without=("strategy",))
def compare(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.", show_default=False)],
    paths: PathsArgument = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="direct|bm25|map-reduce|rlm",
            help="Run this method only. Repeatable. Default: all four.",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """Answer one question in four ways, side by side. It shows whether you need an RLM."""
    from rlm.tasks.comparison import METHODS, plan_comparison
    from rlm.tasks.comparison import compare as run_comparison

    if not question.strip():
        raise UsageError("the question is empty: write one")
    for unknown in set(method or ()) - set(METHODS):
        raise UsageError(f"unknown --method {unknown}: use one of {', '.join(METHODS)}")
    # The warnings of a run are in its row.
    logging.getLogger("rlm").addHandler(logging.NullHandler())
    chosen = tuple(one for one in METHODS if one in method) if method else METHODS
    with options.observe() as (progress, observers):
        rlm = options.rlm(observers)
        sources = options.sources(paths)
        try:
            if options.dry_run:
                print_plan(run_interruptible(plan_comparison(rlm, sources, chosen)), as_json=options.json)
                return
            found = run_with(rlm, run_comparison(rlm, question, sources, methods=chosen))
        except KeyboardInterrupt:
            progress.close()
            raise report_interrupt(progress.run_id, progress.status.waiting) from None
    print_comparison(found, as_json=options.json)


compare.__doc__ = f"{compare.__doc__}\n\n{EXAMPLES}"


def print_comparison(found: Comparison, *, as_json: bool) -> None:
    """Print the comparison. Raises typer.Exit if no method has an answer."""
    typer.echo(json_bytes(found.to_json(), indent=2) if as_json else comparison_text(found))
    if all(row.result.answer is None for row in found.rows):
        failed = all(row.result.stop_reason == "model" for row in found.rows)
        raise typer.Exit(Exit.MODEL if failed else Exit.NO_ANSWER)


def comparison_text(found: Comparison) -> str:
    """Return the table, every answer with its sources, and the advice."""
    header = ("", "citations", "calls", "tokens in", "out", "cost", "seconds", "read")
    table = [header, *(_cells(row) for row in found.rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) if not n else cell.rjust(width) for n, (cell, width) in enumerate(both))
        for both in (list(zip(row, widths, strict=True)) for row in table)
    ]
    parts = ["\n".join(lines)]
    for row in found.rows:
        note = f" ({terminal_text(' '.join(row.note.split()))})" if row.note else ""
        shown = "no answer" if row.result.answer is None else answer_text(row.result)
        parts.append(f"{row.method}{note}\n{_indented(shown)}")
    return "\n\n".join([*parts, found.advice])


def _indented(text: str) -> str:
    """Indent an answer, so that it cannot pose as the next method or as the advice."""
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n"))


def _cells(row: MethodRow) -> tuple[str, ...]:
    coverage = row.result.coverage
    return (
        row.method,
        f"{row.verified} of {len(row.citations)}" if row.result.answer is not None else "no answer",
        f"{row.calls:,}",
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        "unknown" if row.cost_usd is None else dollars(row.cost_usd),
        f"{row.result.seconds:.1f}",
        share(max(coverage.answered_chars, coverage.read_chars), coverage.input_chars),
    )
