"""The root's policy of `extractive`: one real cell a round, through the five phases.

The cells decide, in Python over the handle. Between rounds the policy checks only whether the last cell
failed.
"""

from __future__ import annotations

from rlm.errors import ModelRejected
from rlm.models.base import Request
from rlm.models.offline.extractive import cells
from rlm.models.offline.extractive.answer_texts import HEADING, NO_WORDS, NOTHING, UNQUOTED
from rlm.models.offline.extractive.computing import computing_block
from rlm.models.offline.extractive.records.cell import records_cell
from rlm.models.offline.extractive.repeats import MIN_REPEATED, TIMESTAMP
from rlm.models.offline.extractive.words import (
    asks_when,
    distinctive_terms,
    is_overview,
    parts,
    subject_words,
    terms,
)

__all__ = ["next_block"]

_MAX_BYTES = 40_000
"""Bytes that the last child reads. They fit its prompt in any script."""
_PIECE = 6_000
_MAX_PIECES = 40
_LARGE = 20_000_000
"""Inputs above this size are indexed for ranking only when a search has not found enough."""
_QUERY = 1_900
"""Characters of a question that the ranking uses."""
_SEARCH_REPORTED = 3
"""The first round in which the result of searching the whole input is known."""

_RECORDS_READ = 2
"""The round after the one that looked whether there are records."""
_HAS_RECORDS = "'records': True"
_COUNTING_SECONDS = 30

_SEARCHING = (cells.LOAD, cells.ORIENT, cells.WINDOWS, cells.RECURSE, cells.CONVERGE)
_SPREADING = (cells.LOAD, cells.SPREAD, cells.RECURSE, cells.CONVERGE)


def next_block(request: Request) -> str:
    """Return the reply of this round, one repl block. After a cell that failed, that is a shorter search.
    Raises ModelRejected when that failed, too."""
    cell = request.last_cell
    failed = cell is not None and cell.status != "ok"
    if cell is not None and cell.stdout.startswith("rescue"):
        raise ModelRejected(
            f"extractive cannot continue: its blocks of the last two rounds failed "
            f"({cell.ename}: {cell.evalue}); ask again, or use a model"
        )
    computed = None if failed else computing_block(request.task, request.round)
    heading = f"{HEADING}\n"
    block = computed or _fill_template(request).strip()
    if computed is None and request.round == _RECORDS_READ and cell and _HAS_RECORDS in cell.stdout:
        # If the records answer the question, `finalize` ends the cell. If not, the search goes on in it.
        block = f"{records_cell(request.task, heading).strip()}\n\n{block}"
    return f"```repl\n{block}\n```"


def _fill_template(request: Request) -> str:
    words = terms(request.task)
    names = sorted({piece for word in words for piece in (word, *parts(word))})
    overview = is_overview(request.task)
    return _choose_template(request, words, overview).format(
        question=repr(request.task),
        terms=repr([] if overview else words),
        distinctive_terms=repr(distinctive_terms(request.task)),
        ranked=repr(subject_words(request.task)[:_QUERY] or request.task[:_QUERY]),
        names=repr([name.casefold() for name in names]),
        definitions=repr([name for name in names if name.isidentifier()]),
        when=asks_when(request.task),
        large=_LARGE,
        most_bytes=_MAX_BYTES,
        most_pieces=_MAX_PIECES,
        piece=_PIECE,
        extracts=repr(f"{HEADING}\n"),
        unquoted=repr(f"{UNQUOTED}\n"),
        counting=_COUNTING_SECONDS,
        timestamp=repr(TIMESTAMP),
        repeated=MIN_REPEATED,
        not_found=repr(NOTHING if words else NO_WORDS),
    )


def _choose_template(request: Request, words: list[str], overview: bool) -> str:
    phases = _SPREADING if overview else _SEARCHING
    cell = request.last_cell
    if cell is not None and cell.status != "ok" and not request.final:
        return cells.RESCUE
    if request.round > 1 and cell is not None and cell.status == "ok":
        searched = request.round >= _SEARCH_REPORTED
        if searched and "'kept': []" in cell.stdout:
            return cells.NOT_THERE
    if request.round > len(phases) or (request.final and request.round < len(phases)):
        return cells.STOPPED
    return cells.LOAD_ONLY if not (words or overview) else phases[request.round - 1]
