"""Documents as a summary section by section, every line with a passage that proves it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm.answers.citations import cite
from rlm.answers.quote_search import locate_all
from rlm.citation_markers import marked, marker, sourced
from rlm.errors import BudgetExhausted, ModelError, UsageError, cause_of
from rlm.models.base import is_extractive
from rlm.prompts.templates import table
from rlm.prompts.tokens.counters import get_counter
from rlm.results import Citation
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import ChildAnswer, ChildSlice, Span
from rlm.tasks.jobs.job import Job
from rlm.tasks.summaries.extracts import extracted
from rlm.tasks.summaries.sections import DocumentSection, parted, sections_of

__all__ = ["Digest", "summarize_documents"]

_SLICE_CHARS = 60_000
_OVERVIEW_SHARE = 0.15
_MIN_OVERVIEW_TOKENS = 60
_TOKENS_A_POINT = 45
_MAX_POINTS = 40
_GUESSES = 4
_FULL = 0.98
_SOON_READ = 1_000_000  # characters
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
    """One line of a section, and the passage of the body that it stands on."""

    section: int
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Digest:
    """A sectioned summary, at most the tokens asked for; `citations` are its numbered sources."""

    text: str
    citations: tuple[Citation, ...]


async def summarize_documents(job: Job, tokens: int) -> Digest:
    """Children read the sections; each of their points must come with a quote that stands there. Without a
    model the sentences that hold most of a section's words are taken. Raises UsageError for an empty body."""
    sections = sections_of(job.body)
    if not sections:
        raise UsageError("there is nothing to summarize: the input holds no text")
    modelled = not is_extractive(job.config.sub_model)
    shares = _shares(sections, tokens - _overview_tokens(tokens))
    points = await _read(job, sections, shares) if modelled else _filled(job, sections, tokens)
    points = _within(job, sections, points, tokens, reserve=_overview_tokens(tokens) if modelled else 0)
    overview = await _overview(job, sections, points, tokens) if modelled and points else ""
    cited = cite([point.span for point in points], "[¹]", job.body)
    return Digest(_page(sections, points, overview), cited)


def _overview_tokens(tokens: int) -> int:
    return max(_MIN_OVERVIEW_TOKENS, int(tokens * _OVERVIEW_SHARE))


def _shares(sections: Sequence[DocumentSection], tokens: int) -> list[int]:
    """Tokens for each section: longer ones get more, not in proportion."""
    weights = [math.sqrt(section.chars) for section in sections]
    return [max(1, int(tokens * weight / sum(weights))) for weight in weights]


