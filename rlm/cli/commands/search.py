"""`rlm search`: ranked passages, or the hits of a regular expression, without a model."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.options import PathsArgument

if TYPE_CHECKING:
    from rlm.documents import Source
    from rlm.events import Event
    from rlm.retrieval import Pack
    from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["search"]

EXAMPLES = """\b
Examples:
  rlm search "notice period" contracts/
  rlm search '"force majeure" damages' contracts/ --expand section --limit 3
  rlm search --regex 'ERR_[0-9]+' logs/ --limit 20
  rlm search "who pays the rent" lease.pdf --json

Words in double quotes are a phrase. Nothing else in a query has a meaning of its own. The index of an input
above 1 MB is kept under its hash in the cache folder ($XDG_CACHE_HOME/rlm/index), readable by you alone.
Exit code 1 when nothing was found.
"""

_SHOWN = 600
_PROGRESS_SECONDS = 1.0


def search(
    query: Annotated[
        str, typer.Argument(help="Words to look for, or a regex with --regex.", show_default=False)
    ],
    paths: PathsArgument,
    regex: Annotated[bool, typer.Option("--regex", "-e", help="Every match of QUERY, in order.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many at most.")] = 5,
    neighbors: Annotated[
        int | None,
        typer.Option(
            help="Passages to add on both sides of each; implies --expand neighbors.", show_default=False
        ),
    ] = None,
    expand: Annotated[
        Literal["neighbors", "section"] | None,
        typer.Option(help="Show each with its neighbours, or its whole section.", show_default=False),
    ] = None,
    rank: Annotated[Literal["bm25", "tfidf"], typer.Option(help="What decides the order.")] = "bm25",
    engine: Annotated[Literal["fts5"], typer.Option(help="The index. There is one, SQLite's FTS5.")] = "fts5",
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out what matches, as in .gitignore; may be repeated.")
    ] = None,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            envvar="RLM_NO_CACHE",
            help="Keep nothing of the input, and use nothing that is kept.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print packs or hits as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
) -> None:
    """Show the passages that fit a query best, with where they stand."""
    from rlm.documents import sources_from_arguments
    from rlm.errors import UsageError

    if not query.strip():
        raise UsageError("the query is empty: say what to look for")
    if not 1 <= limit <= 1_000:
        raise UsageError(f"--limit is {limit}: give a number from 1 to 1,000")
    if neighbors is not None and expand == "section":
        raise UsageError("--neighbors does not go with --expand section: leave one of them out")
    sources = sources_from_arguments(paths, sys.stdin.buffer, exclude=exclude or ())
    watch = _Watch(quiet=quiet)
    try:
        if regex:
            found = run_interruptible(_hits(query, sources, limit, watch, cached=not no_cache))
        else:
            found = run_interruptible(
                _packs(
                    query,
                    sources,
                    watch,
                    cached=not no_cache,
                    limit=limit,
                    neighbors=1 if neighbors is None else neighbors,
                    expand=expand or (None if neighbors is None else "neighbors"),
                    rank=rank,
                )
            )
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(Exit.INTERRUPTED) from None
    _print(found, as_json=as_json)
    if not found["hits" if regex else "packs"]:
        if not as_json:
            say("nothing was found: try other words, or --regex")
        raise typer.Exit(Exit.NO_ANSWER)


search.__doc__ = f"{search.__doc__}\n\n{EXAMPLES}"


class _Watch:
    """Progress on stderr, a line now and then."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._last = time.monotonic()

    def reading(self, name: str, size: int) -> None:
        self._say(f"reading: {size / 1e6:,.0f} MB")

    def on_event(self, event: Event) -> None:
        from rlm.cli.console.render_result import share
        from rlm.events import Indexing

        if isinstance(event, Indexing):
            self._say(f"indexing: {share(event.done, event.chars)} of {event.chars:,} characters")

    def _say(self, text: str) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._last > _PROGRESS_SECONDS:
            self._last = now
            say(text)


async def _packs(
    query: str, sources: Sequence[Source], watch: _Watch, *, cached: bool, **options: Any
) -> dict[str, Any]:
    from rlm.documents import default_cache
    from rlm.documents.workspace import Workspace
    from rlm.retrieval import IndexCache, default_index_cache
    from rlm.retrieval.ranking import Ranking

    with Workspace() as workspace:
        loaded = await workspace.load(
            sources, watch.reading, cache=default_cache(os.environ) if cached else None
        )
        kept = [IndexCache(default_index_cache(os.environ))] if cached else []
        with loaded.context.open() as body:
            ranking = Ranking(body, watch.on_event, [*kept, IndexCache(workspace.folder / "index")])
            try:
                packs = await ranking.packs(query, **options)
            finally:
                await ranking.aclose()
            return {"packs": [_pack_json(pack, body) for pack in packs]}


async def _hits(
    pattern: str, sources: Sequence[Source], limit: int, watch: _Watch, *, cached: bool
) -> dict[str, Any]:
    import asyncio

    from rlm.documents import default_cache
    from rlm.documents.workspace import Workspace
    from rlm.errors import UsageError
    from rlm.sandbox import Handle

    with Workspace() as workspace:
        loaded = await workspace.load(
            sources, watch.reading, cache=default_cache(os.environ) if cached else None
        )
        with loaded.context.open() as body:

            def work() -> dict[str, Any]:
                hits = Handle(body).search(pattern, max_hits=limit)
                return {"hits": [_hit_json(hit, body) for hit in hits], "total": hits.total}

            try:
                return await asyncio.to_thread(work)
            except (ValueError, TimeoutError) as error:
                raise UsageError(f"the pattern can't be searched for: {error}") from error


def _pack_json(pack: Pack, body: Body) -> dict[str, Any]:
    place = body.place(pack.start)
    return {
        **asdict(pack),
        "heading_path": list(pack.heading_path),
        "hits": [list(hit) for hit in pack.hits],
        **_place(pack.start, body),
        "page": place.page if place else None,
    }


def _hit_json(hit: Any, body: Body) -> dict[str, Any]:
    return {
        **{key: hit[key] for key in ("index", "start", "end", "match", "line_text", "document")},
        **_place(hit.start, body),
    }


def _place(char: int, body: Body) -> dict[str, Any]:
    """The line within the document, from 1."""
    document = body.document_at(min(char, max(0, body.chars - 1)))
    return {"line": body.line_of(char) + 1 - (body.line_of(document.start) if document else 0)}


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    from rlm.cli.console.render_result import json_bytes, printable

    if as_json:
        typer.echo(json_bytes(found, indent=2))
        return
    for pack in found.get("packs", ()):
        where = f"{pack['document']}" + (f", page {pack['page']}" if pack["page"] else f":{pack['line']}")
        path = f"  {' > '.join(pack['heading_path'])}" if pack["heading_path"] else ""
        typer.echo(printable(f"{pack['order'] + 1}. {where}{path}  (score {pack['score']:.2f})"))
        typer.echo(printable(_indented(pack["text"])) + "\n")
    for hit in found.get("hits", ()):
        typer.echo(
            printable(f"{hit['document']}:{hit['line']}: {' '.join(hit['line_text'].split())[:_SHOWN]}")
        )
    hits, total = len(found.get("hits", ())), found.get("total", 0)
    if hits < total:
        say(f"{hits:,} of {total:,} matches are shown: --limit shows more")


def _indented(text: str) -> str:
    return "\n".join(f"   {line.rstrip()}" for line in text.splitlines() if line.strip())
