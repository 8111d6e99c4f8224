"""Identifies the question of a call without the words of our own prompt around it.

A reply in a journal is found by the hash of the whole prompt (`call_key`). A release that changes one word
of a prompt changes every such hash. A run that is resumed or replayed then finds its replies by these ids,
which the journal's events hold as `asked`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from rlm.models.base import SliceText

__all__ = ["identify_check", "identify_direct", "identify_notes"]


def identify_direct(
    model: str, question: str, pieces: Sequence[SliceText], *, schema: str | None, earlier: Sequence[object]
) -> str:
    """Identify a direct call."""
    return _digest("direct", model, question, _hashes(pieces), [schema, *map(str, earlier)])


def identify_check(model: str, claims: Sequence[Sequence[str]]) -> str:
    """Identify a call that checks or corrects claims. Each claim is given with what is wrong with it and the
    texts that it cites."""
    return _digest("check", model, claims)


def identify_notes(model: str, last_round: int, room: int) -> str:
    """Identify a call that summarizes folded rounds. The calls of one compaction have the same id and are
    found in order."""
    return _digest("summary", model, last_round, room)


def _hashes(pieces: Sequence[SliceText]) -> list[object]:
    # A text is hashed apart: escaping it as JSON would take longer than all the rest.
    return [
        [hashlib.sha256(piece.text.encode("utf-8", "surrogatepass")).hexdigest(), piece.span, piece.document]
        for piece in pieces
    ]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
