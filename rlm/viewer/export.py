"""A page in one file, with its data: for a reader who has neither the journal nor a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from rlm.errors import RLMError
from rlm.escaping import page_json
from rlm.viewer.page_html import page_bytes
from rlm.viewer.views import RunViews

__all__ = ["MAX_EXPORT_BYTES", "export_page"]

MAX_EXPORT_BYTES = 15_000_000
"""Data in an exported page, which a mail of 25 MB can take. The page says what was left out."""


async def export_page(views: RunViews, run: str, *, most: int = MAX_EXPORT_BYTES) -> bytes:
    """Return the page of a run, given by its full name.

    It holds the overview, the places of the citations and the events; then, while there is room, the whole
    events of the rounds, of failed children and of the others.
    """
    left = most
    kept: dict[str, Any] = {}
    async for path, piece in _gather(views, run):
        size = len(page_json(piece))
        if size <= left:
            kept[path] = piece
            left -= size
        elif left < most // 100:
            break
    return page_bytes(data={"pieces": {run: kept}, "runs": [await views.run(run)], "start": f"#/run/{run}"})


async def _gather(views: RunViews, run: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield the pieces of a run, the most important first. A damaged one is left out."""
    overview = await views.get(run, "overview")
    yield "overview", overview
    wanted = [f"place/{one['number']}" for one in (overview["result"] or {}).get("citations", ())]
    ranked: dict[int, list[str]] = {0: [], 1: [], 2: []}
    after: int | None = 0
    while after is not None:
        page = await views.get(run, path := f"events/{after}")
        yield path, page
        for event in page["events"]:
            failed = event["kind"] == "child" and event["data"].get("error")
            rank = 0 if event["kind"] in ("model_call", "cell") else 1 if failed else 2
            ranked[rank].append(f"event/{event['seq']}")
        after = page["next"]
    for path in [*wanted, *ranked[0], *ranked[1], *ranked[2]]:
        try:
            yield path, await views.get(run, path)
        except RLMError:
            continue
