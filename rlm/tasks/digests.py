"""Documents as a summary section by section, every line with a passage that proves it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prompts.tokens import get_counter
from prompts.words import table
from rlm.errors import BudgetExhausted, ModelError, UsageError
from rlm.evidence import cite
from rlm.markers import marked, marker, marks_in
from rlm.models.extractive.reader import extracts
from rlm.models.extractive.sentences import sentences
from rlm.quotes import locate_all
from rlm.tasks.job import Job
from rlm.tasks.sections import Section, sections_of
from rlm.types import Citation
from sandbox.requests import BadCall
from sandbox.types import ChildAnswer, ChildSlice, Span

__all__ = ["Digest", "Point", "summarize_documents"]

_SLICE_CHARS = 60_000
_OVERVIEW_SHARE = 0.15
_LEAST_OVERVIEW_TOKENS = 60
_TOKENS_A_POINT = 45
_CHARS_A_TOKEN = 3.2
_LEAST_CHARS = 150
_MOST_POINTS = 40
_COUNTER = get_counter()
_OVERVIEW = "Overview"
_SENTENCE = re.compile(r"(?<=[.!?…\]])\s+")
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "points": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"point": {"type": "string"}, "quote": {"type": "string"}},
                "required": ["point", "quote"],
            },
        }
    },
    "required": ["points"],
}


@dataclass(frozen=True, slots=True)
class Point:
    """One line of a section, and the passage of the body that it stands on."""

    section: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Digest:
    """A sectioned summary, at most the tokens asked for; `citations` are its numbered sources."""

    text: str
    sections: tuple[Section, ...]
    points: tuple[Point, ...]
    citations: tuple[Citation, ...]


async def summarize_documents(job: Job, tokens: int) -> Digest:
    """Children read the sections; each of their points must come with a quote that stands there. Without a
    model the sentences that hold most of a section's words are taken. Raises UsageError for an empty body."""
    sections = sections_of(job.body)
    if not sections:
        raise UsageError("there is nothing to summarize: the input holds no text")
    shares = _shares(sections, tokens)
    modelled = job.engine.sub_model.name != "extractive"
    points = await _read(job, sections, shares) if modelled else _extracted(job, sections, shares)
    points = _within(job, sections, points, tokens, reserve=_overview_tokens(tokens) if modelled else 0)
    overview = await _overview(job, sections, points, tokens) if modelled and points else ""
    cited = cite([point.span for point in points], "[¹]", job.body)
    return Digest(_page(sections, points, overview), sections, tuple(points), cited)


def _overview_tokens(tokens: int) -> int:
    return max(_LEAST_OVERVIEW_TOKENS, int(tokens * _OVERVIEW_SHARE))


def _shares(sections: Sequence[Section], tokens: int) -> list[int]:
    """Tokens for each section: longer ones get more, not in proportion."""
    weights = [math.sqrt(section.chars) for section in sections]
    room = tokens - _overview_tokens(tokens)
    return [max(1, int(room * weight / sum(weights))) for weight in weights]


