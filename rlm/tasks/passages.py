"""Search without a model: ranked passages, or matches of a regular expression, with their places."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

from rlm.documents import FolderCache, Loaded, Source, default_cache
from rlm.documents.workspace import Workspace
from rlm.errors import UsageError
from rlm.events import Event
from rlm.limits import LOADING_SHARE, Limits
from rlm.retrieval import Pack
from rlm.retrieval.ranking import Ranking
from rlm.runs.notes import warnings_of
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.parts import part_at

__all__ = ["find_matches", "find_passages"]

_LEAST_SCORE = 0.005
"""A score that is shown as more than 0.00."""


def _ignore(*_: object) -> None:
    pass


async def find_passages(
    query: str,
    sources: Sequence[Source],
    *,
    limit: int = 5,
    neighbors: int = 1,
    expand: Literal["neighbors", "section"] | None = None,
    max_seconds: float | None = None,
    cached: bool = True,
    on_read: Callable[[str, int], None] = _ignore,
    on_event: Callable[[Event], None] = _ignore,
) -> dict[str, Any]:
    """Return the passages that match `query` best (`packs`, as JSON), what was not read (`unread`) and
    `warnings`. Reading takes at most `max_seconds` (default: as in a run). `cached`: texts and
    indexes are kept in the user's cache folder. `on_read` gets the document and the bytes read so far, on
    another thread; `on_event` the progress of the index. Raises UsageError."""
    if not query.strip():
        raise UsageError("the query is empty: give at least one word")
    with Workspace() as workspace:
        loaded = await _load(workspace, sources, on_read, max_seconds, cached=cached)
        caches = [FolderCache.of_user("index", os.environ)] if cached else []
        with loaded.context.open() as body:
            caches.append(FolderCache(workspace.folder / "index"))
            ranking = Ranking(body, on_event, caches)
            try:
                packs = await ranking.packs(query, limit=limit, neighbors=neighbors, expand=expand)
            finally:
                await ranking.aclose()
            # Words that most passages hold weigh nothing: such a passage is no hit next to a better one.
            packs = [pack for pack in packs if pack.score >= _LEAST_SCORE] or packs
            return {"packs": [_pack_json(pack, body) for pack in packs], **_account(loaded)}


async def find_matches(
    pattern: str,
    sources: Sequence[Source],
    *,
    limit: int = 5,
    max_seconds: float | None = None,
    cached: bool = True,
    on_read: Callable[[str, int], None] = _ignore,
) -> dict[str, Any]:
    """Return the first matches of a regular expression in order (`hits`, as JSON), their `total`, what was
    not read (`unread`) and `warnings`. Arguments are those of `find_passages`. Raises UsageError."""
    with Workspace() as workspace:
        loaded = await _load(workspace, sources, on_read, max_seconds, cached=cached)
        with loaded.context.open() as body:

            def work() -> dict[str, Any]:
                hits = Handle(body).search(pattern, max_hits=limit)
                listed = [_hit_json(hit, body) for hit in hits]
                return {"hits": listed, "total": hits.total, **_account(loaded)}

            try:
                return await run_in_daemon_thread(work, name="rlm-search")
            except (ValueError, TimeoutError) as error:
                raise UsageError(f"cannot search for the pattern: {error}") from error


async def _load(
    workspace: Workspace,
    sources: Sequence[Source],
    on_read: Callable[[str, int], None],
    max_seconds: float | None,
    *,
    cached: bool,
) -> Loaded:
    """Read the sources in the time that a run would take for it."""
    seconds = Limits().max_seconds * LOADING_SHARE if max_seconds is None else max_seconds
    return await workspace.load(
        sources, on_read, cache=default_cache(os.environ) if cached else None, seconds=seconds
    )


def _account(loaded: Loaded) -> dict[str, Any]:
    """Return the documents that were not searched, and the warnings about the input."""
    return {"unread": list(loaded.unread), "warnings": warnings_of(loaded)}


def _pack_json(pack: Pack, body: Body) -> dict[str, Any]:
    place = body.place(pack.start)
    return {
        **pack._asdict(),
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
