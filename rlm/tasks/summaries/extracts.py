"""Summarize without a model: choose the sentences that together cover most topics of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlm.prompts.history.cue_phrases import small_talk
from rlm.prompts.history.sentence_selector import Candidate, SentenceSelector
from rlm.prompts.history.term_frequency import words_of
from rlm.prompts.tokens.counters import get_counter
from rlm.retrieval.sentences import sentences
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span

__all__ = ["choose_sentences"]

_MIN_WORDS = 5
_SCORE = 0.3
_LEAD = 0.5
"""What the first sentences of a text score above the others."""
_LEADS = 3
_MARK_TOKENS = 6
"""Tokens of a line's bullet and its source."""
_SLICE_FACTOR = 4
"""Each slice may propose this multiple of its share of the tokens for the final choice."""
_COUNTER = get_counter()


def choose_sentences(body: Body, spans: Sequence[Span], tokens: int) -> list[Span]:
    """Return the most informative sentences of `spans`, in order, in about `tokens`. Joins adjacent ones.

    Each span is reduced on its own first, so that memory does not grow with the text.
    """
    room = max(1, tokens * _SLICE_FACTOR // max(1, len(spans)))
    best: list[tuple[Span, Candidate]] = []
    for span in spans:
        own = list(_list_candidates(body, span, _MIN_WORDS)) or list(_list_candidates(body, span, 1))
        best += own if len(spans) == 1 else _choose(own, room)
    return _join(body, [place for place, _ in _choose(best, tokens)])


def _list_candidates(body: Body, span: Span, min_words: int) -> Iterator[tuple[Span, Candidate]]:
    text = body.text(*span)
    dull = small_talk()
    count = 0
    for start, end in sentences(text):
        sentence = text[start:end]
        words = frozenset(word.casefold() for word in words_of(sentence))
        if len(words) < min_words:
            continue
        count += 1
        subject = frozenset(word for word in words - dull if len(word) > 2 and not word.isdigit())
        score = _SCORE + (_LEAD if count <= _LEADS and span.start == 0 else 0.0)
        place = Span(span.start + start, span.start + end)
        yield place, Candidate(place.start, 0, sentence, "", score, score, words, subject, frozenset())


def _choose(found: Sequence[tuple[Span, Candidate]], tokens: int) -> list[tuple[Span, Candidate]]:
    """Return the most informative of `found`, in order; at least its first sentence."""
    candidates = [candidate for _, candidate in found]
    costs = [cost + _MARK_TOKENS for cost in _COUNTER.count_each([one.text for one in candidates])]
    choice = SentenceSelector(candidates, costs)
    choice.fill(range(len(candidates)), tokens)
    kept = {candidate.order for candidate in choice.chosen}
    return [one for one in found if one[0].start in kept] or list(found[:1])


def _join(body: Body, places: Sequence[Span]) -> list[Span]:
    joined: list[Span] = []
    for place in places:
        if joined and not body.text(joined[-1].end, place.start).strip():
            joined[-1] = Span(joined[-1].start, place.end)
        else:
            joined.append(place)
    return joined
