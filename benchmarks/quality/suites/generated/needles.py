"""Facts hidden in filler: one (S-NIAH), one among many alike, or several of many (multi-key)."""

from __future__ import annotations

import random

from benchmarks.quality.item import Item
from benchmarks.quality.suites.generated.words import ADJECTIVES, PLACES, draws_of, filler

__all__ = ["multi_key", "needle"]

_KEYS = 48
_ASKED = 3
_LINE = 6
"""Sentences of a line."""


def needle(number: int, *, seed: int, chars: int) -> Item:
    """Return an item with one code in the text."""
    draw = draws_of("needle", seed, number)
    (place, code), *_ = _codes(draw, 1)
    text = _hide(draw, [f"The access code of the {place} is {code}."], chars)
    question = f"What is the access code of the {place}? Answer with the number alone."
    return Item(f"needle-{number:04d}", question, (text,), (code,), "number", "one of one")


def multi_key(number: int, *, seed: int, chars: int) -> Item:
    """Return an item with 48 codes, of which one or three are asked for, in turn."""
    draw = draws_of("multi-key", seed, number)
    codes = _codes(draw, _KEYS)
    text = _hide(draw, [f"The access code of the {place} is {code}." for place, code in codes], chars)
    asked = draw.sample(codes, _ASKED if number % 2 else 1)
    if len(asked) == 1:
        question = f"What is the access code of the {asked[0][0]}? Answer with the number alone."
        return Item(f"multi-key-{number:04d}", question, (text,), (asked[0][1],), "number", "one of many")
    places = ", ".join(f"the {place}" for place, _ in asked)
    question = (
        f"What are the access codes of these places: {places}? Answer with the numbers, separated by commas."
    )
    golds = tuple(code for _, code in asked)
    return Item(f"multi-key-{number:04d}", question, (text,), golds, "set", "three of many")


def _codes(draw: random.Random, count: int) -> list[tuple[str, str]]:
    """Return places and their codes, each of seven digits and unique."""
    places = [f"{adjective} {place}" for adjective in ADJECTIVES for place in PLACES]
    codes = draw.sample(range(1_000_000, 10_000_000), count)
    return [(place, str(code)) for place, code in zip(draw.sample(places, count), codes, strict=True)]


def _hide(draw: random.Random, facts: list[str], chars: int) -> str:
    """Return filler of about `chars` characters with the facts at random places of it."""
    sentences: list[str] = []
    size, words = sum(map(len, facts)), filler(draw)
    while size < chars:
        sentences.append(next(words))
        size += len(sentences[-1]) + 1
    for fact in facts:
        sentences.insert(draw.randrange(len(sentences) + 1), fact)
    lines = [" ".join(sentences[at : at + _LINE]) for at in range(0, len(sentences), _LINE)]
    return "\n".join(lines) + "\n"
