"""Turns of phrase that say what a sentence of a working chat is about (`text/cues.toml`).

A sentence without any of them can still be kept: names, numbers and rare words speak in every language.
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
    """For text in small letters: matching in any case takes four times as long. `unspaced` may stand within a
    word."""
    within = f"|{unspaced}" if unspaced else ""
    return re.compile(rf"(?<![\w-])(?:{'|'.join(phrases)})(?!\w){within}")


class CueHits(NamedTuple):
    """The turns of phrase of one heading that a sentence holds, in small letters."""

    strong: frozenset[str]
    weak: frozenset[str]


@cache
def _cue_patterns() -> tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]:
    """For each heading: phrases that tell much, and phrases that tell a little. Made when first asked for:
    that takes longer than the import of all the rest."""
    found = table("cues.toml")
    return tuple(
        (
            _pattern([*found[heading]["strong"], *found[heading]["other"]], found[heading]["unspaced"]),
            _pattern(found[heading]["weak"]),
        )
        for heading in HEADINGS
    )


def find_cues(text: str) -> tuple[CueHits, ...]:
    """What `text` says that belongs under each of `HEADINGS`."""
    small = text.lower()
    return tuple(
        CueHits(frozenset(strong.findall(small)), frozenset(weak.findall(small)))
        for strong, weak in _cue_patterns()
    )


@cache
def small_talk() -> frozenset[str]:
    """Words that all talk is full of (`text/small_talk.txt`). They are no subject."""
    return frozenset(words("small_talk.txt").split())


CORRECTION = _pattern(
    [
        "actually|correction|scratch that|no longer|update:|to clarify|revis\\w+|supersed\\w+|i was wrong",
        r"chang\w+ (?:my|our) minds?|on second thoughts?|forget (?:what|that|the)|from now on",
        "new (?:limit|rule|requirement|deadline|plan)",
    ]
)
"""A later word on something said before."""

OWN_VOICE = _pattern(
    [
        r"i|we|my|our|us|me|ours|mine|\w+['’](?:m|d|ve|ll|re)|\w+n['’]t|(?:it|that|there|what|who)['’]s",
        "by the way|keep in mind|after all|all right|fine|please|for good|any ?more|of course|anyway",
        r"(?:they|users?|customers?|clients?|staff|people|partners?|management|legal|boss|manager)"
        r"(?:'d| would| will)? (?:really |still |also )?"
        r"(?:want|like|love|hate|care|need|ask|tell|told|keep|complain)\w*",
    ]
)
"""Somebody speaks for themselves, or for those the work is for."""

DISFLUENT = re.compile(
    r"\b(?:u[hm]+|e[hr]+m*|h+m+|m+[ -]*hm+|you know|i mean|(?:sort|kind) of|or whatever|äh+m*)\b"
    r"|\b(\w+)(?: \1\b)+",
    re.IGNORECASE,
)
"""Speech as it was spoken: to be read, not to be quoted."""

FIRST_PERSON = re.compile(
    r"\b(?:i|my|me|mine|we|our|ours|us|ich|mein\w*|mir|mich|wir|uns\w*|yo|mi|nosotr[oa]s|nuestr[oa]s?"
    r"|je|mon|nous|nos|notre|io|noi|ik|wij|я|мой|моя|меня|мне|мы|наш\w*|нас)\b|\bj['’]|我|私|僕",
    re.IGNORECASE,
)
"""Words that mean nothing to who does not know who is speaking."""

DEPENDENT = re.compile(
    r"(?:because|this|that|it|they|these|those|so|turns? out|turned out|due to"
    r"|(?:the )?(?:reason|cause|culprit|fix|root cause|problem|idea|rationale)"
    r"|which|otherwise|namely|we'd|mainly|specifically|instead)\b",
    re.IGNORECASE,
)
"""How a sentence begins that means little without the one before it."""
