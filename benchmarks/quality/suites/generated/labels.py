"""Messages of users, each about one subject that no label names: counts of subjects, and pairs of users.

Lines have the form of OOLONG's, and the questions the form of OOLONG's and OOLONG-Pairs'. The messages and
the golds are made here, so they are exact, and no model saw them.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from benchmarks.quality.item import Item, Rule
from benchmarks.quality.suites.generated.words import day, draws_of

__all__ = ["SUBJECTS", "labels", "pairs"]

_USERS = 18
SUBJECTS: Mapping[str, Sequence[str]] = {
    "travel": (
        "My train to {x} leaves at dawn and I still have no seat.",
        "We crossed the border at {x} after two hours in the queue.",
        "The hostel in {x} was full, so we slept on the ferry.",
        "Is it better to fly to {x} or to take the night bus?",
        "I left my passport at the hotel in {x}.",
    ),
    "cooking": (
        "The dough from the {x} recipe would not rise at all.",
        "How long do lentils simmer in the {x} stew?",
        "I burnt the onions again while making {x} soup.",
        "A pinch of salt saved the {x} sauce yesterday.",
        "Our oven is too small for the {x} roast.",
    ),
    "sport": (
        "We lost to {x} in the last minute of the match.",
        "The goalkeeper of {x} twisted an ankle in training.",
        "I ran ten kilometres along the river in {x} before breakfast.",
        "The referee in {x} ignored a clear foul.",
        "Tickets for the semi-final in {x} are gone.",
    ),
    "health": (
        "The doctor in {x} says the fever should be gone by Friday.",
        "My knee hurts since I slipped on the stairs in {x}.",
        "The dentist in {x} found two more cavities.",
        "I cannot sleep without the pills from {x}.",
        "Is a cough of three weeks a reason to see someone in {x}?",
    ),
    "money": (
        "The bank in {x} wants another signature for the loan.",
        "Rent in {x} went up again, and my salary did not.",
        "I still owe forty euros to the landlord in {x}.",
        "The tax office in {x} sent my refund to the wrong account.",
        "Which broker in {x} takes the lowest fee for shares?",
    ),
    "music": (
        "The second violin in {x} came in a bar too early.",
        "I cannot get the chorus of that song from {x} out of my head.",
        "The choir in {x} rehearses the mass on Thursdays.",
        "My guitar needs new strings before the concert in {x}.",
        "Nobody in {x} could dance to that rhythm.",
    ),
}
_TOWNS = ("Velmar", "Ostrand", "Kestrel Bay", "Luneth", "Harrow", "Pinmoor", "Sandvik", "Torvale", "Aldry")
_LIST = ", ".join(SUBJECTS)
_INTRODUCTION = (
    "The following lines are messages of users. Each message has exactly one subject, which is not written: "
    f"{_LIST}."
)


class _Message(NamedTuple):
    user: int
    subject: str
    line: str


def labels(number: int, *, seed: int, chars: int) -> Item:
    """Return an item that asks for counts of subjects. Four kinds of questions take turns."""
    draw = draws_of("labels", seed, number)
    messages = _messages(draw, chars)
    question, gold, rule, group = _ASK[number % len(_ASK)](draw, messages)
    text = "\n".join([_INTRODUCTION, *(one.line for one in messages)]) + "\n"
    return Item(f"labels-{number:04d}", f"{_subjects()} {question}", (text,), (gold,), rule, group)


def pairs(number: int, *, seed: int, chars: int) -> Item:
    """Return an item that asks for all pairs of users with a property. Three kinds take turns."""
    draw = draws_of("pairs", seed, number)
    messages = _messages(draw, chars)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for one in messages:
        counts[one.user][one.subject] += 1
    first, second = draw.sample(sorted(SUBJECTS), 2)
    kind = number % 3
    if kind == 0:
        need = _share_of(draw, [user[first] for user in counts.values()])
        wanted = f"both users have at least {need} messages about {first}"
        chosen = [user for user, own in counts.items() if own[first] >= need]
        found = set(combinations(sorted(chosen), 2))
    elif kind == 1:
        need, other = (
            _share_of(draw, [user[subject] for user in counts.values()]) for subject in (first, second)
        )
        wanted = (
            f"one user has at least {need} messages about {first}, and the other one at least {other} "
            f"messages about {second}"
        )
        ones = {user for user, own in counts.items() if own[first] >= need}
        others = {user for user, own in counts.items() if own[second] >= other}
        found = {(min(a, b), max(a, b)) for a in ones for b in others if a != b}
    else:
        wanted = f"both users have exactly as many messages about {first}"
        found = {(a, b) for a, b in combinations(sorted(counts), 2) if counts[a][first] == counts[b][first]}
    question = (
        f"{_subjects()} List all pairs of users for which this holds: {wanted}. "
        "Write each pair once, as (lower number, higher number), one pair a line, and nothing else. "
        "If there is no pair, write 0, 0."
    )
    golds = tuple(f"({a}, {b})" for a, b in sorted(found)) or ("(0, 0)",)
    text = "\n".join([_INTRODUCTION, *(one.line for one in messages)]) + "\n"
    kinds = ("both", "one and other", "equal")
    return Item(f"pairs-{number:04d}", question, (text,), golds, "set", kinds[kind])


def _subjects() -> str:
    return f"Each message has one of these subjects: {_LIST}."


def _messages(draw: random.Random, chars: int) -> list[_Message]:
    users = draw.sample(range(10_000, 99_999), _USERS)
    weights = [draw.uniform(0.5, 3.0) for _ in SUBJECTS]
    messages: list[_Message] = []
    size = len(_INTRODUCTION)
    while size < chars or len(messages) < 2 * _USERS:
        (subject,) = draw.choices(sorted(SUBJECTS), weights)
        user, words = draw.choice(users), draw.choice(SUBJECTS[subject]).format(x=draw.choice(_TOWNS))
        line = f"Date: {day(draw):%b %d, %Y} || User: {user} || Message: {words}"
        messages.append(_Message(user, subject, line))
        size += len(line) + 1
    return messages


def _share_of(draw: random.Random, counts: Sequence[int]) -> int:
    """Return a number that about a third of the counts reach, at least 1."""
    return max(1, sorted(counts, reverse=True)[draw.randrange(len(counts) // 4, len(counts) // 2)])


_Asked = tuple[str, str, Rule, str]


def _count(draw: random.Random, messages: Sequence[_Message]) -> _Asked:
    subject = draw.choice(sorted(SUBJECTS))
    gold = sum(one.subject == subject for one in messages)
    return (
        f"How many messages are about {subject}? Answer with the number alone.",
        str(gold),
        "near",
        "count",
    )


def _most(draw: random.Random, messages: Sequence[_Message]) -> _Asked:
    counts = Counter(one.subject for one in messages)
    most = draw.random() < 0.5
    wanted = max(counts.values()) if most else min(counts.values())
    gold = min(subject for subject, count in counts.items() if count == wanted)
    question = (
        f"Which subject do the {'most' if most else 'fewest'} messages have, of those that occur? If several "
        "have as many, take the first by the alphabet. Answer with the subject alone."
    )
    return question, gold, "exact", "most"


def _compare(draw: random.Random, messages: Sequence[_Message]) -> _Asked:
    first, second = draw.sample(sorted(SUBJECTS), 2)
    counts = Counter(one.subject for one in messages)
    difference = counts[first] - counts[second]
    gold = "more often" if difference > 0 else "less often" if difference else "equally often"
    question = (
        f"Is {first} the subject of messages more often than {second}, less often, or equally often? Answer "
        "with more often, less often or equally often."
    )
    return question, gold, "exact", "compare"


def _of_user(draw: random.Random, messages: Sequence[_Message]) -> _Asked:
    user, subject = draw.choice(messages).user, draw.choice(sorted(SUBJECTS))
    gold = sum(one.subject == subject and one.user == user for one in messages)
    question = f"How many messages of user {user} are about {subject}? Answer with the number alone."
    return question, str(gold), "near", "count of a user"


_ASK = (_count, _most, _compare, _of_user)
