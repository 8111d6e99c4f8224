"""Summarize talk without a model: sentences of the messages under the five headings of work."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm.escaping import markdown_answer, markdown_phrase
from rlm.prompts.history import HEADINGS, Extraction
from rlm.prompts.tokens.counters import get_counter
from rlm.results import ClaimSupport, Support
from rlm.tasks.summaries.checking import CheckedSummary
from rlm.tasks.summaries.entries import Entry

__all__ = ["extract_summary"]

_COUNTER = get_counter()
_MIN_TOKENS = 300
_SHARE = 0.5
"""The share of a short text that its summary may have at most."""
_MAX_PASSES = 4
_FULL = 0.985
_STATE = re.compile(r"^state: (\S[^\n]{0,60})$", re.MULTILINE)


def extract_summary(entries: Sequence[Entry], tokens: int) -> CheckedSummary:
    """Return the most informative sentences and the state of each card, in at most `tokens` tokens."""
    names = [entry.name for entry in entries]
    messages = [entry.message for entry in entries]
    size = sum(_COUNTER.count_each([message.content for message in messages]))
    limit = min(tokens, max(_MIN_TOKENS, int(size * _SHARE)))
    states = [
        ("Current State", f"The card is in the state {state[1]}.", place)
        for place, entry in enumerate(entries)
        if entry.card and (state := _STATE.search(entry.message.content))
    ]
    extraction = Extraction(messages)
    lines = list(states)
    page, places = _page(lines, names)
    allowance = limit
    for _ in range(_MAX_PASSES):
        chosen = extraction.lines(names, allowance, _COUNTER)
        found = [*states, *((one.heading, one.text_with_speaker, one.place) for one in chosen)]
        written, at = _page(found, names)
        size = _COUNTER.count(written)
        if size <= limit and len(found) >= len(lines):
            lines, page, places = found, written, at
        if not chosen or _FULL * limit <= size <= limit:
            break
        # Headings and marks are counted only now: the next allowance is corrected by them.
        allowance = int(allowance * limit / size * (1.0 if size < limit else 0.99))
    while lines and _COUNTER.count(page) > limit:  # there may be more cards than room for their states
        lines.pop()
        page, places = _page(lines, names)
    used = sorted({place for *_, place in lines})
    numbers = {place: number for number, place in enumerate(used, 1)}
    claims = tuple(
        ClaimSupport(text, (numbers[place],), "supported", "extract", "", start, end)
        for (_, text, place), (start, end) in zip(_sorted(lines), places, strict=True)
    )
    return CheckedSummary(page, tuple(names[place] for place in used), Support(claims))


def _sorted(lines: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return sorted(lines, key=lambda line: (HEADINGS.index(line[0]), line[2]))


def _page(lines: Sequence[tuple[str, str, int]], names: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return the lines under all headings, and the place of each in the page."""
    page, places = "", []
    ordered = _sorted(lines)
    for title in HEADINGS:
        page += f"\n\n## {title}" if page else f"## {title}"
        own = [(text, place) for heading, text, place in ordered if heading == title]
        for text, place in own:
            start = len(page) + 1
            page += f"\n{_line(text, names[place])}"
            places.append((start, len(page)))
        if not own:
            page += "\nNone found."
    return page, places


def _line(text: str, name: str) -> str:
    if "```" in text or "~~~" in text:
        inside = markdown_answer(text).strip("\n").replace("\n", "\n  ")
        return f"- [{name}]\n  {inside}"
    return f"- {markdown_phrase(text)} [{name}]"
