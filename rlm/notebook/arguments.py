"""The line of a magic: options, a question, and what to read."""

from __future__ import annotations

import argparse
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from rlm.documents import Context, Source, sources_from_arguments, sources_of
from rlm.errors import DocumentError, UsageError

__all__ = ["HELP", "Asked", "parse"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a magic asks. `context` is None for a question without a text. `output` names the variable for
    the result, "" for none. `schema` is the type of the answer, or None. None in a limit is its default."""

    question: str
    context: Context | None
    model: str | None
    sub_model: str | None
    output: str
    schema: Any
    strategy: str | None
    sandbox: str | None
    max_cost: float | None
    max_seconds: float | None


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. See %rlm?")


def _parser() -> _Parser:
    parser = _Parser("%rlm", add_help=False, allow_abbrev=False)
    add = parser.add_argument
    add("words", nargs="*", metavar="QUESTION PATH", help="the question, then files, folders or variables")
    add("-m", "--model", metavar="NAME", help="the model, such as openai:gpt-5 or extractive")
    add("--sub-model", metavar="NAME", help="the model of children (default: the model)")
    add("-o", "--output", default="", metavar="VAR", help="keep the result in this variable, too")
    add("--schema", metavar="VAR", help="a variable with the type of the answer")
    add("--strategy", choices=["auto", "rlm", "direct", "map-reduce"], help="how to answer")
    add("--sandbox", metavar="LEVEL", help="auto, or the least isolation of the kernel, 0 to 3")
    add("--max-cost", type=float, metavar="USD", help="what the run may cost")
    add("--max-seconds", type=float, metavar="S", help="how long it may take")
    return parser


HELP = _parser().format_help().replace("usage: ", "", 1)


def parse(line: str, body: str | None, variables: Mapping[str, Any]) -> Asked:
    """Return what the line of a magic and the body of its cell ask. `variables` are those of the user.

    The first word is the question, the others are paths, URLs, or variables that hold a context. With a body,
    the body is the question if the line has none, else the text. Raises UsageError and DocumentError."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"the line has a quote that is not closed ({error}): {line.strip()}") from None
    given = _parser().parse_intermixed_args(words)
    names: list[str] = given.words
    has_question = bool(names) and (body is None or not _is_context(names[0], variables))
    question = names.pop(0) if has_question else (body or "").strip()
    if not question:
        raise UsageError('there is no question. For example: %rlm "Which charge failed?" server.log')
    found = [source for name in names for source in _sources(name, variables)]
    if has_question and body is not None and body.strip():
        found += sources_of([body])
    if given.output and not given.output.isidentifier():
        raise UsageError(f"--output {given.output} is no name of a variable")
    if given.schema is not None and given.schema not in variables:
        raise UsageError(f"--schema {given.schema}: there is no such variable")
    return Asked(
        question,
        found or None,
        given.model,
        given.sub_model,
        given.output,
        None if given.schema is None else variables[given.schema],
        given.strategy,
        given.sandbox,
        given.max_cost,
        given.max_seconds,
    )


def _is_context(word: str, variables: Mapping[str, Any]) -> bool:
    """Return whether a word names what can be read, so that it is no question."""
    try:
        _sources(word, variables)
    except (DocumentError, UsageError):
        return False
    return True


def _sources(word: str, variables: Mapping[str, Any]) -> Sequence[Source]:
    # A file wins over a variable of that name, as it does over a glob.
    if word.isidentifier() and word in variables and not Path(word).exists():
        return sources_of(variables[word])
    return sources_from_arguments([word], io.BytesIO())
