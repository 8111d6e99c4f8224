"""Summarize a chat without a model: select its most salient sentences, word for word.

A sentence's score comes from cue phrases, from its particulars (numbers, names, paths, code), from how
unlike the rest of the chat it is, and from who wrote it when. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rlm.lazy_dataclass import dataclass
from rlm.prompts.history.cue_phrases import (
    CORRECTION,
    DEPENDENT,
    DISFLUENT,
    FIRST_PERSON,
    HEADINGS,
    OWN_VOICE,
    CueHits,
    find_cues,
    small_talk,
)
from rlm.prompts.history.message import Message
from rlm.prompts.history.sentence_selector import Candidate, SentenceSelector
from rlm.prompts.history.sentences import MAX_CHARS, pieces
from rlm.prompts.history.term_frequency import TermFrequency, words_of
from rlm.prompts.tokens.counters import Counter

__all__ = ["Extraction", "SalientSentence", "extract"]

_FENCED = "```"
_MIN_WORDS = 4
_DISFLUENT_FACTOR = 0.8  # per "uh", "you know" or repeated word
_SHORT = 9  # words
_ENDS = (".", "!", "?", "…", "。", "！", "？", '"', "”", "`", ")", ":", "```")
_TIDY = 0.7  # share of sentences with an end mark above which one without is broken off
_LEFT = "Remaining Work"
_SALIENT = 2.5  # score above which a sentence is salient and raises its neighbours
_GAIN = 0.3  # share of the score above _SALIENT that a neighbour gains
_MAX_PARTICULARS = {"system": 3.0, "user": 4.0, "assistant": 4.0, "tool": 1.0}
_OWN = 1.6  # people's own words say more than what they paste, …
_OWN_COMMON = 0.3  # … unless this share of the chat is in their own words
_HEADING_SHARE = 0.08  # of the allowance, reserved for each heading, …
_MIN_RESERVED = 40  # … if that is enough tokens for a sentence


@dataclass(frozen=True, slots=True)
class SalientSentence:
    """A sentence, or a few that belong together, that a summary should keep.

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
                f"\n{_line(self._salient_sentence(one).text_with_speaker, names[one.source])}"
                for one in candidates
            ]
        )
        left = allowance - counter.count(_page({}))
        reserved = int(left * _HEADING_SHARE)
        selector = SentenceSelector(candidates, costs)
        for heading in HEADINGS if reserved >= _MIN_RESERVED else ():
            own = [index for index, one in enumerate(candidates) if one.heading == heading]
            left -= reserved - selector.fill(own, reserved)
        selector.fill(range(len(candidates)), left)
        return [self._salient_sentence(one) for one in _merge_neighbours(selector.chosen)]

    def _salient_sentence(self, one: Candidate) -> SalientSentence:
        return SalientSentence(one.source, one.heading, one.text, self._speaker(one))

    def _speaker(self, candidate: Candidate) -> str:
        """Return the speaker if the sentence says "I" or "we", else ""."""
        speaker, text = self._speakers[candidate.source], candidate.text
        own = speaker and _FENCED not in text and FIRST_PERSON.search(text) and not text.startswith(speaker)
        return speaker if own else ""


def extract(messages: Sequence[Message], names: Sequence[str], allowance: int, counter: Counter) -> str:
    """Return `Extraction.page` of `messages`."""
    return Extraction(messages).page(names, allowance, counter)


def _merge_neighbours(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Merge adjacent sentences into one line, under the heading of the higher score.

    Remaining work is never merged with finished work.
    """
    together: list[Candidate] = []
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


def _find_candidates(messages: Sequence[Message]) -> list[Candidate]:
    split = [list(_join_dependent(list(pieces(message.content)))) for message in messages]
    cues = [[find_cues(text) for text in sentences] for sentences in split]
    phrases = [
        {one for found in sentences for hits in found for one in (*hits.strong, *hits.weak)}
        for sentences in cues
    ]
    terms = TermFrequency(split, phrases)
    own = _OWN * max(0.0, 1 - _own_share(split) / _OWN_COMMON)
    everything = [text for sentences in split for text in sentences]
    tidy = sum(text.endswith(_ENDS) for text in everything) > _TIDY * len(everything)
    dull = small_talk()
    first_user = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    found: list[Candidate] = []
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
            score *= _DISFLUENT_FACTOR ** min(3, len(DISFLUENT.findall(text)))
            if tidy and not particulars and len(words) < _SHORT and not text.endswith(_ENDS):
                score *= 0.5  # broken off
            if place == first_user:
                heading, score = "Task Summary", score + 1.5 * min(1.0, len(words) / _SHORT)
            if CORRECTION.search(text.lower()):
                score += 0.5
            if OWN_VOICE.search(text.lower()):
                score += own * novelty
            if text.endswith("?"):
                score *= 0.6
            if message.role == "tool" and heading != "Errors Resolved":
                score *= 0.5
            lowered = {word.casefold() for word in words}
            kept = frozenset(filter(terms.is_distinctive, lowered)) or frozenset(lowered)
            subject = frozenset(word for word in lowered - dull if len(word) > 2 and not word.isdigit())
            found.append(Candidate(order, place, text, heading, score, kept, subject, frozenset(particulars)))
    return _reward_neighbours(found)


def _own_share(split: Sequence[Sequence[str]]) -> float:
    """Return the share of sentences in which people speak for themselves."""
    own = [OWN_VOICE.search(text.lower()) is not None for sentences in split for text in sentences]
    return sum(own) / max(1, len(own))


def _reward_neighbours(found: Sequence[Candidate]) -> list[Candidate]:
    """Raise the score of a sentence next to a salient one.

    This keeps a cause with its error and a reason with its decision.
    """
    scores = {candidate.order: candidate.score for candidate in found}
    gained = []
    for candidate in found:
        best = max(scores.get(candidate.order - 1, 0.0), scores.get(candidate.order + 1, 0.0))
        more = max(0.0, _GAIN * (best - _SALIENT)) if candidate.score else 0.0
        gained.append(replace(candidate, score=candidate.score + more))
    return gained


def _join_dependent(sentences: Sequence[str]) -> Iterable[str]:
    """Join each sentence with those that depend on it, up to a length: an error and its cause."""
    current = ""
    for sentence in sentences:
        leans = DEPENDENT.match(sentence) is not None and _FENCED not in current
        if current and leans and len(current) + len(sentence) < MAX_CHARS * 3 // 4:
            current = f"{current} {sentence}"
        else:
            if current:
                yield current
            current = sentence
    if current:
        yield current


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
