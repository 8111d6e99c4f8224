"""Summarize a chat without a model: select its most salient sentences, word for word.

A sentence's score comes from cue phrases, from its particulars (numbers, names, paths, code), and from how
unlike the rest of the chat it is. `benchmarks/history/survival.py` measures what survives: rules for spoken
filler, for people's own voice, for recurring subjects, and for neighbours of salient sentences were tried and
saved no fact. Deterministic.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop

from rlm.prompts.history.cue_phrases import FIRST_PERSON, HEADINGS, CueHits, find_cues
from rlm.prompts.history.message import Message
from rlm.prompts.history.sentences import pieces
from rlm.prompts.history.term_frequency import TermFrequency, words_of
from rlm.prompts.tokens.counters import Counter

__all__ = ["Extraction", "SalientSentence", "extract"]

_FENCED = "```"
_MIN_WORDS = 4
_FIRST_WORDS = 9  # of the first request, which make it count in full
_LEFT = "Remaining Work"
_MAX_PARTICULARS = {"system": 3.0, "user": 4.0, "assistant": 4.0, "tool": 1.0}
_DUPLICATE_SHARE = 0.7  # shared words above which a sentence repeats another
_MIN_COST = 8  # tokens: no sentence gains by being shorter


@dataclass(frozen=True, slots=True)
class SalientSentence:
    """A sentence, or adjacent ones, that a summary should keep.

    `place` is the index of its message, `heading` the heading it belongs under. `speaker` is set where the
    sentence needs one ("I", "we").
    """

    place: int
    heading: str
    text: str
    speaker: str = ""

    @property
    def text_with_speaker(self) -> str:
        """Return the text, preceded by the speaker if there is one."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence of the message at `place`. `order` is its position in the whole chat."""

    order: int
    place: int
    text: str
    heading: str
    score: float
    words: frozenset[str]
    particulars: frozenset[str]


class Extraction:
    """The scored sentences of a chat. Scores once, selects as often as needed."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._speakers = _speakers(messages)
        self._candidates = _find_candidates(messages)

    def page(self, names: Sequence[str], allowance: int, counter: Counter) -> str:
        """Return `lines` under the five headings, each with its message's name. "" if there are none."""
        page: dict[str, list[str]] = {}
        for one in self.lines(names, allowance, counter):
            page.setdefault(one.heading, []).append(_line(one.text_with_speaker, names[one.place]))
        return _page(page) if page else ""

    def lines(self, names: Sequence[str], allowance: int, counter: Counter) -> list[SalientSentence]:
        """Return the salient sentences in the order of the chat, adjacent ones merged.

        A page of them takes about `allowance` tokens of `counter` at most.
        """
        candidates = self._candidates
        costs = counter.count_each(
            [
                f"\n{_line(self._salient_sentence(one).text_with_speaker, names[one.place])}"
                for one in candidates
            ]
        )
        chosen = _select(candidates, costs, allowance - counter.count(_page({})))
        return [self._salient_sentence(one) for one in _merge_neighbours(chosen)]

    def _salient_sentence(self, one: _Candidate) -> SalientSentence:
        speaker = self._speakers[one.place]
        is_own = speaker and _FENCED not in one.text and FIRST_PERSON.search(one.text)
        named = speaker if is_own and not one.text.startswith(speaker) else ""
        return SalientSentence(one.place, one.heading, one.text, named)


def extract(messages: Sequence[Message], names: Sequence[str], allowance: int, counter: Counter) -> str:
    """Return `Extraction.page` of `messages`."""
    return Extraction(messages).page(names, allowance, counter)


def _find_candidates(messages: Sequence[Message]) -> list[_Candidate]:
    split = [list(pieces(message.content)) for message in messages]
    cues = [[find_cues(text) for text in sentences] for sentences in split]
    phrases = [
        {one for found in sentences for hits in found for one in (*hits.strong, *hits.weak)}
        for sentences in cues
    ]
    terms = TermFrequency(split, phrases)
    first_user = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    found: list[_Candidate] = []
    order = 0
    for place, message in enumerate(messages):
        age = place / max(1, len(messages) - 1)
        order += 1  # sentences of different messages are not adjacent
        for text, hits in zip(split[place], cues[place], strict=True):
            order += 1
            words = words_of(text)
            if len(words) < (_MIN_WORDS if not any(one.strong for one in hits) else 2):
                continue
            novelty = terms.novelty(text)
            heading, cue_score = _classify(hits, terms, message.role, age)
            particulars = terms.particulars(text)
            particular = min(sum(particulars.values()), _MAX_PARTICULARS[message.role])
            score = (cue_score + particular) * (0.3 + 0.7 * novelty) + novelty
            if place == first_user:
                heading, score = "Task Summary", score + 1.5 * min(1.0, len(words) / _FIRST_WORDS)
            if text.endswith("?"):
                score *= 0.6
            if message.role == "tool" and heading != "Errors Resolved":
                score *= 0.5
            lowered = {word.casefold() for word in words}
            kept = frozenset(filter(terms.is_distinctive, lowered)) or frozenset(lowered)
            found.append(_Candidate(order, place, text, heading, score, kept, frozenset(particulars)))
    return found


