"""Summarize documents section by section. Each line cites a passage that proves it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlm.answers.citations import cite_spans
from rlm.answers.quote_places import Wanted, find_places
from rlm.citation_markers import disarm_marks, marker, unknown_marks, write_marks
from rlm.errors import BudgetExhausted, ModelError, UsageError, cause_of
from rlm.escaping import markdown_answer, markdown_phrase
from rlm.lazy_dataclass import dataclass
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.results import Citation
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import ChildAnswer, ChildSlice, Span
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.extracts import choose_sentences
from rlm.tasks.summaries.sections import DocumentSection, cut_evenly, sections_of

__all__ = ["Digest", "summarize_documents"]

_SLICE_CHARS = 60_000
_OVERVIEW_SHARE = 0.15
_MIN_OVERVIEW_TOKENS = 60
_TOKENS_PER_POINT = 45
_MAX_POINTS = 40
_COUNTER = get_counter()
_OVERVIEW = "Overview"
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
class _Point:
    """One line of a section, and the passage of the body that proves it."""

    section: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Digest:
    """A summary in sections, and its numbered sources."""

    text: str
    citations: tuple[Citation, ...]


async def summarize_documents(job: Job, tokens: int, *, by_model: bool = True) -> Digest:
    """Summarize the body in at most `tokens` tokens.

    Children read the sections, and each of their points must have a quote that is in the section. If not
    `by_model`, the points are the most informative sentences. Raises UsageError for an empty body.
    """
    sections = sections_of(job.body)
    if not sections:
        raise UsageError("there is nothing to summarize: the input has no text")
    room = _overview_tokens(tokens) if by_model else 0
    shares = _share_tokens(sections, tokens - room)
    points = await _ask_children(job, sections, shares) if by_model else _extract(job, sections, shares)
    points = _trim(job, sections, points, tokens, reserve=room)
    overview = await _write_overview(job, sections, points, tokens) if by_model and points else ""
    cited = cite_spans([point.span for point in points], job.body)
    return Digest(_page(sections, points, overview), cited)


def _overview_tokens(tokens: int) -> int:
    return max(_MIN_OVERVIEW_TOKENS, int(tokens * _OVERVIEW_SHARE))


def _share_tokens(sections: Sequence[DocumentSection], tokens: int) -> list[int]:
    """Divide the tokens between the sections in proportion to the square roots of their lengths."""
    weights = [math.sqrt(section.chars) for section in sections]
    return [max(1, int(tokens * weight / sum(weights))) for weight in weights]


def _slices(job: Job, section: DocumentSection) -> list[Span]:
    """Cut the section where sentences end, into slices that a child reads well and that fit it."""
    count = max(1, -(-section.chars // min(_SLICE_CHARS, job.chunk_chars)))
    borders = cut_evenly(job.body, section.start, section.end, count)
    return [Span(*pair) for pair in itertools.pairwise([*borders, section.end]) if pair[0] < pair[1]]


def _extract(job: Job, sections: Sequence[DocumentSection], shares: Sequence[int]) -> list[_Point]:
    """Return the most informative sentences of each section, in about its share of tokens."""
    points: list[_Point] = []
    for number, (section, share) in enumerate(zip(sections, shares, strict=True)):
        spans = _slices(job, section)
        for place in choose_sentences(job.body, spans, share):
            points.append(_Point(number, " ".join(job.body.text(*place).split()), place))
        job.coverage.note("read", spans)
    return points


async def _ask_children(job: Job, sections: Sequence[DocumentSection], shares: Sequence[int]) -> list[_Point]:
    """Return the points that children found. Uses sentences of a slice whose child failed."""
    prompts: list[str] = []
    slices: list[tuple[int, Span]] = []
    for number, (section, share) in enumerate(zip(sections, shares, strict=True)):
        spans = _slices(job, section)
        max_points = max(1, min(_MAX_POINTS, share // _TOKENS_PER_POINT // len(spans)))
        prompt = table("tasks.toml")["section"].strip().format(title=section.title, points=max_points)
        prompts += [prompt] * len(spans)
        slices += [(number, span) for span in spans]
    try:
        answers = await job.children(prompts, [ChildSlice((span,)) for _, span in slices], schema=_SCHEMA)
    except BadCall as error:
        raise UsageError(f"the sections can't be read: {error}; raise that limit") from error
    points: list[_Point] = []
    unverified = 0
    for (number, span), answer in zip(slices, answers, strict=True):
        if answer.error is not None:
            job.warn(
                f"{sections[number].title}: the child failed ({answer.error}); extracts are used instead"
            )
            part = replace(sections[number], start=span.start, end=span.end)
            extracts = _extract(job, [part], [shares[number]])
            points += [replace(point, section=number) for point in extracts]
            continue
        verified, rejected = await _verify(job, number, span, answer)
        points += verified
        unverified += rejected
    if unverified:
        job.warn(f"{unverified:,} points were left out: their quotes are not in the text")
    return points


async def _verify(job: Job, number: int, span: Span, answer: ChildAnswer) -> tuple[list[_Point], int]:
    """Return the points of an answer whose quotes are in the slice, and the number of other points."""
    entries = answer.value["points"] if isinstance(answer.value, Mapping) else []
    pairs = [(" ".join(one["point"].split()), one["quote"]) for one in entries]
    places = await find_places([Wanted(quote) for _, quote in pairs], job.body, [span])
    points = [
        _Point(number, text, place.span)
        for (text, _), place in zip(pairs, places, strict=True)
        if text and place.span is not None and span.start <= place.span.start and place.span.end <= span.end
    ]
    return points, len(pairs) - len(points)


async def _write_overview(
    job: Job, sections: Sequence[DocumentSection], points: Sequence[_Point], tokens: int
) -> str:
    """Let the summary model write prose over all points. Its text is kept as it is."""
    room = min(_overview_tokens(tokens), tokens - _COUNTER.count(_page(sections, points, "")) - 10)
    if room < _MIN_OVERVIEW_TOKENS // 2:
        return ""
    ask = table("tasks.toml")["overview"].strip().format(words=int(room * 0.6))
    listed = "\n".join(
        f"[{number}] ({sections[point.section].title}) {point.text}" for number, point in enumerate(points, 1)
    )
    try:
        prompt = f"{ask}\n\n---\n\n{listed}"
        reply = await job.ask(job.config.summary_model, prompt, 2 * room, is_answer=True)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"the summary has no overview: {cause_of(error)}")
        job.note_stop(error)
        return ""
    if unknown := unknown_marks(reply, len(points)):
        job.warn(f"the overview names points that do not exist: {', '.join(f'[{one}]' for one in unknown)}")
    return write_marks(reply.strip(), dict.fromkeys(range(1, len(points) + 1), ""))


def _trim(
    job: Job, sections: Sequence[DocumentSection], points: list[_Point], tokens: int, *, reserve: int
) -> list[_Point]:
    """Drop points until the page fits `tokens` less `reserve`: each time the last point of the fullest
    section."""
    costs = _COUNTER.count_each([f"\n- {_phrase(point.text)} {marker(len(points))}" for point in points])
    over = _COUNTER.count(_page(sections, points, "")) - max(1, tokens - reserve)
    sizes: dict[int, int] = {}
    for point, cost in zip(points, costs, strict=True):
        sizes[point.section] = sizes.get(point.section, 0) + cost
    dropped = 0
    while points and over > 0:
        kept = list(range(len(points)))
        while kept and over > 0:
            fullest = max(sizes, key=lambda number: sizes[number])
            last = max(at for at in kept if points[at].section == fullest)
            kept.remove(last)
            sizes[fullest] -= costs[last]
            over -= costs[last]
            dropped += 1
        points, costs = [points[at] for at in kept], [costs[at] for at in kept]
        over = _COUNTER.count(_page(sections, points, "")) - max(1, tokens - reserve)
    empty = len(sections) - len({point.section for point in points})
    if dropped and empty:
        job.warn(
            f"{empty:,} of {len(sections):,} sections have no line, because the summary is limited to "
            f"{tokens:,} tokens"
        )
    return points


def _page(sections: Sequence[DocumentSection], points: Sequence[_Point], overview: str) -> str:
    parts = [f"## {_OVERVIEW}\n{markdown_answer(overview)}"] if overview else []
    numbered = list(enumerate(points, 1))
    for number, section in enumerate(sections):
        lines = [f"- {_phrase(point.text)} {marker(at)}" for at, point in numbered if point.section == number]
        if lines:
            parts.append("\n".join([f"## {_phrase(section.title)}", *lines]))
    return "\n\n".join(parts)


def _phrase(text: str) -> str:
    return markdown_phrase(disarm_marks(text))