def _slices(section: Section) -> list[Span]:
    count = max(1, -(-section.chars // _SLICE_CHARS))
    borders = [section.start + section.chars * at // count for at in range(count + 1)]
    return [Span(*pair) for pair in itertools.pairwise(borders)]


def _extracted(job: Job, sections: Sequence[Section], shares: Sequence[int]) -> list[Point]:
    points: list[Point] = []
    for number, (section, share) in enumerate(zip(sections, shares, strict=True)):
        spans = _slices(section)
        budget = max(_LEAST_CHARS, int(share * _CHARS_A_TOKEN / len(spans)))
        for span in spans:
            text = job.body.text(*span)
            found = [(one.start, one.end) for one in extracts("Summarize the text.", [text], budget=budget)]
            for start, end in found or _head(text, budget):
                words = " ".join(text[start:end].split())
                points.append(Point(number, words, Span(span.start + start, span.start + end)))
        job.coverage.note_read(spans)
    return points


def _head(text: str, budget: int) -> list[tuple[int, int]]:
    """The first sentences, where all say the same and none stands out."""
    chosen: list[tuple[int, int]] = []
    for start, end in sentences(text):
        budget -= end - start
        if chosen and budget < 0:
            break
        chosen.append((start, end))
    return chosen


async def _read(job: Job, sections: Sequence[Section], shares: Sequence[int]) -> list[Point]:
    """The points that children found. What no child could read is extracted instead."""
    prompts: list[str] = []
    wanted: list[tuple[int, Span]] = []
    for number, (section, share) in enumerate(zip(sections, shares, strict=True)):
        spans = _slices(section)
        most = max(1, min(_MOST_POINTS, share // _TOKENS_A_POINT // len(spans)))
        prompt = table("tasks.toml")["section"].strip().format(title=section.title, points=most)
        prompts += [prompt] * len(spans)
        wanted += [(number, span) for span in spans]
    try:
        answers = await job.children(prompts, [ChildSlice((span,)) for _, span in wanted], schema=_SCHEMA)
    except BadCall as error:
        raise UsageError(f"the sections can't be read: {error}; raise that limit") from error
    points: list[Point] = []
    unproved = 0
    for (number, span), answer in zip(wanted, answers, strict=True):
        if answer.error is not None:
            if answer.error_type in ("limit", "model"):
                job.stop_reason = "model" if answer.error_type == "model" else _limit(answer)
            job.warn(
                f"{sections[number].title}: no child could read it ({answer.error}); extracts stand there"
            )
            part = replace(sections[number], start=span.start, end=span.end)
            found = _extracted(job, [part], [shares[number]])
            points += [replace(point, section=number) for point in found]
            continue
        proved, lost = _proved(job, number, span, answer)
        points += proved
        unproved += lost
    if unproved:
        job.warn(f"{unproved:,} points were left out: their quotes do not stand in the text")
    return points


def _limit(answer: ChildAnswer) -> Any:
    reason = answer.error or ""
    return next((word for word in ("cost", "tokens", "time") if word in reason), "sub_calls")


def _proved(job: Job, number: int, span: Span, answer: ChildAnswer) -> tuple[list[Point], int]:
    given = answer.value["points"] if isinstance(answer.value, Mapping) else []
    pairs = [(" ".join(one["point"].split()), one["quote"]) for one in given]
    places = locate_all([quote for _, quote in pairs], job.body, [span]) if pairs else []
    points = [
        Point(number, text, place)
        for (text, _), place in zip(pairs, places, strict=True)
        if text and place is not None and span.start <= place.start and place.end <= span.end
    ]
    return points, len(pairs) - len(points)


async def _overview(job: Job, sections: Sequence[Section], points: Sequence[Point], tokens: int) -> str:
    """Plain prose over all points; sentences that name no source that there is are left out."""
    room = min(_overview_tokens(tokens), tokens - _COUNTER.count(_page(sections, points, "")) - 10)
    if room < _LEAST_OVERVIEW_TOKENS // 2:
        return ""
    ask = table("tasks.toml")["overview"].strip().format(words=int(room * 0.6))
    listed = "\n".join(
        f"[{number}] ({sections[point.section].title}) {point.text}" for number, point in enumerate(points, 1)
    )
    try:
        said = await job.ask(job.engine.summary_model, f"{ask}\n\n---\n\n{listed}", 2 * room)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"there is no overview: {error}")
        job.stopped(error)
        return ""
    kept: list[str] = []
    quotes = dict.fromkeys(range(1, len(points) + 1), "")
    for sentence in _SENTENCE.split(" ".join(said.split())):
        marks = [number for mark in marks_in(sentence) for number in mark.numbers]
        if not marks or not all(number in quotes for number in marks):
            continue
        longer = [*kept, marked(sentence, quotes)]
        if _COUNTER.count(" ".join(longer)) > room:
            break
        kept = longer
    return " ".join(kept)


def _within(
    job: Job, sections: Sequence[Section], points: list[Point], tokens: int, *, reserve: int
) -> list[Point]:
    """The points that `tokens` hold, less the `reserve`: the last of the fullest section go first."""
    dropped = 0
    room = max(1, tokens - reserve)
    while points and _COUNTER.count(_page(sections, points, "")) > room:
        sizes: dict[int, int] = {}
        for point in points:
            sizes[point.section] = sizes.get(point.section, 0) + len(point.text)
        fullest = max(sizes, key=lambda number: sizes[number])
        last = max(at for at, point in enumerate(points) if point.section == fullest)
        points = points[:last] + points[last + 1 :]
        dropped += 1
    empty = len(sections) - len({point.section for point in points})
    if dropped and empty:
        job.warn(f"{empty:,} of {len(sections):,} sections have no line: {tokens:,} tokens do not hold more")
    return points


def _page(sections: Sequence[Section], points: Sequence[Point], overview: str) -> str:
    parts = [f"## {_OVERVIEW}\n{overview}"] if overview else []
    numbered = list(enumerate(points, 1))
    for number, section in enumerate(sections):
        lines = [f"- {point.text} {marker(at)}" for at, point in numbered if point.section == number]
        if lines:
            parts.append("\n".join([f"## {section.title}", *lines]))
    return "\n\n".join(parts)