def _classify(found: Sequence[CueHits], terms: TermFrequency, role: str, age: float) -> tuple[str, float]:
    """Return the heading of a sentence and the strength of its cue phrases (0 to 4)."""
    scores = {}
    for heading, hits in zip(HEADINGS, found, strict=True):
        strong = sorted(map(terms.cue_weight, hits.strong), reverse=True)[:2]
        weak = sorted(map(terms.cue_weight, hits.weak), reverse=True)[:2]
        scores[heading] = min(4.0, 1.6 * sum(strong) + 0.4 * sum(weak))
    # Users state tasks. The latest statements about state and remaining work are the true ones.
    if role == "user":
        scores["Task Summary"] *= 1.25
    elif role == "tool":
        scores["Errors Resolved"] *= 1.25
    scores["Current State"] *= 0.6 + 0.6 * age
    scores["Remaining Work"] *= 0.6 + 0.6 * age
    heading = max(HEADINGS, key=lambda name: scores[name])
    if scores[heading] == 0:
        return ("Task Summary" if role == "user" else "Current State"), 0.0
    return heading, scores[heading]


def _select(candidates: Sequence[_Candidate], costs: Sequence[int], room: int) -> Iterator[_Candidate]:
    """Return the candidates with the best scores for their size that fit `room`, in the order of the chat.
    None repeats another."""
    queue = [
        (-one.score / math.sqrt(max(cost, _MIN_COST)), at)
        for at, (one, cost) in enumerate(zip(candidates, costs, strict=True))
    ]
    heapify(queue)
    chosen: set[int] = set()
    by_word: dict[str, list[int]] = {}
    while queue:
        at = heappop(queue)[1]
        one = candidates[at]
        shared = Tally(other for word in one.words for other in by_word.get(word, ()))
        if costs[at] > room or any(_repeats(one, candidates[other], n) for other, n in shared.items()):
            continue
        room -= costs[at]
        chosen.add(at)
        for word in one.words:
            by_word.setdefault(word, []).append(at)
    return (candidates[at] for at in sorted(chosen))


def _repeats(one: _Candidate, other: _Candidate, shared: int) -> bool:
    """Return whether the other has most of its words and all of its particulars."""
    every = len(one.words) + len(other.words) - shared
    return shared >= _DUPLICATE_SHARE * every and one.particulars <= other.particulars


def _merge_neighbours(candidates: Iterator[_Candidate]) -> list[_Candidate]:
    """Merge adjacent sentences into one line, under the heading of the first.

    Remaining work is never merged with finished work.
    """
    together: list[_Candidate] = []
    for candidate in candidates:
        before = together[-1] if together else None
        beside = before and before.place == candidate.place and before.order == candidate.order - 1
        if before and beside and (before.heading == _LEFT) == (candidate.heading == _LEFT):
            code = _FENCED in before.text + candidate.text
            text = f"{before.text}{chr(10) if code else ' '}{candidate.text}"
            together[-1] = replace(before, order=candidate.order, text=text)
        else:
            together.append(candidate)
    return together


def _speakers(messages: Sequence[Message]) -> list[str]:
    """Return the speaker of each message, or "" everywhere if fewer than two authors are named."""
    names = [message.author or "" for message in messages]
    return names if len({name for name in names if name}) > 1 else [""] * len(names)


def _line(text: str, name: str) -> str:
    if _FENCED in text:
        return f"- [{name}]\n  {text.replace(chr(10), chr(10) + '  ')}"
    return f"- {text} [{name}]"


def _page(lines: dict[str, list[str]]) -> str:
    return "\n\n".join(
        "\n".join([f"## {heading}", *lines.get(heading, ["None found."])]) for heading in HEADINGS
    )
