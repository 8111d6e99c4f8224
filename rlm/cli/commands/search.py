"""`rlm search`: ranked passages, or matches of a regular expression, without a model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.console.display import ProgressDisplay
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.render_result import share
from rlm.cli.paths import AllowHostOption, ExcludeOption, PathsArgument, read_sources
from rlm.escaping import json_bytes, terminal_line, terminal_text
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.in_kernel.body.parts import part_at

if TYPE_CHECKING:
    from rlm.documents import Loaded, Source
    from rlm.events import Event
    from rlm.retrieval import Pack
    from rlm.retrieval.vectors.embedder import Embedder
    from rlm.sandbox.in_kernel.body.body import Body

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
    neighbors: Annotated[
        int | None,
        typer.Option(
            help="Passages to add before and after each; implies --expand neighbors.", show_default=False
        ),
    ] = None,
    expand: Annotated[
        Literal["neighbors", "section"] | None,
        typer.Option(help="Show each passage with its neighbors, or its whole section.", show_default=False),
    ] = None,
    rank: Annotated[
        Literal["bm25", "tfidf", "hybrid"],
        typer.Option(help="The ranking function; hybrid fuses BM25 with --embeddings."),
    ] = "bm25",
    embeddings: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="For --rank hybrid: a static model (folder, or name for model2vec), or a server's model, as "
            "openai:NAME or ollama:NAME. Extra hybrid.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[Literal["fts5"], typer.Option(help="The index: SQLite FTS5.")] = "fts5",
    exclude: ExcludeOption = None,
    allow_host: AllowHostOption = None,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            envvar="RLM_NO_CACHE",
            help="Neither read nor write cached texts and indexes.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print packs or hits as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress on stderr.")] = False,
) -> None:
    """Show the passages that match a query best. No model is asked."""
    from rlm.errors import UsageError

    if not query.strip():
        raise UsageError("the query is empty: give at least one word")
    if not 1 <= limit <= 1_000:
        raise UsageError(f"--limit is {limit}: give a number from 1 to 1,000")
    if neighbors is not None and expand == "section":
        raise UsageError("--neighbors cannot be combined with --expand section: leave one out")
    if (rank == "hybrid") != (embeddings is not None):
        raise UsageError("--rank hybrid and --embeddings MODEL belong together: give both or neither")
    if regex and embeddings is not None:
        raise UsageError("--regex cannot be combined with --embeddings: leave one out")
    embedder = None if embeddings is None else _embedder(embeddings)
    sources = read_sources(paths, exclude, allow_host)
    try:
        with _SearchProgress(quiet=quiet) as progress:
            if regex:
                work = _hits(query, sources, limit, progress, cached=not no_cache)
            else:
                work = _packs(
                    query,
                    sources,
                    progress,
                    cached=not no_cache,
                    limit=limit,
                    neighbors=1 if neighbors is None else neighbors,
                    expand=expand or (None if neighbors is None else "neighbors"),
                    rank=rank,
                    embedder=embedder,
                )
            found = run_interruptible(work)
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(Exit.INTERRUPTED) from None
    tokens = getattr(embedder, "tokens", 0)
    if tokens and not quiet:
        say(f"the embeddings took {tokens:,} tokens")
    _print(found, as_json=as_json)
    for warning in () if as_json or (quiet and not found["unread"]) else found["warnings"]:
        say(warning)
    if not found["hits" if regex else "packs"]:
        if not as_json:
            where = " in what was read" if found["unread"] else ""
            say(f"nothing found{where}: try other words, or --regex")
        raise typer.Exit(Exit.NO_ANSWER)


search.__doc__ = f"{search.__doc__}\n\n{EXAMPLES}"


def _embedder(model: str) -> Embedder:
    """Return the embedder of a name as models have it (`openai:NAME`), else of a static model."""
    from rlm.models.registry import PROVIDERS
    from rlm.models.resolution import resolve_embedder
    from rlm.retrieval.vectors.embedder import StaticEmbedder

    if model.partition(":")[0] in PROVIDERS:
        return resolve_embedder(model, os.environ)
    return StaticEmbedder(model)


class _SearchProgress(ProgressDisplay):
    """Shows what is read and indexed."""

    def __init__(self, *, quiet: bool) -> None:
        super().__init__("reading", quiet=quiet, interval=1.0)

    def on_read(self, name: str, size: int) -> None:
        """Show the bytes that were read so far."""
        self.show_progress(f"reading: {size / 1e6:,.0f} MB")

    def on_event(self, event: Event) -> None:
        """Show the progress of the index."""
        from rlm.events import Indexing

        if isinstance(event, Indexing):
            self.show_progress(f"indexing: {share(event.done, event.chars)} of {event.chars:,} characters")


async def _packs(
    query: str,
    sources: Sequence[Source],
    progress: _SearchProgress,
    *,
    cached: bool,
    embedder: Embedder | None,
    **options: Any,
) -> dict[str, Any]:
    from rlm.documents import default_cache
    from rlm.documents.workspace import Workspace
    from rlm.retrieval import IndexCache, default_index_cache
    from rlm.retrieval.ranking import Ranking

    with Workspace() as workspace:
        loaded = await workspace.load(
            sources, progress.on_read, cache=default_cache(os.environ) if cached else None
        )
        caches = [IndexCache(default_index_cache(os.environ))] if cached else []
        with loaded.context.open() as body:
            caches.append(IndexCache(workspace.folder / "index"))
            ranking = Ranking(body, progress.on_event, caches, embedder=embedder)
            try:
                packs = await ranking.packs(query, **options)
            finally:
                await ranking.aclose()
            return {"packs": [_pack_json(pack, body) for pack in packs], **_account(loaded)}


async def _hits(
    pattern: str, sources: Sequence[Source], limit: int, progress: _SearchProgress, *, cached: bool
) -> dict[str, Any]:

    from rlm.documents import default_cache
    from rlm.documents.workspace import Workspace
    from rlm.errors import UsageError
    from rlm.sandbox import Handle

    with Workspace() as workspace:
        loaded = await workspace.load(
            sources, progress.on_read, cache=default_cache(os.environ) if cached else None
        )
        with loaded.context.open() as body:

            def work() -> dict[str, Any]:
                hits = Handle(body).search(pattern, max_hits=limit)
                listed = [_hit_json(hit, body) for hit in hits]
                return {"hits": listed, "total": hits.total, **_account(loaded)}

            try:
                return await run_in_daemon_thread(work, name="rlm-search")
            except (ValueError, TimeoutError) as error:
                raise UsageError(f"cannot search for the pattern: {error}") from error


def _account(loaded: Loaded) -> dict[str, Any]:
    """Return the documents that were not searched, and the warnings about the input."""
    from rlm.runs.load_warnings import warnings_of

    return {"unread": list(loaded.unread), "warnings": warnings_of(loaded)}


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
    """Return the line within the document, from 1, and the part if its format has parts."""
    inside = min(char, max(0, body.chars - 1))
    document, part = body.document_at(inside), part_at(body, inside)
    line = body.line_of(char) + 1 - (body.line_of(document.start) if document else 0)
    return {"line": line, **({"part": part} if part else {})}


def _print(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_bytes(found, indent=2))
        return
    for pack in found.get("packs", ()):
        where = _where(pack)
        path = f"  {terminal_line(' > '.join(pack['heading_path']))}" if pack["heading_path"] else ""
        typer.echo(f"{pack['order'] + 1}. {where}{path}  (score {pack['score']:.2f})")
        typer.echo(terminal_text(_indented(pack["text"])) + "\n")
    for hit in found.get("hits", ()):
        line = " ".join(hit["line_text"].split())[:_MAX_LINE]
        typer.echo(f"{_where(hit)}: {terminal_text(line)}")
    hits, total = len(found.get("hits", ())), found.get("total", 0)
    if hits < total:
        say(f"{hits:,} of {total:,} matches shown: --limit shows more")


def _where(found: dict[str, Any]) -> str:
    """Return `report.pdf, page 3`, `talk.pptx, slide 3` or `notes.md:17`."""
    page = f"page {found['page']}" if found.get("page") else ""
    within = found.get("part") or page
    return terminal_line(found["document"]) + (f", {within}" if within else f":{found['line']}")


def _indented(text: str) -> str:
    return "\n".join(f"   {line.rstrip()}" for line in text.splitlines() if line.strip())
