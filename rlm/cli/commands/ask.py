"""`rlm ask`: a question over files, folders or stdin."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.outcome import print_and_exit, print_plan, report_interrupt
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.cli.shorthand import find_swapped, is_file, unquoted_question
from rlm.cli.store import with_journal
from rlm.errors import ConfigurationError, UsageError
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.tasks.question import Answered

__all__ = ["ask", "takes_rounds"]

_NO_PATH = (
    "no PATH is given: name files or folders, - for stdin, or a run (--continue RUN); --no-context asks "
    "without a text"
)
_LONG_BYTES = 1 << 20
"""A file of this size is rarely short enough for one call."""

EXAMPLES = """\b
Examples:
  rlm ask "What does the crane of the northern yard cost?" examples/offers
  rlm ask "Which clause ends the contract early?" contract.txt
  rlm ask "What does heapq.merge do?" src/ --exclude 'test*'
  journalctl -b | rlm ask "Why did the network go down?" -
  rlm ask "How long is the notice?" lease.pdf --choice "one month" --choice "three months"
  rlm ask "Who is the supplier?" folder/ --model openai:gpt-5@http://localhost:8000/v1 --json
  rlm ask "Which clauses favour the tenant?" leases/ --slow
  rlm ask "And since when?" --continue 20260131-142501
  rlm ask "In how many zeros does 1000! end?" --no-context
"""


@takes(MODELS, INPUT, RUN, LIMITS, OUTPUT, JOURNAL)
def ask(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="The question.", show_default=False)],
    paths: PathsArgument = None,
    continued: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="RUN",
            help="Ask after that run, with its text, variables and model. PATHs are added to the text.",
            show_default=False,
        ),
    ] = None,
    choice: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="An answer to choose from. Repeatable.", show_default=False),
    ] = None,
    attempts: Annotated[
        int,
        typer.Option(
            min=1,
            max=20,
            help="Independent runs; the answer that most of them give is printed. They share the limits.",
        ),
    ] = 1,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON Schema for the answer.", show_default=False),
    ] = None,
    no_context: Annotated[
        bool,
        typer.Option("--no-context", help="Ask without a text: the answer is the model's own knowledge."),
    ] = False,
    *,
    options: Options,
) -> None:
    """Answer a question over any amount of text. The citations are verified."""
    if not options.dry_run and takes_rounds(paths or (), options.strategy):
        _start_forkserver()
    if no_context:
        _check_without_context(paths or (), continued, choices=choice or ())
    else:
        _check(question, paths or (), continued, dry_run=options.dry_run, choices=choice or ())
    if continued is not None:
        options = _with_models_of(continued, options)
    if attempts > 1 and continued is not None:
        raise UsageError("--attempts cannot be combined with --continue: leave one out")
    with options.observe() as (progress, observers):
        rlm = options.rlm(observers, text_observers=progress.text_observers)
        has_text = continued is not None or no_context
        sources = [] if has_text and not paths else options.sources(paths, no_path=_NO_PATH)
        context = None if no_context else sources
        try:
            if options.dry_run:
                print_plan(run_interruptible(rlm.plan(sources)), as_json=options.json)
                return
            answered = run_interruptible(
                _ask(rlm, question, context, _schema(schema), choice or (), continued, attempts)
            )
        except KeyboardInterrupt:
            progress.close()
            raise report_interrupt(progress.run_id, progress.status.waiting) from None
    print_and_exit(
        answered.result,
        as_json=options.json,
        quiet=options.quiet,
        verbose=options.verbose,
        documents=progress.status.documents,
        data=answered.to_json(),
    )


ask.__doc__ = f"{ask.__doc__}\n\n{EXAMPLES}"


def takes_rounds(paths: Sequence[str], strategy: str) -> bool:
    """Return whether the run will probably need a kernel."""
    if strategy != "auto":
        return strategy == "rlm"
    for path in paths:
        with suppress(OSError, ValueError):
            status = Path(path).stat()
            if stat.S_ISDIR(status.st_mode) or status.st_size >= _LONG_BYTES:
                return True
    return False


def _start_forkserver() -> None:
    """Start it early: its imports run in parallel with ours, which take about as long."""
    from rlm.sandbox.launch.forkserver import warm_forkserver

    warm_forkserver()


def _schema(file: Path | None) -> object:
    """Return the schema in `file`. Raises ConfigurationError if it is unreadable or no JSON object."""
    from rlm.prompts.json_input import parse_json

    if file is None:
        return None
    try:
        schema = parse_json(file.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read --schema {file}: {error.strerror}; check the path") from None
    except ValueError as error:
        raise ConfigurationError(f"--schema {file} is not JSON ({error}); give a JSON Schema") from None
    if not isinstance(schema, dict):
        raise ConfigurationError(f"--schema {file} is not a JSON object; give a JSON Schema")
    return schema


def _check(
    question: str, paths: Sequence[str], continued: str | None, *, dry_run: bool, choices: Sequence[str]
) -> None:
    if (question_given := find_swapped(question, paths)) is not None:
        raise UsageError(
            f"the question stands before the paths: rlm ask {quote(question_given)} {quote(question)}"
        )
    unquoted = unquoted_question(question, paths)
    if unquoted is not None:
        words, files = unquoted
        raise UsageError(f"quote the question: rlm ask {quote(words)} {' '.join(map(quote, files))}")
    if not paths and continued is None and is_file(question):
        raise UsageError(f"{question} is a file: give the question, too: rlm ask QUESTION {quote(question)}")
    if continued is not None and (dry_run or choices):
        option = "--dry-run" if dry_run else "--choice"
        raise UsageError(f"{option} cannot be combined with --continue: leave one out")


def _check_without_context(paths: Sequence[str], continued: str | None, *, choices: Sequence[str]) -> None:
    for given, name in ((paths, "a PATH"), (continued, "--continue"), (choices, "--choice")):
        if given:
            raise UsageError(f"--no-context cannot be combined with {name}: leave one out")


def _with_models_of(run: str, options: Options) -> Options:
    """Return the options with the models of the run and their options, if no model is given."""
    from rlm.children.sub_models import write_sub_models
    from rlm.runs.stored_run import StoredRun

    if options.model is not None:
        return options
    stored = with_journal(options.store, lambda journal: StoredRun.read(journal, run))
    facts = stored.facts
    return options.changed(
        option=[*stored.calls("model").to_pairs(), *(options.option or ())],
        sub_option=[*stored.calls("sub_model").to_pairs(), *(options.sub_option or ())],
        model=facts["model"],
        sub_model=options.sub_model or write_sub_models(stored.sub_models),
        summary_model=options.summary_model or facts["summary_model"],
    )


async def _ask(
    rlm: RLM,
    question: str,
    sources: Sequence[Source] | None,
    schema: object,
    choices: Sequence[str],
    continued: str | None,
    attempts: int,
) -> Answered:
    from rlm.tasks.question import Answered
    from rlm.tasks.question import ask as answer

    try:
        if continued is None:
            return await answer(rlm, question, sources, choices=choices, schema=schema, attempts=attempts)
        async with rlm.session(sources or (), after=continued) as session:
            return Answered(await session.run(question, schema=schema))
    finally:
        await rlm.aclose()
