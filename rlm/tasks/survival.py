"""Whether what must survive a summary did: requirements, decisions, errors, state, what is left to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prompts.history import Extraction, Telling
from rlm.tasks.lines import Line, words_of

__all__ = ["Fact", "check", "facts_of"]

_FEWEST, _MOST = 10, 40
_A_FACT_FOR = 5  # messages
_SHARE = 0.6
"""Of a fact's words and particulars (these count twice) that one line must hold."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What must survive: a sentence of the message `name`. `lost`: no line of the summary holds it;
    `restored`: none did, so that it was put back word for word."""

    heading: str
    text: str
    name: str
    status: Literal["kept", "restored", "lost"] = "kept"


def facts_of(extraction: Extraction, entries: int) -> list[Telling]:
    """What a summary of so many entries is checked for, what tells most first: 10 to 40 facts."""
    most = max(_FEWEST, min(_MOST, entries // _A_FACT_FOR))
    return extraction.telling(most)


def check(facts: Sequence[Telling], lines: Sequence[Line]) -> list[bool]:
    """For each fact, whether a line of the summary holds it: all its numbers, and most of its words, of which
    what is particular (names, paths, code) counts more."""
    said = [words_of(line.text) for line in lines]
    return [any(_held(fact, words) for words in said) for fact in facts]


def _held(fact: Telling, words: set[str]) -> bool:
    particulars = [words_of(one) for one in fact.particulars]
    if not {word for word in words_of(fact.text) if word[0].isdigit()} <= words:
        return False
    weight = sum(2.0 for _ in particulars) + len(fact.words)
    held = 2.0 * sum(one <= words for one in particulars) + len(fact.words & words)
    return weight > 0 and held >= _SHARE * weight
