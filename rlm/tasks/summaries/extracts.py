"""The sentences of a text that together hold most of what it speaks of: a summary without a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlm.models.offline.extractive.sentences import sentences
from rlm.prompts.history.cue_phrases import small_talk
from rlm.prompts.history.sentence_selector import Candidate, SentenceSelector
from rlm.prompts.history.term_frequency import words_of
from rlm.prompts.tokens.counters import get_counter
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Span

__all__ = ["extracted"]

_FEWEST_WORDS = 5
_SCORE = 0.3
_LEAD = 0.5  # what the first sentences of a text have above the others
_LEADS = 3
_MARK_TOKENS = 6  # of a line's beginning and its source
_A_SLICE = 4  # times its share of the tokens that a slice may put up for the last choice
_COUNTER = get_counter()


def extracted(body: Body, spans: Sequence[Span], tokens: int) -> list[Span]:
    """The sentences of `spans` that tell most, in order, in about `tokens`; those that stand side by side in
    one. Each span is read by itself first, so that memory does not grow with the text."""
    room = max(1, tokens * _A_SLICE // max(1, len(spans)))
    best: list[tuple[Span, Candidate]] = []
    for span in spans:
        own = list(_sentences(body, span, _FEWEST_WORDS)) or list(_sentences(body, span, 1))
        best += own if len(spans) == 1 else _chosen(own, room)
    return _joined(body, [place for place, _ in _chosen(best, tokens)])


def _sentences(body: Body, span: Span, fewest: int) -> Iterator[tuple[Span, Candidate]]:
    text = body.text(*span)
    dull = small_talk()
    led = 0
    for start, end in sentences(text):
        said = text[start:end]
        words = frozenset(word.casefold() for word in words_of(said))
        if len(words) < fewest:
            continue
        led += 1
        subject = frozenset(word for word in words - dull if len(word) > 2 and not word.isdigit())
        score = _SCORE + (_LEAD if led <= _LEADS and span.start == 0 else 0.0)
        place = Span(span.start + start, span.start + end)
        yield place, Candidate(place.start, 0, said, "", score, score, words, subject, frozenset())


def _chosen(found: Sequence[tuple[Span, Candidate]], tokens: int) -> list[tuple[Span, Candidate]]:
    """What tells most of `found`, in order; its first sentence where all say the same."""
    candidates = [candidate for _, candidate in found]
    costs = [cost + _MARK_TOKENS for cost in _COUNTER.count_each([one.text for one in candidates])]
    choice = SentenceSelector(candidates, costs)
    choice.fill(range(len(candidates)), tokens)
    kept = {candidate.order for candidate in choice.chosen}
    return [one for one in found if one[0].start in kept] or list(found[:1])


def _joined(body: Body, places: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for place in places:
        if joined and not body.text(joined[-1].end, place.start).strip():
            joined[-1] = Span(joined[-1].start, place.end)
        else:
            joined.append(place)
    return joined
