"""Define what may happen to a section that does not fit.

A section has one policy, or several that are tried in turn. `StopFirst`, `Skip` and `Gate` choose which
items enter, even when there is room for all. The others change a section that is too large. The least
important items (`Item.priority`, then `Item.score`) are changed first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from rlm.lazy_dataclass import dataclass

__all__ = [
    "NEVER",
    "Compress",
    "Drop",
    "Gate",
    "Keep",
    "Never",
    "Policy",
    "Skip",
    "StopFirst",
    "Summarize",
    "Summarizer",
    "TierDown",
    "Trim",
]

Keep = Literal["head", "tail", "middle", "sentence"]

Summarizer = Callable[[str, int], str]
"""Takes (text, allowed tokens) and returns a shorter text. It must be pure, or cached by content."""


@dataclass(frozen=True, slots=True)
class Never:
    """Include the section whole or not at all. A required one that does not fit raises BudgetExceeded."""


@dataclass(frozen=True, slots=True)
class StopFirst:
    """Take items until the first that does not fit. Later items are not tried."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave out items that do not fit, and try the next."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Take items that fit while more than `tokens` tokens are left."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Trim:
    """Cut the last item that fits only in part, and mark the cut in its text.

    `keep` names the part that stays: the head, the tail, both ends (`middle` is cut out), or the head up to
    the end of a sentence if one ends past 70 % of the room (`sentence`).
    """

    keep: Keep = "head"


@dataclass(frozen=True, slots=True)
class Compress:
    """Replace items by their `variants`, one step at a time."""


@dataclass(frozen=True, slots=True)
class TierDown:
    """Drop the items of the highest `tier` above 0, one tier after the other."""


@dataclass(frozen=True, slots=True)
class Summarize:
    """Replace the items by one summary. An empty or too long summary is not used."""

    summarizer: Summarizer


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop the whole section."""


NEVER = Never()
"""The default policy of a section."""

Policy = Never | StopFirst | Skip | Gate | Trim | Compress | TierDown | Summarize | Drop
