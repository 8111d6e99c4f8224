"""Find phrases that show what a sentence of a working chat is about (`text/cues.toml`).

A sentence without any can still be selected: names, numbers and rare words count in every language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from rlm.prompts.templates import table

__all__ = ["FIRST_PERSON", "HEADINGS", "CueHits", "find_cues"]

HEADINGS = ("Task Summary", "Key Decisions", "Errors Resolved", "Current State", "Remaining Work")


def _pattern(phrases: Sequence[str], unspaced: str = "") -> re.Pattern[str]:
    """Compile phrases for lower-case text. Case-insensitive matching would take four times as long.

    `unspaced` phrases also match inside a word.
    """
    within = f"|{unspaced}" if unspaced else ""
    return re.compile(rf"(?<![\w-])(?:{'|'.join(phrases)})(?!\w){within}")


class CueHits(NamedTuple):
    """The lower-case phrases of one heading found in a sentence."""

    strong: frozenset[str]
    weak: frozenset[str]


@cache
def _cue_patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """Return the patterns of strong and weak phrases for each heading.

    Compiled on first use, because that takes longer than all other imports.
    """
    found = table("cues.toml")
    return tuple(
        (
            _pattern([*found[heading]["strong"], *found[heading]["other"]], found[heading]["unspaced"]),
            _pattern(found[heading]["weak"]),
        )
        for heading in HEADINGS
    )


def find_cues(text: str) -> tuple[CueHits, ...]:
    """Return the phrases in `text` for each of `HEADINGS`."""
    small = text.lower()
    return tuple(
        CueHits(frozenset(strong.findall(small)), frozenset(weak.findall(small)))
        for strong, weak in _cue_patterns()
    )


FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|we|our|ours|us|ich|mein\w*|mir|mich|wir|uns\w*|yo|mi|nosotr[oa]s|nuestr[oa]s?"
    r"|je|mon|nous|nos|notre|io|noi|ik|wij|я|мой|моя|меня|мне|мы|наш\w*|нас)\b|\bj['’]|我|私|僕",
    re.IGNORECASE,
)
"""Words whose meaning depends on the speaker."""
