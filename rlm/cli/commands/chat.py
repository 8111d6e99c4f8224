"""`rlm chat`: questions one after another about the same text, in one kernel."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Annotated

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_with
from rlm.cli.console.outcome import print_result, report_interrupt
from rlm.cli.console.progress import Progress
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.documents import Source
from rlm.errors import UsageError
from rlm.events import Event, TextDelta
from rlm.runtime import RLM
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN

__all__ = ["chat"]

_STDIN = 0
_PROMPT = "> "


@takes(MODELS, INPUT, RUN, LIMITS, OUTPUT, JOURNAL, without=("json", "dry_run", "trace"))
def chat(
    paths: PathsArgument = None,
    continued: Annotated[
        str | None,
        typer.Option("--continue", metavar="RUN", help="Ask on after that run.", show_default=False),
    ] = None,
    *,
    options: Options,
) -> None:
    """Ask questions one after another about the same text. Each is a run with limits of its own.

    A question is a line, typed or piped in. Variables of the code stay from question to question. Ctrl-D ends
    the chat.

    \b
    Examples:
      rlm chat examples/offers
      rlm chat --continue latest
    """
    if not paths and continued is None:
        raise UsageError("no PATH is given: name files or folders, or a run (--continue RUN)")
    if "-" in (paths or ()):
        raise UsageError("standard input holds the questions: name files or folders")
    talk = _Talk(options)
    rlm = options.rlm([talk.on_event], text_observers=[talk.on_text])
    sources = options.sources(paths) if paths else []
    try:
        answered = run_with(rlm, talk.hold(rlm, sources, continued))
    except KeyboardInterrupt:
        talk.close()
        raise report_interrupt(talk.run_id) from None
    if talk.run_id is not None and not options.quiet:
        say(f"to ask on: rlm chat --continue {talk.run_id}")
    if not answered:
        raise typer.Exit(Exit.NO_ANSWER)


class _Talk:
    """One chat: the progress of the question that is asked now, and the newest run."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._progress: Progress | None = None
        self.run_id: str | None = None

    async def hold(self, rlm: RLM, sources: Sequence[Source], continued: str | None) -> bool:
        """Answer questions until there are no more. Return whether the last one has an answer."""
        answered = True
        async with rlm.session(sources, after=continued) as session:
            async for question in _questions():
                options = self._options
                with Progress(
                    quiet=options.quiet, seconds=options.max_seconds, verbose=options.verbose
                ) as self._progress:
                    result = await session.run(question)
                print_result(result, quiet=options.quiet, verbose=options.verbose)
                self.run_id, answered = result.run_id, result.answer is not None
        return answered

    def on_event(self, event: Event) -> None:
        """Show an event of the question that is asked now."""
        if self._progress is not None:
            self._progress.on_event(event)
            self.run_id = self._progress.run_id or self.run_id

    def on_text(self, delta: TextDelta) -> None:
        """Show the answer while it is written."""
        if self._progress is not None:
            self._progress.on_text(delta)

    def close(self) -> None:
        """Remove the live line."""
        if self._progress is not None:
            self._progress.close()


async def _questions() -> AsyncIterator[str]:
    """Yield the lines of standard input that hold a question. On a terminal each is asked for."""
    loop = asyncio.get_running_loop()
    rest = b""
    is_open = True
    while is_open or rest:
        if sys.stdin.isatty() and not rest:
            print(_PROMPT, end="", file=sys.stderr, flush=True)  # noqa: T201
        while is_open and b"\n" not in rest:
            readable = asyncio.Event()
            with suppress(PermissionError):  # a file is always readable
                loop.add_reader(_STDIN, readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(_STDIN)
            chunk = os.read(_STDIN, 1 << 16)
            is_open = bool(chunk)
            rest += chunk
        line, _, rest = rest.partition(b"\n")
        question = line.decode("utf-8", "replace").strip()
        if question:
            yield question