def _slices(body: Body, section: DocumentSection) -> list[Span]:
    """The section in parts that a child can read, cut where a sentence ends."""
    count = max(1, -(-section.chars // _SLICE_CHARS))
    borders = parted(body, section.start, section.end, count)
    return [Span(*pair) for pair in itertools.pairwise([*borders, section.end]) if pair[0] < pair[1]]


def _filled(job: Job, sections: Sequence[DocumentSection], tokens: int) -> list[_Point]:
    """The telling sentences in about `tokens`. A text that is soon read is read again with what the first
    guess left."""
    allowance = tokens
    best: list[_Point] = []
    for _ in range(_GUESSES if job.body.chars <= _SOON_READ else 1):
        points = _extracted(job, sections, _shares(sections, allowance))
        size = _COUNTER.count(_page(sections, points, ""))
        if not best or size <= tokens:
            best = points
        if _FULL * tokens <= size <= tokens or (points == best and size < tokens and allowance > 2 * tokens):
            break
        allowance = int(allowance * tokens / max(1, size) * (1.0 if size < tokens else 0.98))
    return best


def _extracted(job: Job, sections: Sequence[DocumentSection], shares: Sequence[int]) -> list[_Point]:
    """The telling sentences of each section, in about its share of tokens."""
    points: list[_Point] = []
    for number, (section, share) in enumerate(zip(sections, shares, strict=True)):
        spans = _slices(job.body, section)
        for place in extracted(job.body, spans, share):
            points.append(_Point(number, " ".join(job.body.text(*place).split()), place))
        job.coverage.note_read(spans)
    return points


async def _read(job: Job, sections: Sequence[DocumentSection], shares: Sequence[int]) -> list[_Point]:
    """The points that children found. What no child could read is extracted instead."""
    prompts: list[str] = []
    wanted: list[tuple[int, Span]] = []
    for number, (section, share) in enumerate(zip(sections, shares, strict=True)):
        spans = _slices(job.body, section)
        most = max(1, min(_MAX_POINTS, share // _TOKENS_A_POINT // len(spans)))
        prompt = table("tasks.toml")["section"].strip().format(title=section.title, points=most)
        prompts += [prompt] * len(spans)
        wanted += [(number, span) for span in spans]
    try:
        answers = await job.children(prompts, [ChildSlice((span,)) for _, span in wanted], schema=_SCHEMA)
    except BadCall as error:
        raise UsageError(f"the sections can't be read: {error}; raise that limit") from error
    points: list[_Point] = []
    unproved = 0
    for (number, span), answer in zip(wanted, answers, strict=True):
        if answer.error is not None:
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


def _proved(job: Job, number: int, span: Span, answer: ChildAnswer) -> tuple[list[_Point], int]:
    given = answer.value["points"] if isinstance(answer.value, Mapping) else []
    pairs = [(" ".join(one["point"].split()), one["quote"]) for one in given]
    places = locate_all([quote for _, quote in pairs], job.body, [span]) if pairs else []
    points = [
        _Point(number, text, place)
        for (text, _), place in zip(pairs, places, strict=True)
        if text and place is not None and span.start <= place.start and place.end <= span.end
    ]
    return points, len(pairs) - len(points)


async def _overview(
    job: Job, sections: Sequence[DocumentSection], points: Sequence[_Point], tokens: int
) -> str:
    """Plain prose over all points; sentences that name no source that there is are left out."""
    room = min(_overview_tokens(tokens), tokens - _COUNTER.count(_page(sections, points, "")) - 10)
    if room < _MIN_OVERVIEW_TOKENS // 2:
        return ""
    ask = table("tasks.toml")["overview"].strip().format(words=int(room * 0.6))
    listed = "\n".join(
        f"[{number}] ({sections[point.section].title}) {point.text}" for number, point in enumerate(points, 1)
    )
    try:
        said = await job.ask(job.config.summary_model, f"{ask}\n\n---\n\n{listed}", 2 * room)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"there is no overview: {cause_of(error)}")
        job.note_stop(error)
        return ""
    kept: list[str] = []
    quotes = dict.fromkeys(range(1, len(points) + 1), "")
    for sentence in sourced(said, len(points)):
        longer = [*kept, marked(sentence, quotes)]
        if _COUNTER.count(" ".join(longer)) > room:
            break
        kept = longer
    return " ".join(kept)


def _within(
    job: Job, sections: Sequence[DocumentSection], points: list[_Point], tokens: int, *, reserve: int
) -> list[_Point]:
    """The points that `tokens` hold, less the `reserve`: the last of the fullest section go first."""
    costs = _COUNTER.count_each([f"\n- {point.text} {marker(len(points))}" for point in points])
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
        job.warn(f"{empty:,} of {len(sections):,} sections have no line: {tokens:,} tokens do not hold more")
    return points


def _page(sections: Sequence[DocumentSection], points: Sequence[_Point], overview: str) -> str:
    parts = [f"## {_OVERVIEW}\n{overview}"] if overview else []
    numbered = list(enumerate(points, 1))
    for number, section in enumerate(sections):
        lines = [f"- {point.text} {marker(at)}" for at, point in numbered if point.section == number]
        if lines:
            parts.append("\n".join([f"## {section.title}", *lines]))
    return "\n\n".join(parts)
