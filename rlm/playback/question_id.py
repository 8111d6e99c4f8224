"""Identifies the question of a call without the words of our own prompt around it.

A reply in a journal is found by the hash of the whole prompt (`call_key`). A release that changes one word
of a prompt changes every such hash. A run that is resumed or replayed then finds its replies by these ids.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.models.base import Role, SliceText
from rlm.sandbox.types import Span

__all__ = [
    "QuestionId",
    "identify_check",
    "identify_child",
    "identify_direct",
    "identify_job_call",
    "identify_notes",
    "outline_of",
    "outline_of_failure",
]


_PURPOSE_WORDS = 4


@dataclass(frozen=True, slots=True)
class QuestionId:
    """The id of one question.

    `digest` goes into the journal event of the call ("" for none). Events of older releases have no digest.
    For them, `outline` holds what such an event shows of the question; None if that is too little to be
    sure. `failure_outline` is the same for events of children that failed.
    """

    digest: str = ""
    outline: Hashable | None = None
    failure_outline: Hashable | None = None


def identify_child(
    model: str,
    question: str,
    pieces: Sequence[SliceText],
    *,
    numbered: bool,
    part: tuple[int, int] | None,
    sample: int,
    schema: str | None,
    retry: bool | str = False,
    pages: Sequence[object] = (),
) -> QuestionId:
    """Identify the call of a child. `retry` marks the second call, after an answer that broke the schema. It
    is the reason if the cell refused the answer. `pages` are the references of those that it sees."""
    form = [numbered, part, sample, schema, retry, *([list(pages)] if pages else [])]
    spans = _spans([piece.span for piece in pieces if piece.span is not None])
    outline = failure = None
    if (
        len(spans) == len(pieces) and not numbered and not pages
    ):  # events show no text of a cell and no line numbering
        instructions = 1 + (schema is not None)
        frames = len(pieces) + (bool(pieces) and part is not None and part[1] > 1)
        outline = ("child", model, question, spans, instructions, frames)
        failure = ("failed", spans)
    return QuestionId(_digest("child", model, question, pieces, form), outline, failure)


def identify_direct(
    model: str, question: str, pieces: Sequence[SliceText], *, schema: str | None, earlier: Sequence[object]
) -> QuestionId:
    """Identify a direct call. A run makes only one direct call over its own input, so its outline needs no
    question."""
    form = [schema, *map(str, earlier)]
    whole = all(piece.span is not None for piece in pieces)
    outline = ("direct", model, len(pieces)) if whole else None
    return QuestionId(_digest("direct", model, question, pieces, form), outline)


def identify_check(model: str, claims: Sequence[Sequence[str]]) -> QuestionId:
    """Identify a call that checks or corrects claims. Each claim is given with what is wrong with it and the
    texts that it cites."""
    return QuestionId(_digest("check", model, "", (), claims))


def identify_notes(model: str, last_round: int, room: int) -> QuestionId:
    """Identify a call that summarizes folded rounds. The calls of one compaction have the same id and are
    found in order."""
    return QuestionId(outline=("summary", model, last_round, room))


def identify_job_call(model: str, prompt: str) -> QuestionId:
    """Identify a call that a job makes only once, by the first words of its prompt, which say its purpose.
    They stay when the rest of the prompt is reworded."""
    return QuestionId(outline=("job", model, _purpose(prompt)))


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
        case "summary" if "prompt" in event:
            return ("job", event["model"], _purpose(event["prompt"]))
        case _:
            return None


def outline_of_failure(event: Mapping[str, Any]) -> Hashable:
    """Return the outline of a child's failure, from the data of its journal event."""
    return ("failed", _spans(event["spans"]))


def _purpose(prompt: str) -> str:
    return " ".join(prompt.split(maxsplit=_PURPOSE_WORDS)[:_PURPOSE_WORDS])


def _spans(spans: Sequence[Span | Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(start), int(end)) for start, end in spans)


def _digest(
    role: Role, model: str, question: str, pieces: Sequence[SliceText], form: Sequence[object]
) -> str:
    # A text is hashed apart: escaping it as JSON would take longer than all the rest.
    texts = [
        [hashlib.sha256(piece.text.encode("utf-8", "surrogatepass")).hexdigest(), piece.span, piece.document]
        for piece in pieces
    ]
    return hashlib.sha256(json.dumps([role, model, question, texts, form]).encode()).hexdigest()
