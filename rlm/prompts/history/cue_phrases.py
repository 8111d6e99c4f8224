"""Find phrases that show what a sentence of a working chat is about (`text/cues.toml`).

A sentence without any can still be selected: names, numbers and rare words count in every language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from rlm.prompts.templates import table, words

__all__ = [
    "CORRECTION",
    "DEPENDENT",
    "DISFLUENT",
    "FIRST_PERSON",
    "HEADINGS",
    "OWN_VOICE",
    "CueHits",
    "find_cues",
    "small_talk",
]

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


@cache
def small_talk() -> frozenset[str]:
    """Return frequent words (`text/small_talk.txt`) that are never a subject."""
    return frozenset(words("small_talk.txt").split())


CORRECTION = _pattern(
    [
        "actually|correction|scratch that|no longer|update:|to clarify|revis\\w+|supersed\\w+|i was wrong",
        r"chang\w+ (?:my|our) minds?|on second thoughts?|forget (?:what|that|the)|from now on",
        "new (?:limit|rule|requirement|deadline|plan)",
    ]
)
"""Phrases that correct an earlier message."""

OWN_VOICE = _pattern(
    [
        r"i|we|my|our|us|me|ours|mine|\w+['’](?:m|d|ve|ll|re)|\w+n['’]t|(?:it|that|there|what|who)['’]s",
        "by the way|keep in mind|after all|all right|fine|please|for good|any ?more|of course|anyway",
        r"(?:they|users?|customers?|clients?|staff|people|partners?|management|legal|boss|manager)"
        r"(?:'d| would| will)? (?:really |still |also )?"
        r"(?:want|like|love|hate|care|need|ask|tell|told|keep|complain)\w*",
    ]
)
"""Phrases in which people speak for themselves or for their users."""

DISFLUENT = re.compile(
    r"\b(?:u[hm]+|e[hr]+m*|h+m+|m+[ -]*hm+|you know|i mean|(?:sort|kind) of|or whatever|äh+m*)\b"
    r"|\b(\w+)(?: \1\b)+",
    re.IGNORECASE,
)
"""Spoken filler and repeated words."""

FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|we|our|ours|us|ich|mein\w*|mir|mich|wir|uns\w*|yo|mi|nosotr[oa]s|nuestr[oa]s?"
    r"|je|mon|nous|nos|notre|io|noi|ik|wij|я|мой|моя|меня|мне|мы|наш\w*|нас)\b|\bj['’]|我|私|僕",
    re.IGNORECASE,
)
"""Words whose meaning depends on the speaker."""

DEPENDENT = re.compile(
    r"(?:because|this|that|it|they|these|those|so|turns? out|turned out|due to"
    r"|(?:the )?(?:reason|cause|culprit|fix|root cause|problem|idea|rationale)"
    r"|which|otherwise|namely|we'd|mainly|specifically|instead)\b",
    re.IGNORECASE,
)
"""Beginnings of sentences that depend on the sentence before."""
