"""Check that a summary kept the facts of a history: requirements, decisions, errors, state, open tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from rlm.lazy_dataclass import dataclass
from rlm.prompts.history import Extraction, SalientSentence
from rlm.prompts.history.cue_phrases import small_talk
from rlm.prompts.history.term_frequency import words_of as history_words
from rlm.tasks.summaries.summary_lines import Line, words_of

__all__ = ["Fact", "check", "facts_of"]

_MIN_FACTS, _MAX_FACTS = 10, 40
_MESSAGES_PER_FACT = 5
_SHARE = 0.6
"""The share of a fact's words and particulars that one line must contain. Particulars count twice."""
_OWN_SHARE = 0.3
"""The share for all lines together that cite the fact's own message."""
_PART = re.compile(r"[^\W_]+")
_ENDING = re.compile(r"(?:ies|ied|y|ing|ed|es|e|s)$")
_SHORT = 4


@dataclass(frozen=True, slots=True)
class Fact:
    """A sentence of the message `name` that the summary must keep. `kept`: a line of the summary contains it.
    `restored`: no line did, so it was added word for word. `lost`: there was no room to add it."""

    heading: str
    text: str
    name: str
    status: Literal["kept", "restored", "lost"] = "kept"


def facts_of(extraction: Extraction, entries: int) -> list[SalientSentence]:
    """Return the facts that a summary of this number of entries is checked for, the most important first."""
    return extraction.salient(max(_MIN_FACTS, min(_MAX_FACTS, entries // _MESSAGES_PER_FACT)))


def check(facts: Sequence[SalientSentence], lines: Sequence[Line], names: Sequence[str] = ()) -> list[bool]:
    """Return for each fact whether the summary contains it.

    A line contains a fact if it has all its numbers and most of its words. Particulars (names, paths, code)
    count twice. `names` are the names of the messages. The lines that cite a fact's own message are also
    checked together, with a lower share, because they may put the fact into other words.
    """
    by_line = [_forms(line.text) for line in lines]
    own: dict[str, set[str]] = {}
    for line, words in zip(lines, by_line, strict=True):
        for name in line.names:
            own.setdefault(name, set()).update(words)
    together = [own.get(names[fact.place], set()) if names else set() for fact in facts]
    return [
        any(_contains(words, fact, _SHARE) for words in by_line)
        or _contains(own_words, fact, _OWN_SHARE, small_talk())
        for fact, own_words in zip(facts, together, strict=True)
    ]


def _contains(
    words: set[str], fact: SalientSentence, share: float, without: frozenset[str] = frozenset()
) -> bool:
    if not words or not _figures(fact.text) <= words:
        return False
    particulars = [words_of(one) for one in fact.particulars]
    stems = {_stem(word) for word in fact.words - without}
    weight = sum(2.0 for _ in particulars) + len(stems)
    contained = 2.0 * sum(one <= words for one in particulars) + len(stems & words)
    return weight > 0 and contained >= share * weight


def _figures(text: str) -> set[str]:
    """Return the numbers of a text, and the parts of words with two or more digits (`5019` of `FIN-5019`,
    `db26`)."""
    whole = words_of(text)
    parts = {part for word in whole for part in _PART.findall(word)}
    return {word for word in whole if word[0].isdigit()} | {
        part for part in parts if sum(letter.isdigit() for letter in part) > 1
    }


def _forms(text: str) -> set[str]:
    """Return the words of a line: whole, in parts, and without their endings."""
    whole = words_of(text)
    parts = {part for word in whole for part in _PART.findall(word)}
    characters = {word.casefold() for word in history_words(text)}
    return whole | parts | characters | {_stem(word) for word in whole | parts}


def _stem(word: str) -> str:
    """Return the word without an English ending, because a summary often uses another form of it."""
    return _ENDING.sub("", word) if len(word) > _SHORT and word.isalpha() else word
