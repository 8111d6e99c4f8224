"""A summary without a model: the sentences of a chat that tell most, as they were written.

What a sentence tells is guessed from turns of phrase (`cues`), from what is particular in it (numbers,
names, paths, code), from how unlike the rest of the chat it is, and from who said it when. Deterministic.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from prompts.history.commonness import Commonness, words_of
from prompts.history.cues import CORRECTION, DEPENDENT, HEADINGS, OWN_VOICE, Hits, cues_in
from prompts.history.message import Message
from prompts.history.sentences import MAX_CHARS, pieces
from prompts.tokens import Counter

__all__ = ["Extraction", "Telling", "extract"]

_FENCED = "```"
_FEWEST_WORDS = 4
_ALIKE = 0.7  # share of words two sentences have in common when one of them says it all
_LEFT = "Remaining Work"
_TELLING = 2.5  # the score above which a sentence is good company
_GAIN = 0.3  # of what it has above that
_MOST_PARTICULAR = {"system": 3.0, "user": 3.0, "assistant": 3.0, "tool": 1.0}
_OWN = 1.6  # what people say of themselves tells more of their work than what they paste, …
_OWN_COMMON = 0.3  # … unless this share of a chat is said so
_EACH_SHARE = 0.08  # of the allowance, promised to each heading before all compete


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence, or a few that belong together. `order` is its place in the whole chat."""

    order: int
    source: int
    text: str
    heading: str
    score: float
    words: frozenset[str]
    particulars: frozenset[str]


@dataclass(frozen=True, slots=True)
class Telling:
    """A sentence (or a few that belong together) that a summary should not lose: the place of its message,
    the heading it belongs under, how much it tells, and its words and particulars, in small letters."""

    place: int
    heading: str
    text: str
    score: float
    words: frozenset[str]
    particulars: frozenset[str]


class Extraction:
    """The sentences of a chat, judged once, to be picked from as often as is wanted."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._candidates = _candidates(messages)

    def telling(self, most: int, *, each: int = 2) -> list[Telling]:
        """The sentences that tell most, the best first: `each` for every heading that has as many, then
        whatever tells most, `most` in all; none that says what another says."""
        best = sorted(self._candidates, key=lambda one: (-one.score, one.order))
        chosen = _Chosen()
        found: list[_Candidate] = []
        for heading in HEADINGS:
            own = (one for one in best if one.heading == heading and one.score >= _TELLING)
            found += islice((one for one in own if chosen.take(one)), each)
        for candidate in best:
            if len(found) >= most or candidate.score < _TELLING:
                break
            if chosen.take(candidate):
                found.append(candidate)
        return [
            Telling(
                one.source,
                one.heading,
                one.text,
                one.score,
                one.words,
                frozenset(word.casefold() for word in one.particulars),
            )
            for one in sorted(found[:most], key=lambda one: (-one.score, one.order))
        ]

    def page(self, names: Sequence[str], allowance: int, counter: Counter) -> str:
        """The telling sentences under the five headings, each followed by its message's name, in at most
        about `allowance` tokens of `counter`; "" when that holds none."""
        candidates = self._candidates
        lines = [_line(candidate, names) for candidate in candidates]
        costs = counter.count_each([f"\n{line}" for line in lines])
        left = allowance - counter.count(_page({}))
        promised = int(left * _EACH_SHARE)
        worth = [
            candidate.score / math.sqrt(max(cost, 8))
            for candidate, cost in zip(candidates, costs, strict=True)
        ]
        best = sorted(range(len(candidates)), key=lambda index: (-worth[index], index))
        chosen = _Chosen()
        for heading in HEADINGS:
            room = promised
            for index in best:
                if (
                    candidates[index].heading == heading
                    and costs[index] <= room
                    and chosen.take(candidates[index])
                ):
                    room -= costs[index]
                    left -= costs[index]
        for index in best:
            if costs[index] <= left and chosen.take(candidates[index]):
                left -= costs[index]
        page: dict[str, list[str]] = {}
        for together in _neighbours(chosen.candidates):
            page.setdefault(together.heading, []).append(_line(together, names))
        return _page(page) if page else ""


def extract(messages: Sequence[Message], names: Sequence[str], allowance: int, counter: Counter) -> str:
    """`Extraction.page` of `messages`."""
    return Extraction(messages).page(names, allowance, counter)


def _neighbours(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Sentences that stood side by side stand in one line, under the heading of the stronger; what is left to
    do stays apart from what is done."""
    together: list[_Candidate] = []
    for candidate in candidates:
        before = together[-1] if together else None
        beside = before and before.source == candidate.source and before.order == candidate.order - 1
        if before and beside and (before.heading == _LEFT) == (candidate.heading == _LEFT):
            stronger = max(before, candidate, key=lambda one: one.score)
            code = _FENCED in before.text + candidate.text
            text = f"{before.text}{chr(10) if code else ' '}{candidate.text}"
            together[-1] = replace(stronger, order=candidate.order, text=text)
        else:
            together.append(candidate)
    return together


