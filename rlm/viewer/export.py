"""A page in one file, with its data: for a reader who has neither the journal nor a server."""

from __future__ import annotations

from typing import Any

from rlm.errors import RLMError
from rlm.escaping import page_json
from rlm.viewer.page_html import page_bytes
from rlm.viewer.run_parts import CHILDREN_A_CHUNK, STEPS_A_CHUNK
from rlm.viewer.views import RunViews

__all__ = ["MAX_EXPORT_BYTES", "export_page"]

MAX_EXPORT_BYTES = 15_000_000
"""Data in an exported page, which a mail of 25 MB can take. The page says what was left out."""
_CITATIONS = 1_000
_STEPS_IN_FULL = 500


async def export_page(views: RunViews, run: str, *, most: int = MAX_EXPORT_BYTES) -> bytes:
    """Return the page of a run, given by its full name.

    It holds the overview, the steps, the list of children and the places of the citations; then, while there
    is room, the whole calls of the steps, of failed children and of the others.
    """
    left = most
    kept: dict[str, Any] = {}
    for path in await _gather(views, run):
        if left <= 0:
            break
        try:
            piece = await views.get(run, path)
        except RLMError:
            continue  # damaged, or not there: the page says that it is missing
        size = len(page_json(piece))
        if size <= left:
            kept[path] = piece
            left -= size
    listed = [one for one in await views.runs(limit=None) if one["run_id"] == run]
    return page_bytes(data={"pieces": {run: kept}, "runs": listed, "start": f"#/run/{run}"})


async def _gather(views: RunViews, run: str) -> list[str]:
    """Return the paths of the pieces of a run, the most important first."""
    digest = await views.digest(run)
    citations = min(_CITATIONS, len((digest.result or {}).get("citations", ())))
    step_chunks: list[str] = []
    child_chunks: list[str] = []
    steps: list[str] = []
    failed: list[str] = []
    others: list[str] = []
    for node in digest.nodes:
        step_chunks += [
            f"steps/{node.index}/{chunk}" for chunk in range(-(-len(node.steps) // STEPS_A_CHUNK))
        ]
        child_chunks += [
            f"children/{node.index}/{chunk}" for chunk in range(-(-len(node.children) // CHILDREN_A_CHUNK))
        ]
        for step in node.steps[:_STEPS_IN_FULL]:
            steps += [f"event/{seq}" for seq in (step.seq, step.cell_seq) if seq]
        for child in node.children:
            named = [f"event/{seq}" for seq in (child.seq, child.error_seq) if seq]
            (failed if child.status == "failed" else others).extend(named)
    places = [f"place/{number}" for number in range(1, citations + 1)]
    return ["overview", *places, *step_chunks, *child_chunks, *steps, *failed, *others]
