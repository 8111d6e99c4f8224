"""What may happen to a section that does not fit.

A section's policy is one of these, or several tried in turn. Three of them decide which items enter and
apply whether or not space is short (`StopFirst`, `Skip`, `Gate`); the others change a section that is
too large. Items that matter least (`Item.priority`, then `Item.score`) are touched first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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
"""Takes (text, tokens it may use) and returns the shorter text. It must be pure, or cached by content."""


@dataclass(frozen=True, slots=True)
class Never:
    """The section goes in whole or not at all: a required one that does not fit is BudgetExceeded."""


@dataclass(frozen=True, slots=True)
class StopFirst:
    """Items enter until the first that does not fit; nothing after it is tried."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Items that do not fit are left out and the next is tried."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Items enter while more than `tokens` are left, each only if it fits."""

    tokens: int


@dataclass(frozen=True, slots=True)
class Trim:
    """The last item that would fit only in part is cut, and the cut is marked in its text.

    `keep` is what stays: its head, its tail, both ends (`middle` is cut out), or its head up to the end
    of a sentence where one ends past 70 % of the room.
    """

    keep: Keep = "head"


@dataclass(frozen=True, slots=True)
class Compress:
    """Items fall back to their `variants`, one step at a time."""


@dataclass(frozen=True, slots=True)
class TierDown:
    """Items of the highest `tier` above 0 leave, one tier after the other."""


@dataclass(frozen=True, slots=True)
class Summarize:
    """The items give way to one summary of them. An empty or too long summary is not used."""

    summarizer: Summarizer


@dataclass(frozen=True, slots=True)
class Drop:
    """The whole section leaves."""


NEVER = Never()
"""The policy of a section that says nothing else."""

Policy = Never | StopFirst | Skip | Gate | Trim | Compress | TierDown | Summarize | Drop
