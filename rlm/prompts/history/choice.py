"""Which sentences a summary takes: what tells most for its size, what the chat is about, nothing twice."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

__all__ = ["Candidate", "SentenceSelector", "work_in"]

_ALIKE = 0.7  # share of words two sentences have in common when one of them says it all
_MIN_COST = 8  # tokens: what is shorter is not taken for being short
_SUBJECT_OF_TALK, _SUBJECT_OF_WORK = 30.0, 6.0
_STRONG = 4.5  # the score of what can't be missed in work, …
_WORK = 0.03  # … and its share of the sentences there
_TALK = 2.0  # the score that a tenth of the sentences of talk have by chance
_SUBJECT_WORDS = 30
_SPOKEN_OF = 0.6  # what a word is still worth when it was said


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence, or a few that belong together. `order` is its place in the whole chat; `alone` is its
    score without what it gains by its neighbours."""

    order: int
    source: int
    text: str
    heading: str
    score: float
    alone: float
    words: frozenset[str]
    subject: frozenset[str]
    particulars: frozenset[str]


class SentenceSelector:
    """Sentences chosen of `candidates`; each costs what `costs` says of it, or 1."""

    def __init__(self, candidates: Sequence[Candidate], costs: Sequence[int] | None = None) -> None:
        self._candidates = candidates
        self._costs = costs or [1] * len(candidates)
        self._chosen = _Chosen()
        self._subject = _Subject(candidates)
        work = work_in(candidates)
        self._gain = _SUBJECT_OF_WORK * work + _SUBJECT_OF_TALK * (1 - work)

    @property
    def chosen(self) -> list[Candidate]:
        """In the order of the chat."""
        return self._chosen.candidates

    def fill(self, places: Iterable[int], room: int) -> int:
        """Take of `places` what tells most for its size, as long as it fits; what is left of `room`."""
        costs = self._costs
        waiting = [(-self._worth(place), place) for place in places if costs[place] <= room]
        heapify(waiting)
        while waiting:
            before, place = heappop(waiting)
            if costs[place] > room:
                continue
            now = -self._worth(place)
            if now > before and waiting and now > waiting[0][0]:
                heappush(waiting, (now, place))  # its subject has been spoken of meanwhile
            elif self._chosen.take(self._candidates[place]):
                self._subject.speak(self._candidates[place])
                room -= costs[place]
        return room

    def _worth(self, place: int) -> float:
        candidate = self._candidates[place]
        told = candidate.score + self._gain * self._subject.fresh(candidate)
        return told / math.sqrt(max(self._costs[place], _MIN_COST))


def work_in(candidates: Sequence[Candidate]) -> float:
    """How much a chat is work (1), whose requirements, errors and decisions stand out, and how much it is
    talk (0), where many sentences tell something and none much."""
    scores = sorted(candidate.score for candidate in candidates)
    if not scores:
        return 1.0
    strong = sum(score >= _STRONG for score in scores) / len(scores)
    return 1 - max(0.0, 1 - strong / _WORK) * min(1.0, scores[len(scores) * 9 // 10] / _TALK) ** 2


class _Subject:
    """What a chat keeps coming back to: its words by how often they come, and which have been spoken of."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        counts = Tally(word for candidate in candidates for word in candidate.subject)
        weights = {
            word: math.log(1 + count) for word, count in counts.items() if 2 < count < 0.3 * len(candidates)
        }
        top = sum(sorted(weights.values(), reverse=True)[:_SUBJECT_WORDS])
        self._weights = {word: weight / top for word, weight in weights.items()}

    def fresh(self, candidate: Candidate) -> float:
        """How much of the subject a sentence holds: 1 is the weightiest words, all of them new."""
        return sum(self._weights.get(word, 0.0) for word in candidate.subject)

    def speak(self, candidate: Candidate) -> None:
        for word in candidate.subject:
            if word in self._weights:
                self._weights[word] *= _SPOKEN_OF


class _Chosen:
    """What has been chosen, by its place. A sentence that says what a chosen one says is not taken."""

    def __init__(self) -> None:
        self._chosen: dict[int, Candidate] = {}
        self._by_word: dict[str, list[int]] = {}

    @property
    def candidates(self) -> list[Candidate]:
        """In the order of the chat."""
        return [self._chosen[order] for order in sorted(self._chosen)]

    def take(self, candidate: Candidate) -> bool:
        if candidate.order in self._chosen or self._said(candidate):
            return False
        self._chosen[candidate.order] = candidate
        for word in candidate.words:
            self._by_word.setdefault(word, []).append(candidate.order)
        return True

    def _said(self, candidate: Candidate) -> bool:
        """Whether a chosen sentence has most of its words, and all of its particulars."""
        shared: Tally[int] = Tally()
        for word in candidate.words:
            shared.update(self._by_word.get(word, ()))
        return any(
            count >= _ALIKE * (len(candidate.words) + len(self._chosen[order].words) - count)
            and candidate.particulars <= self._chosen[order].particulars
            for order, count in shared.items()
        )
