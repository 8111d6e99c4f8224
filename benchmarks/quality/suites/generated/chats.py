"""Long chats: plans that change, who said what first, and what held at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from benchmarks.quality.item import Item, Rule
from benchmarks.quality.suites.generated.words import ADJECTIVES, FIRST_NAMES, GOODS, PLACES, draws_of

__all__ = ["chats"]

_MEMBERS = 8
_PLANS = 6
_CHANGES = 5
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TALK = (
    "Did anyone water the plants by the {adjective} window?",
    "I walked past the {adjective} {place} again, still closed.",
    "Sorry, my phone was off all morning.",
    "The {goods} in the hall is broken, by the way.",
    "Ha, that is exactly what my sister said about the {place}.",
    "I will be late tonight, start without me.",
    "Someone left a {adjective} scarf on the chair.",
    "Can you send me the photo from the {adjective} {place}?",
    "No idea, ask the neighbour with the {goods}.",
    "It rained on the way to the {place}, of course.",
)


class _Change(NamedTuple):
    """A statement about a plan: the message's place in the chat, who wrote it, and the day it moves to."""

    at: int
    author: str
    plan: str
    day: str


def chats(number: int, *, seed: int, chars: int) -> Item:
    """Return an item over a chat. Four kinds of questions take turns."""
    draw = draws_of("chats", seed, number)
    members = draw.sample(FIRST_NAMES, _MEMBERS)
    total = max(4 * _PLANS * _CHANGES, chars // 75)
    changes = sorted(_changes(draw, members, total))
    text, times = _chat(draw, members, total, {one.at: one for one in changes})
    question, golds, rule, group = _asked(draw, number % 4, changes, times, members)
    return Item(f"chats-{number:04d}", question, (text,), golds, rule, group)


def _changes(draw: random.Random, members: list[str], total: int) -> Iterator[_Change]:
    """Yield several statements on each plan. No two in a row name the same day."""
    plans = draw.sample([f"visit to the {one} {place}" for one in ADJECTIVES for place in PLACES], _PLANS)
    places = draw.sample(range(total), _PLANS * _CHANGES)
    for number, plan in enumerate(plans):
        before = ""
        for at in sorted(places[number * _CHANGES : (number + 1) * _CHANGES]):
            before = draw.choice([one for one in _DAYS if one != before])
            yield _Change(at, draw.choice(members), plan, before)


def _chat(
    draw: random.Random, members: list[str], total: int, changes: dict[int, _Change]
) -> tuple[str, list[datetime]]:
    """Return the chat, and the time of each message."""
    now = datetime(2024, 1, 8, 8, 0)
    lines, times = [], []
    known: set[str] = set()
    for at in range(total):
        now += timedelta(minutes=draw.randrange(1, 55))
        times.append(now)
        change = changes.get(at)
        if change is None:
            facts = {"adjective": draw.choice(ADJECTIVES), "place": draw.choice(PLACES)}
            author, said = draw.choice(members), draw.choice(_TALK).format(goods=draw.choice(GOODS), **facts)
        elif change.plan in known:
            author = change.author
            said = f"Change of plans: the {change.plan} moves to {change.day}."
        else:
            known.add(change.plan)
            author, said = change.author, f"Let us do the {change.plan} on {change.day}."
        lines.append(f"[{now:%Y-%m-%d %H:%M}] {author}: {said}")
    return "\n".join(lines) + "\n", times


def _asked(
    draw: random.Random, kind: int, changes: list[_Change], times: list[datetime], members: list[str]
) -> tuple[str, tuple[str, ...], Rule, str]:
    plan = draw.choice(sorted({one.plan for one in changes}))
    of_plan = [one for one in changes if one.plan == plan]
    if kind == 0:
        question = f"On which day of the week is the {plan}, after all changes? Answer with the day alone."
        return question, (of_plan[-1].day,), "exact", "last state"
    if kind == 1:
        until = draw.randrange(len(of_plan) - 1)
        end = times[of_plan[until + 1].at] - timedelta(minutes=1)
        question = (
            f"For which day of the week was the {plan} planned on {end:%Y-%m-%d} at {end:%H:%M}? "
            "Answer with the day alone."
        )
        return question, (of_plan[until].day,), "exact", "state at a time"
    if kind == 2:
        author = draw.choice(members)
        count = sum(one.author == author for one in changes)
        question = (
            f"How many messages did {author} write that propose a visit or move one to another day? "
            "Answer with the number alone."
        )
        return question, (str(count),), "number", "count"
    question = f"Who first proposed the {plan}? Answer with the name alone."
    return question, (of_plan[0].author,), "exact", "who"
