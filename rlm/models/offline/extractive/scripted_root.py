"""A root's policy without a model: one real cell a round, through the five phases.

What it decides is decided in the cells, by Python over the handle; between rounds it only looks at whether
the last cell failed.
"""

from __future__ import annotations

from rlm.errors import ModelRejected
from rlm.models.base import Request
from rlm.models.offline.extractive import cells
from rlm.models.offline.extractive.answer_texts import HEADING, NO_WORDS, NOTHING
from rlm.models.offline.extractive.computing import computing_block
from rlm.models.offline.extractive.words import asks_when, is_overview, parts, peculiar, telling, terms

__all__ = ["next_block"]

_MAX_BYTES = 40_000
"""Bytes that the last child reads: they fit its prompt whatever the script."""
_PIECE = 6_000
_MAX_PIECES = 40
_LARGE = 20_000_000
"""Characters of an input that is only indexed for ranking when a search has not found enough."""
_QUERY = 1_900
"""Characters of a question that are ranked by."""
_SEARCHED_BY = 3
"""The round in which the search of the whole input has been reported."""

_SEARCHING = (cells.LOAD, cells.ORIENT, cells.WINDOWS, cells.RECURSE, cells.CONVERGE)
_SPREADING = (cells.LOAD, cells.SPREAD, cells.RECURSE, cells.CONVERGE)


def next_block(request: Request) -> str:
    """The reply of this round: one repl block. Raises ModelRejected when a cell of its own failed."""
    cell = request.last_cell
    if cell is not None and cell.status != "ok" and not request.final:
        raise ModelRejected(
            f"extractive can't go on: its block of round {request.round - 1} failed "
            f"({cell.ename}: {cell.evalue}); ask again, or use a model"
        )
    computed = computing_block(request.task, request.round)
    return f"```repl\n{computed or _filled(request).strip()}\n```"


def _filled(request: Request) -> str:
    words = terms(request.task)
    names = sorted({piece for word in words for piece in (word, *parts(word))})
    overview = is_overview(request.task)
    return _chosen(request, words, overview).format(
        question=repr(request.task),
        terms=repr([] if overview else words),
        peculiar=repr(peculiar(request.task)),
        ranked=repr(telling(request.task)[:_QUERY] or request.task[:_QUERY]),
        names=repr([name.casefold() for name in names]),
        definitions=repr([name for name in names if name.isidentifier()]),
        when=asks_when(request.task),
        large=_LARGE,
        most_bytes=_MAX_BYTES,
        most_pieces=_MAX_PIECES,
        piece=_PIECE,
        extracts=repr(f"{HEADING}\n"),
        not_found=repr(NOTHING if words else NO_WORDS),
    )


def _chosen(request: Request, words: list[str], overview: bool) -> str:
    phases = _SPREADING if overview else _SEARCHING
    cell = request.last_cell
    if request.round > 1 and cell is not None and cell.status == "ok":
        searched = request.round >= _SEARCHED_BY
        if searched and "'kept': []" in cell.stdout:
            return cells.NOT_THERE
    if request.round > len(phases) or (request.final and request.round < len(phases)):
        return cells.STOPPED
    return cells.LOAD_ONLY if not (words or overview) else phases[request.round - 1]
