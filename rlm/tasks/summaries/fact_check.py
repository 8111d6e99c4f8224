"""Whether what must survive a summary did: requirements, decisions, errors, state, what is left to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlm.prompts.history import Extraction, SalientSentence
from rlm.prompts.history.cue_phrases import small_talk
from rlm.prompts.history.term_frequency import words_of as history_words
from rlm.tasks.summaries.summary_lines import Line, words_of

__all__ = ["Fact", "check", "facts_of"]

_FEWEST, _MOST = 10, 40
_A_FACT_FOR = 5  # messages
_SHARE = 0.6
"""Of a fact's words and particulars (these count twice) that one line must hold."""
_OWN_SHARE = 0.3
"""The same, of the lines that name the fact's own message."""
_PART = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?:ies|ied|y|ing|ed|es|e|s)$")
_SHORT = 4


@dataclass(frozen=True, slots=True)
class Fact:
    """What must survive: a sentence of the message `name`. `lost`: no line of the summary holds it;
    `restored`: none did, so that it was put back word for word."""

    heading: str
    text: str
    name: str
    status: Literal["kept", "restored", "lost"] = "kept"


def facts_of(extraction: Extraction, entries: int) -> list[SalientSentence]:
    """What a summary of so many entries is checked for, what tells most first: 40 facts at most, fewer in
    talk that is no work."""
    most = max(_FEWEST, min(_MOST, entries // _A_FACT_FOR))
    return extraction.salient(most)


def check(facts: Sequence[SalientSentence], lines: Sequence[Line], names: Sequence[str] = ()) -> list[bool]:
    """For each fact, whether the summary holds it: a line has all its numbers, and most of its words, of
    which what is particular (names, paths, code) counts more. `names` are the messages': the lines that name
    a fact's own message hold it together, and may say it in other words."""
    said = [_forms(line.text) for line in lines]
    own: dict[str, set[str]] = {}
    for line, words in zip(lines, said, strict=True):
        for name in line.names:
            own.setdefault(name, set()).update(words)
    together = [own.get(names[fact.place], set()) if names else set() for fact in facts]
    return [
        any(_held(fact, words, _SHARE) for words in said) or _held(fact, beside, _OWN_SHARE, small_talk())
        for fact, beside in zip(facts, together, strict=True)
    ]


def _held(
    fact: SalientSentence, words: set[str], share: float, without: frozenset[str] = frozenset()
) -> bool:
    if not words or not _figures(fact.text) <= words:
        return False
    particulars = [words_of(one) for one in fact.particulars]
    told = {_stem(word) for word in fact.words - without}
    weight = sum(2.0 for _ in particulars) + len(told)
    held = 2.0 * sum(one <= words for one in particulars) + len(told & words)
    return weight > 0 and held >= share * weight


def _figures(text: str) -> set[str]:
    """The numbers of a text, and what has two digits or more in it (`5019` of `FIN-5019`, `db26`)."""
    whole = words_of(text)
    parts = {part for word in whole for part in _PART.findall(word)}
    return {word for word in whole if word[0].isdigit()} | {
        part for part in parts if sum(letter.isdigit() for letter in part) > 1
    }


def _forms(text: str) -> set[str]:
    """The words of a line, whole, in their parts, and without their endings."""
    whole = words_of(text)
    parts = {part for word in whole for part in _PART.findall(word)}
    characters = {word.casefold() for word in history_words(text)}
    return whole | parts | characters | {_stem(word) for word in whole | parts}


def _stem(word: str) -> str:
    """The word without an English ending: what is said again is often said in another form."""
    return _ENDING.sub("", word) if len(word) > _SHORT and word.isalpha() else word
