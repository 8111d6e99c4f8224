"""Which sentences a summary takes: what tells most for its size, what the chat is about, nothing twice."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

__all__ = ["Candidate", "SentenceSelector", "work_share"]

_DUPLICATE_SHARE = 0.7  # share of words two sentences have in common when one of them says it all
_MIN_COST = 8  # tokens: what is shorter is not taken for being short
_TALK_SUBJECT_GAIN, _WORK_SUBJECT_GAIN = 30.0, 6.0
_STRONG_SCORE = 4.5  # the score of what can't be missed in work, …
_WORK_SHARE = 0.03  # … and its share of the sentences there
_TALK_SCORE = 2.0  # the score that a tenth of the sentences of talk have by chance
_SUBJECT_WORDS = 30
_COVERED_FACTOR = 0.6  # what a word is still worth when it was said


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence, or a few that belong together. `order` is its place in the whole chat; `own_score` is its
    score without what it gains by its neighbours."""

    order: int
    source: int
    text: str
    heading: str
    score: float
    own_score: float
    words: frozenset[str]
    subject: frozenset[str]
    particulars: frozenset[str]


class SentenceSelector:
    """Sentences chosen of `candidates`; each costs what `costs` says of it, or 1."""

    def __init__(self, candidates: Sequence[Candidate], costs: Sequence[int] | None = None) -> None:
        self._candidates = candidates
        self._costs = costs or [1] * len(candidates)
        self._chosen = _Selection()
        self._subject = _Subject(candidates)
        work = work_share(candidates)
        self._gain = _WORK_SUBJECT_GAIN * work + _TALK_SUBJECT_GAIN * (1 - work)

    @property
    def chosen(self) -> list[Candidate]:
        """In the order of the chat."""
        return self._chosen.candidates

    def fill(self, places: Iterable[int], room: int) -> int:
        """Take of `places` what tells most for its size, as long as it fits; what is left of `room`."""
        costs = self._costs
        queue = [(-self._score_for_size(place), place) for place in places if costs[place] <= room]
        heapify(queue)
        while queue:
            before, place = heappop(queue)
            if costs[place] > room:
                continue
            now = -self._score_for_size(place)
            if now > before and queue and now > queue[0][0]:
                heappush(queue, (now, place))  # its subject has been spoken of meanwhile
            elif self._chosen.add(self._candidates[place]):
                self._subject.mark_covered(self._candidates[place])
                room -= costs[place]
        return room

    def _score_for_size(self, place: int) -> float:
        candidate = self._candidates[place]
        score = candidate.score + self._gain * self._subject.novelty(candidate)
        return score / math.sqrt(max(self._costs[place], _MIN_COST))


def work_share(candidates: Sequence[Candidate]) -> float:
    """How much a chat is work (1), whose requirements, errors and decisions stand out, and how much it is
    talk (0), where many sentences tell something and none much."""
    scores = sorted(candidate.score for candidate in candidates)
    if not scores:
        return 1.0
    strong = sum(score >= _STRONG_SCORE for score in scores) / len(scores)
    return 1 - max(0.0, 1 - strong / _WORK_SHARE) * min(1.0, scores[len(scores) * 9 // 10] / _TALK_SCORE) ** 2


class _Subject:
    """What a chat keeps coming back to: its words by how often they come, and which have been spoken of."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        counts = Tally(word for candidate in candidates for word in candidate.subject)
        weights = {
            word: math.log(1 + count) for word, count in counts.items() if 2 < count < 0.3 * len(candidates)
        }
        top = sum(sorted(weights.values(), reverse=True)[:_SUBJECT_WORDS])
        self._weights = {word: weight / top for word, weight in weights.items()}

    def novelty(self, candidate: Candidate) -> float:
        """How much of the subject a sentence holds: 1 is the weightiest words, all of them new."""
        return sum(self._weights.get(word, 0.0) for word in candidate.subject)

    def mark_covered(self, candidate: Candidate) -> None:
        for word in candidate.subject:
            if word in self._weights:
                self._weights[word] *= _COVERED_FACTOR


class _Selection:
    """What has been chosen, by its place. A sentence that says what a chosen one says is not taken."""

    def __init__(self) -> None:
        self._chosen: dict[int, Candidate] = {}
        self._by_word: dict[str, list[int]] = {}

    @property
    def candidates(self) -> list[Candidate]:
        """In the order of the chat."""
        return [self._chosen[order] for order in sorted(self._chosen)]

    def add(self, candidate: Candidate) -> bool:
        if candidate.order in self._chosen or self._repeats_selected(candidate):
            return False
        self._chosen[candidate.order] = candidate
        for word in candidate.words:
            self._by_word.setdefault(word, []).append(candidate.order)
        return True

    def _repeats_selected(self, candidate: Candidate) -> bool:
        """Whether a chosen sentence has most of its words, and all of its particulars."""
        shared: Tally[int] = Tally()
        for word in candidate.words:
            shared.update(self._by_word.get(word, ()))
        return any(
            count >= _DUPLICATE_SHARE * (len(candidate.words) + len(self._chosen[order].words) - count)
            and candidate.particulars <= self._chosen[order].particulars
            for order, count in shared.items()
        )
