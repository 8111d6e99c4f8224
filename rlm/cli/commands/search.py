"""`rlm search`: ranked passages, or matches of a regular expression, without a model."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.console.display import ProgressDisplay
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.streams import unfiltered
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_line, terminal_text
from rlm.settings_table import INPUT
from rlm.status import share

if TYPE_CHECKING:
    from rlm.documents import Source
    from rlm.events import Event

__all__ = ["search"]

EXAMPLES = """\b
Examples:
  rlm search "notice period" examples/offers
  rlm search '"force majeure" damages' contracts/ --expand section --limit 3
  rlm search --regex 'ERR_[0-9]+' logs/ --limit 20
  rlm search "who pays the rent" lease.pdf --json

Words in double quotes are a phrase. A query has no other operators. The index of an input above 1 MB is
cached in $XDG_CACHE_HOME/rlm/index, readable by you only. The exit code is 1 if nothing is found.
"""

_MAX_LINE = 600
_LEAST = 0.005
"""A score that is not shown as 0.00."""


@takes(INPUT, "max_seconds", "json", "quiet")
def search(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="Words, or a regular expression with --regex.", show_default=False
        ),
    ],
    paths: PathsArgument = None,
    regex: Annotated[
        bool,
        typer.Option("--regex", "-e", help="Show the matches of the regular expression QUERY, in order."),
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Maximum number of results.")] = 5,
    expand: Annotated[
        Literal["neighbors", "section"] | None,
        typer.Option(help="Show each passage with its neighbors, or its whole section.", show_default=False),
    ] = None,
    neighbors: Annotated[
        int, typer.Option(help="Passages before and after each, with --expand neighbors.", metavar="N")
    ] = 1,
    *,
    options: Options,
) -> None:
    """Show the passages that match a query best. No model is asked."""
    if not query.strip():
        raise UsageError("the query is empty: give at least one word")
    if not 1 <= limit <= 1_000:
        raise UsageError(f"--limit is {limit}: give a number from 1 to 1,000")
    sources = options.sources(paths)
    try:
        with _SearchProgress(quiet=options.quiet) as progress:
            work = _search(
                query,
                sources,
                progress,
                regex=regex,
                cached=not options.no_document_cache,
                limit=limit,
                max_seconds=options.max_seconds,
                expand=expand,
                neighbors=neighbors,
            )
            found = run_interruptible(work)
    except UsageError as error:
        # The advice is for code in a block.
        advice = ("use re.escape(text) to search for a plain text", "leave out --regex to search for words")
        raise UsageError(str(error).replace(*advice)) from None
    _print(found, query, as_json=options.json)
    for warning in () if options.json or (options.quiet and not found["unread"]) else found["warnings"]:
        say(warning)
    if not found["hits" if regex else "packs"]:
        if not options.json:
            where = " in what was read" if found["unread"] else ""
            say(f"nothing found{where}: try other words, or --regex")
        raise typer.Exit(Exit.NO_ANSWER)


search.__doc__ = f"{search.__doc__}\n\n{EXAMPLES}"


class _SearchProgress(ProgressDisplay):
    """Shows what is read and indexed."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__("reading", quiet=quiet)

    def on_read(self, name: str, size: int) -> None:
        """Show the bytes that were read so far."""
        self.show_progress(f"reading: {size / 1e6:,.0f} MB")

    def on_event(self, event: Event) -> None:
        """Show the progress of the index."""
        from rlm.events import Loading

        if isinstance(event, Loading) and event.indexed is not None:
            self.show_progress(
                f"indexing: {share(event.done, event.indexed)} of {event.indexed:,} characters"
            )


async def _search(
    query: str, sources: Sequence[Source], progress: _SearchProgress, *, regex: bool, **how: Any
) -> dict[str, Any]:
    from rlm.tasks.passages import find_matches, find_passages

    if regex:
        of_both = {name: how[name] for name in ("limit", "max_seconds", "cached")}
        return await find_matches(query, sources, on_read=progress.on_read, **of_both)
    return await find_passages(query, sources, on_read=progress.on_read, on_event=progress.on_event, **how)


def _print(found: dict[str, Any], query: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_bytes(found, indent=2))
        return
    packs = found.get("packs", ())
    best = max((pack["score"] for pack in packs), default=0.0)
    for pack in packs:
        score = f"  (score {pack['score']:.2f})" if best >= _LEAST else ""
        where = _where(pack)
        path = f"  {terminal_line(' > '.join(pack['heading_path']))}" if pack["heading_path"] else ""
        typer.echo(f"{pack['order'] + 1}. {where}{path}{score}")
        _print_passage(terminal_text(_indented(pack["text"])) + "\n", query)
    for hit in found.get("hits", ()):
        line = " ".join(hit["line_text"].split())[:_MAX_LINE]
        typer.echo(f"{_where(hit)}: {terminal_text(line)}")
    hits, total = len(found.get("hits", ())), found.get("total", 0)
    if hits < total:
        say(f"{hits:,} of {total:,} matches shown: --limit shows more")


def _print_passage(text: str, query: str) -> None:
    """Print the text, in a terminal with the words of the query in bold."""
    if not sys.stdout.isatty():
        typer.echo(text)
        return
    from rich.console import Console
    from rich.text import Text

    shown = Text(text)
    for word in re.findall(r"\w{2,}", query):
        shown.highlight_regex(re.compile(rf"\b{word}\w*", re.IGNORECASE), "bold yellow")
    Console(file=unfiltered(sys.stdout), highlight=False).print(shown, soft_wrap=True)


def _where(found: dict[str, Any]) -> str:
    """Return `report.pdf, page 3`, `talk.pptx, slide 3` or `notes.md:17`."""
    page = f"page {found['page']}" if found.get("page") else ""
    within = found.get("part") or page
    return terminal_line(found["document"]) + (f", {within}" if within else f":{found['line']}")


def _indented(text: str) -> str:
    return "\n".join(f"   {line.rstrip()}" for line in text.splitlines() if line.strip())
