"""Boards of issues with comments: states that comments change, counts, and who did what."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from benchmarks.quality.item import Item, Rule
from benchmarks.quality.suites.generated.words import ADJECTIVES, FIRST_NAMES, PLACES, day, draws_of

__all__ = ["boards"]

_LABELS = ("bug", "wish", "question", "docs")
_PARTS = ("import", "search", "login", "export", "printing", "calendar")
_FAULTS = ("fails", "is slow", "hangs", "shows nothing", "asks twice", "loses a line")
_COMMENTS = (
    "I see the same on the {adjective} machine in the {place}.",
    "Cannot reproduce this here.",
    "Thanks, the log from the {place} would help.",
    "It happened again after the {adjective} update.",
    "A workaround is to restart it.",
)


@dataclass(frozen=True, slots=True)
class _Issue:
    """One issue. `closed_by` is who closed it last, or "" if it is open."""

    number: int
    author: str
    opened: date
    label: str
    part: str
    closed_by: str
    comments: int
    text: str


def boards(number: int, *, seed: int, chars: int) -> Item:
    """Return an item over a board. Four kinds of questions take turns."""
    draw = draws_of("boards", seed, number)
    members = draw.sample(FIRST_NAMES, 10)
    issues: list[_Issue] = []
    size, last = 0, draw.randrange(100, 900)
    while size < chars or len(issues) < 24:
        last += draw.randrange(1, 4)
        issues.append(_issue(draw, last, members))
        size += len(issues[-1].text) + 1
    text = "\n".join(issue.text for issue in issues)
    question, gold, rule, group = _ASK[number % len(_ASK)](draw, issues)
    return Item(f"boards-{number:04d}", question, (text,), (gold,), rule, group)


def _issue(draw: random.Random, number: int, members: Sequence[str]) -> _Issue:
    author, opened, label, part = (
        draw.choice(members),
        day(draw, 2023),
        draw.choice(_LABELS),
        draw.choice(_PARTS),
    )
    lines = [
        f"#{number} The {part} {draw.choice(_FAULTS)} in the {draw.choice(ADJECTIVES)} {draw.choice(PLACES)}",
        f"opened by {author} on {opened} | label: {label} | part: {part}",
    ]
    closed_by, at, comments = "", opened, 0
    for _ in range(draw.randrange(1, 7)):
        at += timedelta(days=draw.randrange(0, 9))
        who = draw.choice(members)
        if draw.random() < 0.3:
            lines.append(f"{at} {who} {'reopened' if closed_by else 'closed'} this issue.")
            closed_by = "" if closed_by else who
            continue
        comments += 1
        words = draw.choice(_COMMENTS).format(adjective=draw.choice(ADJECTIVES), place=draw.choice(PLACES))
        lines.append(f"{at} {who} wrote: {words}")
    return _Issue(number, author, opened, label, part, closed_by, comments, "\n".join(lines) + "\n")


_Asked = tuple[str, str, Rule, str]


def _open(draw: random.Random, issues: Sequence[_Issue]) -> _Asked:
    label = draw.choice(_LABELS)
    gold = sum(one.label == label and not one.closed_by for one in issues)
    question = (
        f"How many issues with the label {label} are open, after all closing and reopening? "
        "Answer with the number alone."
    )
    return question, str(gold), "number", "count"


def _oldest(draw: random.Random, issues: Sequence[_Issue]) -> _Asked:
    found = [one for one in issues if not one.closed_by] or list(issues)
    part = draw.choice(found).part
    first = min((one for one in found if one.part == part), key=lambda one: (one.opened, one.number))
    state = "open issue" if not first.closed_by else "issue"
    question = (
        f"Which {state} of the part {part} was opened first? If several were opened on that day, take the "
        "lowest number. Answer with the number alone."
    )
    return question, str(first.number), "number", "extreme"


def _closed_by(draw: random.Random, issues: Sequence[_Issue]) -> _Asked:
    closed = [one for one in issues if one.closed_by]
    if not closed:
        return _open(draw, issues)
    one = draw.choice(closed)
    question = f"Who closed issue #{one.number}, the last time it was closed? Answer with the name alone."
    return question, one.closed_by, "exact", "who"


def _most_opened(_: random.Random, issues: Sequence[_Issue]) -> _Asked:
    counts = Counter(one.author for one in issues)
    most = max(counts.values())
    gold = min(name for name, count in counts.items() if count == most)
    question = (
        "Who opened the most issues? If several opened as many, take the first by the alphabet. "
        "Answer with the name alone."
    )
    return question, gold, "exact", "most"


_ASK = (_open, _oldest, _closed_by, _most_opened)
