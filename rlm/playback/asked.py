"""Identifies what a call asked, without the words of our own prompt around it.

A reply in a journal is found by the hash of the whole prompt (`call_key`). A release that changes one word
of a prompt changes every such hash. A run that is resumed or replayed then finds its replies by these
identities.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlm.models.base import Role, SliceText
from rlm.sandbox.types import Span

__all__ = ["Asked", "asked_child", "asked_direct", "asked_notes", "outline_of", "outline_of_failure"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What one call asked. `digest` goes into its journal event ("" for none). `outline` is what events
    without a digest tell of it, None where they tell too little to be sure. `failure_outline` is the same for
    the events of children that failed."""

    digest: str = ""
    outline: Hashable | None = None
    failure_outline: Hashable | None = None


def asked_child(
    model: str,
    question: str,
    pieces: Sequence[SliceText],
    *,
    numbered: bool,
    part: tuple[int, int] | None,
    sample: int,
    schema: str | None,
    retry: bool = False,
) -> Asked:
    """Identify a child's call. `retry` is the second call, after an answer that broke the schema."""
    form = [numbered, part, sample, schema, retry]
    spans = _spans([piece.span for piece in pieces if piece.span is not None])
    outline = failure = None
    if len(spans) == len(pieces) and not numbered:  # events show neither a cell's own text nor numbering
        instructions = 1 + (schema is not None)
        frames = len(pieces) + (bool(pieces) and part is not None and part[1] > 1)
        outline = ("child", model, question, spans, instructions, frames)
        failure = ("failed", spans)
    return Asked(_digest("child", model, question, pieces, form), outline, failure)


def asked_direct(
    model: str, question: str, pieces: Sequence[SliceText], *, schema: str | None, earlier: Sequence[object]
) -> Asked:
    """Identify a direct call. A run makes one over its own input, so its events need not show the
    question."""
    form = [schema, *map(str, earlier)]
    whole = all(piece.span is not None for piece in pieces)
    outline = ("direct", model, len(pieces)) if whole else None
    return Asked(_digest("direct", model, question, pieces, form), outline)


def asked_notes(model: str, last_round: int, room: int) -> Asked:
    """Identify a call for the notes of folded rounds. The calls of one folding follow each other."""
    return Asked(outline=("summary", model, last_round, room))


def outline_of(event: Mapping[str, Any]) -> Hashable | None:
    """Return the outline of a recorded reply, from the data of its journal event."""
    match event["role"]:
        case "child" if "prompt" in event:
            items = [one["section"] for one in event.get("report", {}).get("decisions", ())]
            counts = (items.count("agent"), items.count("context"))
            return ("child", event["model"], event["prompt"], _spans(event["spans"]), *counts)
        case "direct" if "report" in event:
            pieces = sum(one["section"] == "context" for one in event["report"]["decisions"])
            return ("direct", event["model"], pieces)
        case "summary" if "last_round" in event:
            return ("summary", event["model"], event["last_round"], event["room"])
        case _:
            return None


def outline_of_failure(event: Mapping[str, Any]) -> Hashable:
    """Return the outline of a child's failure, from the data of its journal event."""
    return ("failed", _spans(event["spans"]))


def _spans(spans: Sequence[Span | Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(start), int(end)) for start, end in spans)


def _digest(
    role: Role, model: str, question: str, pieces: Sequence[SliceText], form: Sequence[object]
) -> str:
    texts = [[piece.text, piece.span, piece.document] for piece in pieces]
    return hashlib.sha256(json.dumps([role, model, question, texts, form]).encode()).hexdigest()
