"""The words of which generated texts are made, and draws from them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta

__all__ = ["ADJECTIVES", "FIRST_NAMES", "GOODS", "PLACES", "day", "draws_of", "filler"]

FIRST_NAMES = (
    *("Mara", "Tobias", "Ines", "Jonas", "Aylin", "Piotr", "Sofie", "Dmitri", "Chiara", "Noor"),
    *("Henrik", "Lucia", "Owen", "Yara", "Felix", "Greta", "Ravi", "Elena", "Anton", "Zoe"),
    *("Milan", "Carla", "Bruno", "Hanna", "Emil", "Leila", "Oskar", "Nadia", "Viktor", "Ida"),
)
PLACES = (
    *("harbour", "archive", "lighthouse", "observatory", "orchard", "mill", "quarry", "chapel", "library"),
    *("workshop", "greenhouse", "ferry", "vineyard", "station", "museum", "bakery", "foundry", "theatre"),
)
ADJECTIVES = (
    *("northern", "old", "quiet", "red", "upper", "narrow", "green", "western", "hidden", "tall"),
    *("broken", "golden", "lower", "round", "distant", "grey", "second", "eastern", "stone", "blue"),
)
GOODS = ("lamp", "chair", "kettle", "ladder", "rope", "bucket", "mirror", "clock", "basket", "saw")
_SUBJECTS = (
    "The keeper",
    "A visitor",
    "The clerk",
    "Her neighbour",
    "The captain",
    "An old map",
    "The report",
)
_VERBS = ("mentions", "describes", "remembers", "passes", "sketches", "praises", "ignores", "repairs")
_ENDS = (
    *("before the rain begins", "after a long winter", "without saying why", "as every year"),
    *("while the bells ring", "in a few careful words", "to nobody's surprise", "once the fog has lifted"),
)


def draws_of(suite: str, seed: int, number: int) -> random.Random:
    """Return the source of chance of one item. It depends on nothing else, on no machine and no version of
    Python that is supported."""
    return random.Random(f"{suite}/{seed}/{number}")


def filler(draw: random.Random) -> Iterator[str]:
    """Yield sentences that say nothing a question asks for, without end."""
    while True:
        place = f"the {draw.choice(ADJECTIVES)} {draw.choice(PLACES)}"
        yield f"{draw.choice(_SUBJECTS)} {draw.choice(_VERBS)} {place} {draw.choice(_ENDS)}."


def day(draw: random.Random, year: int = 2024) -> date:
    """Return a day of the year."""
    return date(year, 1, 1) + timedelta(days=draw.randrange(365))