def _line(candidate: _Candidate, names: Sequence[str]) -> str:
    name = names[candidate.source]
    if _FENCED in candidate.text:
        text = candidate.text.replace("\n", "\n  ")
        return f"- [{name}]\n  {text}"
    return f"- {candidate.text} [{name}]"


def _page(lines: dict[str, list[str]]) -> str:
    return "\n\n".join(
        "\n".join([f"## {heading}", *lines.get(heading, ["None found."])]) for heading in HEADINGS
    )


class _Chosen:
    """What has been chosen, by its place. A sentence that says what a chosen one says is not taken."""

    def __init__(self) -> None:
        self._chosen: dict[int, _Candidate] = {}
        self._by_word: dict[str, list[int]] = {}

    @property
    def candidates(self) -> list[_Candidate]:
        """In the order of the chat."""
        return [self._chosen[order] for order in sorted(self._chosen)]

    def take(self, candidate: _Candidate) -> bool:
        if candidate.order in self._chosen or self._said(candidate):
            return False
        self._chosen[candidate.order] = candidate
        for word in candidate.words:
            self._by_word.setdefault(word, []).append(candidate.order)
        return True

    def _said(self, candidate: _Candidate) -> bool:
        """Whether a chosen sentence has most of its words, and all of its particulars."""
        shared: Tally[int] = Tally()
        for word in candidate.words:
            shared.update(self._by_word.get(word, ()))
        return any(
            count >= _ALIKE * (len(candidate.words) + len(self._chosen[order].words) - count)
            and candidate.particulars <= self._chosen[order].particulars
            for order, count in shared.items()
        )


def _candidates(messages: Sequence[Message]) -> list[_Candidate]:
    split = [list(_joined(list(pieces(message.content)))) for message in messages]
    cued = [[cues_in(text) for text in sentences] for sentences in split]
    said = [
        {one for found in sentences for hits in found for one in (*hits.strong, *hits.weak)}
        for sentences in cued
    ]
    common = Commonness(split, said)
    own = _OWN * max(0.0, 1 - _own_share(split) / _OWN_COMMON)
    first_user = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    found: list[_Candidate] = []
    order = 0
    for place, message in enumerate(messages):
        age = place / max(1, len(messages) - 1)
        order += 1  # sentences of two messages are no neighbours
        for text, hits in zip(split[place], cued[place], strict=True):
            order += 1
            words = words_of(text)
            if len(words) < _FEWEST_WORDS:
                continue
            fresh = common.fresh(text)
            heading, telling = _telling(hits, common, message.role, age)
            particulars = common.particulars(text)
            particular = min(sum(particulars.values()), _MOST_PARTICULAR[message.role])
            score = (telling + particular) * (0.3 + 0.7 * fresh) + fresh
            if place == first_user:
                heading, score = "Task Summary", score + 1.5
            if CORRECTION.search(text.lower()):
                score += 0.5
            if OWN_VOICE.search(text.lower()):
                score += own * fresh
            if text.endswith("?"):
                score *= 0.6
            if message.role == "tool" and heading != "Errors Resolved":
                score *= 0.5
            told = {word.casefold() for word in words}
            kept = frozenset(filter(common.tells, told)) or frozenset(told)
            found.append(_Candidate(order, place, text, heading, score, kept, frozenset(particulars)))
    return _beside_the_telling(found)


def _own_share(split: Sequence[Sequence[str]]) -> float:
    """The share of sentences in which somebody speaks for themselves."""
    said = [OWN_VOICE.search(text.lower()) is not None for sentences in split for text in sentences]
    return sum(said) / max(1, len(said))


def _beside_the_telling(found: Sequence[_Candidate]) -> list[_Candidate]:
    """A sentence gains by what stands next to it: a cause beside its error, a reason beside its decision."""
    scores = {candidate.order: candidate.score for candidate in found}
    gained = []
    for candidate in found:
        best = max(scores.get(candidate.order - 1, 0.0), scores.get(candidate.order + 1, 0.0))
        more = max(0.0, _GAIN * (best - _TELLING)) if candidate.score else 0.0
        gained.append(replace(candidate, score=candidate.score + more))
    return gained


def _joined(sentences: Sequence[str]) -> Iterable[str]:
    """Sentences, each with those that lean on it, as long as they stay short: an error with its cause, a
    decision with its reason."""
    held = ""
    for sentence in sentences:
        leans = DEPENDENT.match(sentence) is not None and _FENCED not in held
        if held and leans and len(held) + len(sentence) < MAX_CHARS * 3 // 4:
            held = f"{held} {sentence}"
        else:
            if held:
                yield held
            held = sentence
    if held:
        yield held


def _telling(found: Sequence[Hits], common: Commonness, role: str, age: float) -> tuple[str, float]:
    """The heading a sentence belongs under, and how strongly its words say so (0 to 4)."""
    scores = {}
    for heading, hits in zip(HEADINGS, found, strict=True):
        strong = sorted(map(common.cue, hits.strong), reverse=True)[:2]
        weak = sorted(map(common.cue, hits.weak), reverse=True)[:2]
        scores[heading] = min(4.0, 1.6 * sum(strong) + 0.4 * sum(weak))
    # Who speaks, and when: people ask for things; what was done and is left to do is true at the end.
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
