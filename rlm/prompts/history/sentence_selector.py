"""Select the sentences of a summary: high score for their size, on the chat's subject, without repetition."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from rlm.lazy_dataclass import dataclass

__all__ = ["Candidate", "SentenceSelector"]

_DUPLICATE_SHARE = 0.7  # shared words above which a sentence repeats another
_MIN_COST = 8  # tokens: no sentence gains by being shorter
_TALK_SUBJECT_GAIN, _WORK_SUBJECT_GAIN = 30.0, 6.0
_STRONG_SCORE = 4.5  # score of a sentence that stands out in work, …
_WORK_SHARE = 0.03  # … and the share of such sentences in work
_TALK_SCORE = 2.0  # score that a tenth of the sentences of talk reach by chance
_SUBJECT_WORDS = 30
_COVERED_FACTOR = 0.6  # applied to a subject word each time it is used


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence, or a few that belong together.

    `order` is its position in the whole chat.
    """

    order: int
    source: int
    text: str
    heading: str
    score: float
    words: frozenset[str]
    subject: frozenset[str]
    particulars: frozenset[str]


class SentenceSelector:
    """Selects from `candidates`. Each costs its entry in `costs`, or 1."""

    def __init__(self, candidates: Sequence[Candidate], costs: Sequence[int] | None = None) -> None:
        self._candidates = candidates
        self._costs = costs or [1] * len(candidates)
        self._chosen = _Selection()
        self._subject = _Subject(candidates)
        work = _work_share(candidates)
        self._gain = _WORK_SUBJECT_GAIN * work + _TALK_SUBJECT_GAIN * (1 - work)

    @property
    def chosen(self) -> list[Candidate]:
        """Return the selected candidates in the order of the chat."""
        return self._chosen.candidates

    def fill(self, places: Iterable[int], room: int) -> int:
        """Select from `places` by score for size until `room` is used. Return the remaining room.

        The heap holds scores that may be too high: selecting a sentence covers its subject words and so
        lowers other scores. A popped sentence is scored again and pushed back if it is no longer the best.
        """
        costs = self._costs
        queue = [(-self._score_for_size(place), place) for place in places if costs[place] <= room]
        heapify(queue)
        while queue:
            before, place = heappop(queue)
            if costs[place] > room:
                continue
            now = -self._score_for_size(place)
            if now > before and queue and now > queue[0][0]:
                heappush(queue, (now, place))  # its subject was covered since it was pushed
            elif self._chosen.add(self._candidates[place]):
                self._subject.mark_covered(self._candidates[place])
                room -= costs[place]
        return room

    def _score_for_size(self, place: int) -> float:
        candidate = self._candidates[place]
        score = candidate.score + self._gain * self._subject.novelty(candidate)
        return score / math.sqrt(max(self._costs[place], _MIN_COST))


def _work_share(candidates: Sequence[Candidate]) -> float:
    """Return how much a chat is work (1) or talk (0).

    In work, a few requirements, errors and decisions stand out. In talk, many sentences score a little and
    none much.
    """
    scores = sorted(candidate.score for candidate in candidates)
    if not scores:
        return 1.0
    strong = sum(score >= _STRONG_SCORE for score in scores) / len(scores)
    return 1 - max(0.0, 1 - strong / _WORK_SHARE) * min(1.0, scores[len(scores) * 9 // 10] / _TALK_SCORE) ** 2


class _Subject:
    """The recurring words of a chat, weighted by their count.

    A word loses weight each time a selected sentence uses it.
    """

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        counts = Tally(word for candidate in candidates for word in candidate.subject)
        weights = {
            word: math.log(1 + count) for word, count in counts.items() if 2 < count < 0.3 * len(candidates)
        }
        top = sum(sorted(weights.values(), reverse=True)[:_SUBJECT_WORDS])
        self._weights = {word: weight / top for word, weight in weights.items()}

    def novelty(self, candidate: Candidate) -> float:
        """Return how much of the uncovered subject a sentence holds. 1 is all of the top words."""
        return sum(self._weights.get(word, 0.0) for word in candidate.subject)

    def mark_covered(self, candidate: Candidate) -> None:
        for word in candidate.subject:
            if word in self._weights:
                self._weights[word] *= _COVERED_FACTOR


class _Selection:
    """The selected sentences by position. Rejects a sentence that repeats a selected one."""

    def __init__(self) -> None:
        self._chosen: dict[int, Candidate] = {}
        self._by_word: dict[str, list[int]] = {}

    @property
    def candidates(self) -> list[Candidate]:
        """Return the sentences in the order of the chat."""
        return [self._chosen[order] for order in sorted(self._chosen)]

    def add(self, candidate: Candidate) -> bool:
        if candidate.order in self._chosen or self._repeats_selected(candidate):
            return False
        self._chosen[candidate.order] = candidate
        for word in candidate.words:
            self._by_word.setdefault(word, []).append(candidate.order)
        return True

    def _repeats_selected(self, candidate: Candidate) -> bool:
        """Return whether a selected sentence has most of its words and all of its particulars."""
        shared: Tally[int] = Tally()
        for word in candidate.words:
            shared.update(self._by_word.get(word, ()))
        return any(
            count >= _DUPLICATE_SHARE * (len(candidate.words) + len(self._chosen[order].words) - count)
            and candidate.particulars <= self._chosen[order].particulars
            for order, count in shared.items()
        )
