"""A summary without a model: the sentences of a chat that tell most, as they were written.

What a sentence tells is guessed from turns of phrase (`cues`), from what is particular in it (numbers,
names, paths, code), from how unlike the rest of the chat it is, and from who said it when. Deterministic.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import islice

from prompts.history.commonness import Commonness, words_of
from prompts.history.cues import (
    CORRECTION,
    DEPENDENT,
    FIRST_PERSON,
    HEADINGS,
    OWN_VOICE,
    SMALL_TALK,
    Hits,
    cues_in,
)
from prompts.history.message import Message
from prompts.history.sentences import MAX_CHARS, pieces
from prompts.tokens import Counter

__all__ = ["Extraction", "Telling", "extract"]

_FENCED = "```"
_FEWEST_WORDS = 4
_SHORT = 9  # words
_ENDS = (".", "!", "?", "…", "。", "！", "？", '"', "”", "`", ")", ":", "```")
_TIDY = 0.7  # the share of sentences with an end, above which one without was broken off
_ALIKE = 0.7  # share of words two sentences have in common when one of them says it all
_LEFT = "Remaining Work"
_TELLING = 2.5  # the score above which a sentence is good company
_GAIN = 0.3  # of what it has above that
_MOST_PARTICULAR = {"system": 3.0, "user": 4.0, "assistant": 4.0, "tool": 1.0}
_OWN = 1.6  # what people say of themselves tells more of their work than what they paste, …
_OWN_COMMON = 0.3  # … unless this share of a chat is said so
_SUBJECT_OF_TALK, _SUBJECT_OF_WORK = 30.0, 6.0
_STRONG = 4.5  # the score of what can't be missed in work, …
_WORK = 0.03  # … and its share of the sentences there
_TALK = 2.0  # the score that a tenth of the sentences of talk have by chance
_SUBJECT_WORDS = 30
_SPOKEN_OF = 0.6  # what a word is still worth when it was said
_EACH_SHARE = 0.08  # of the allowance, promised to each heading before all compete, …
_LEAST_PROMISE = 40  # … if it is as many tokens: a sentence


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence, or a few that belong together. `order` is its place in the whole chat."""

    order: int
    source: int
    text: str
    heading: str
    score: float
    words: frozenset[str]
    subject: frozenset[str]
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
        self._speakers = _speakers(messages)
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
        lines = [self._line(candidate, names) for candidate in candidates]
        costs = counter.count_each([f"\n{line}" for line in lines])
        left = allowance - counter.count(_page({}))
        promised = int(left * _EACH_SHARE)
        chosen = _Chosen()
        subject = _Subject(candidates)
        gain = _subject_gain(candidates)

        def fill(places: Iterable[int], room: int) -> int:
            """Take what tells most for its size, as it fits; what is left of `room`."""

            def worth(index: int) -> float:
                told = candidates[index].score + gain * subject.fresh(candidates[index])
                return told / math.sqrt(max(costs[index], 8))

            waiting = [(-worth(index), index) for index in places if costs[index] <= room]
            heapify(waiting)
            while waiting:
                negative, index = heappop(waiting)
                if costs[index] > room:
                    continue
                now = -worth(index)
                if now > negative and waiting and now > waiting[0][0]:
                    heappush(waiting, (now, index))  # its subject has been spoken of meanwhile
                elif chosen.take(candidates[index]):
                    subject.speak(candidates[index])
                    room -= costs[index]
            return room

        for heading in HEADINGS if promised >= _LEAST_PROMISE else ():
            own = [index for index, one in enumerate(candidates) if one.heading == heading]
            left -= promised - fill(own, promised)
        fill(range(len(candidates)), left)
        page: dict[str, list[str]] = {}
        for together in _neighbours(chosen.candidates):
            page.setdefault(together.heading, []).append(self._line(together, names))
        return _page(page) if page else ""

    def _line(self, candidate: _Candidate, names: Sequence[str]) -> str:
        """The sentence with its message's name; whoever speaks of themselves is named before it."""
        name, text = names[candidate.source], candidate.text
        if _FENCED in text:
            return f"- [{name}]\n  {text.replace(chr(10), chr(10) + '  ')}"
        speaker = self._speakers[candidate.source]
        if speaker and FIRST_PERSON.search(text) and not text.startswith(speaker):
            return f"- {speaker}: {text} [{name}]"
        return f"- {text} [{name}]"


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


def _speakers(messages: Sequence[Message]) -> list[str]:
    """Who speaks, for each message, where several do and say their names."""
    names = [message.author or "" for message in messages]
    return names if len({name for name in names if name}) > 1 else [""] * len(names)


def _page(lines: dict[str, list[str]]) -> str:
    return "\n\n".join(
        "\n".join([f"## {heading}", *lines.get(heading, ["None found."])]) for heading in HEADINGS
    )


def _subject_gain(candidates: Sequence[_Candidate]) -> float:
    """What a sentence gains by what the chat is about: much in talk, where many tell something and none much;
    little where people work, whose requirements, errors and decisions stand out."""
    scores = sorted(candidate.score for candidate in candidates)
    if not scores:
        return 0.0
    strong = sum(score >= _STRONG for score in scores) / len(scores)
    work = 1 - max(0.0, 1 - strong / _WORK) * min(1.0, scores[len(scores) * 9 // 10] / _TALK) ** 2
    return _SUBJECT_OF_WORK * work + _SUBJECT_OF_TALK * (1 - work)


class _Subject:
    """What a chat keeps coming back to: its words by how often they come, and which have been spoken of."""

    def __init__(self, candidates: Sequence[_Candidate]) -> None:
        counts = Tally(word for candidate in candidates for word in candidate.subject)
        weights = {
            word: math.log(1 + count) for word, count in counts.items() if 2 < count < 0.3 * len(candidates)
        }
        top = sum(sorted(weights.values(), reverse=True)[:_SUBJECT_WORDS])
        self._weights = {word: weight / top for word, weight in weights.items()}

    def fresh(self, candidate: _Candidate) -> float:
        """How much of the subject a sentence holds: 1 is the weightiest words, all of them new."""
        return sum(self._weights.get(word, 0.0) for word in candidate.subject)

    def speak(self, candidate: _Candidate) -> None:
        for word in candidate.subject:
            if word in self._weights:
                self._weights[word] *= _SPOKEN_OF


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
    everything = [text for sentences in split for text in sentences]
    tidy = sum(text.endswith(_ENDS) for text in everything) > _TIDY * len(everything)
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
            if tidy and not particulars and len(words) < _SHORT and not text.endswith(_ENDS):
                score *= 0.5  # broken off
            if place == first_user:
                heading, score = "Task Summary", score + 1.5 * min(1.0, len(words) / _SHORT)
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
            subject = frozenset(word for word in told - SMALL_TALK if len(word) > 2 and not word.isdigit())
            found.append(
                _Candidate(order, place, text, heading, score, kept, subject, frozenset(particulars))
            )
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
