"""A summary without a model: the sentences of a chat that tell most, as they were written.

What a sentence tells is guessed from turns of phrase (`cues`), from what is particular in it (numbers,
names, paths, code), from how unlike the rest of the chat it is, and from who said it when. Deterministic.
"""

from __future__ import annotations

import math
import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prompts.history.cues import CORRECTION, CUES, DEPENDENT, HEADINGS
from prompts.history.message import Message
from prompts.history.sentences import MAX_CHARS, pieces
from prompts.tokens import Counter

__all__ = ["extract"]

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_NUMBER = re.compile(r"\d+")
_PARTICULAR = re.compile(
    r"`[^`\n]+`|\"[^\"\n]{2,60}\"|“[^”\n]{2,60}”"  # quoted
    r"|(?<!\w)[\w~./-]*\w[/\\][\w./\\-]+|\w+\.[a-z]\w{0,4}\b|https?://\S+"  # paths, files, addresses
    r"|\b\w+_\w+\b|\b[a-z]+[A-Z]\w*|\b[A-Z][a-z]+[A-Z]\w*|\b\w+\(\)|--[a-z][\w-]+|\b[A-Z]{2,}[\w-]*"  # code
)
_FIGURE = re.compile(r"\d[\d.,:]*\s?(?:%|[a-zA-Z]{1,3}\b)?")
_NAME = re.compile(r"(?<=[\w,;:)] )[A-Z][a-z]+\w*")
_FENCED = "```"
_FEWEST_WORDS = 4
_ALIKE = 0.7  # share of words two sentences have in common when one of them says it all
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


def extract(messages: Sequence[Message], names: Sequence[str], allowance: int, counter: Counter) -> str:
    """The telling sentences of `messages` under the five headings, each followed by its message's name, in
    at most about `allowance` tokens of `counter`; "" when that holds none."""
    candidates = _candidates(messages)
    lines = [_line(candidate, names) for candidate in candidates]
    costs = counter.count_each([f"\n{line}" for line in lines])
    left = allowance - counter.count(_page({}))
    promised = int(left * _EACH_SHARE)
    worth = [
        candidate.score / math.sqrt(max(cost, 8)) for candidate, cost in zip(candidates, costs, strict=True)
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
    for candidate in sorted(chosen.candidates, key=lambda candidate: candidate.order):
        page.setdefault(candidate.heading, []).append(_line(candidate, names))
    return _page(page) if page else ""


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
    """What has been chosen. A sentence that says what a chosen one says is not taken."""

    def __init__(self) -> None:
        self.candidates: list[_Candidate] = []
        self._by_word: dict[str, list[_Candidate]] = {}
        self._taken: set[int] = set()

    def take(self, candidate: _Candidate) -> bool:
        if candidate.order in self._taken or self._said(candidate):
            return False
        self._taken.add(candidate.order)
        self.candidates.append(candidate)
        for word in candidate.words:
            self._by_word.setdefault(word, []).append(candidate)
        return True

    def _said(self, candidate: _Candidate) -> bool:
        shared: Tally[int] = Tally()
        sizes: dict[int, int] = {}
        for word in candidate.words:
            for other in self._by_word.get(word, ()):
                shared[other.order] += 1
                sizes[other.order] = len(other.words)
        return any(
            count >= _ALIKE * (len(candidate.words) + sizes[order] - count) for order, count in shared.items()
        )


def _candidates(messages: Sequence[Message]) -> list[_Candidate]:
    split = [list(pieces(message.content)) for message in messages]
    common = _Commonness(split)
    first_user = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    found: list[_Candidate] = []
    order = 0
    for place, message in enumerate(messages):
        age = place / max(1, len(messages) - 1)
        for text in _joined(split[place]):
            order += 1
            words = _WORD.findall(text)
            if len(words) < _FEWEST_WORDS:
                continue
            fresh = common.fresh(text)
            heading, telling = _telling(text, message.role, age)
            score = telling * (0.4 + 0.6 * fresh) + _particular(text, message.role) + 1.5 * fresh
            if place == first_user:
                heading, score = "Task Summary", score + 1.5
            if CORRECTION.search(text):
                score += 0.5
            if text.endswith("?"):
                score *= 0.6
            if message.role == "tool" and heading != "Errors Resolved":
                score *= 0.5
            kept = frozenset(word.casefold() for word in words if len(word) > 2 or word[0].isdigit())
            found.append(_Candidate(order, place, text, heading, score, kept))
    return found


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


def _telling(text: str, role: str, age: float) -> tuple[str, float]:
    """The heading a sentence belongs under, and how strongly its words say so (0 to 4)."""
    scores = {}
    for heading, (strong, weak) in CUES.items():
        said = {match.casefold() for match in strong.findall(text)}
        hinted = {match.casefold() for match in weak.findall(text)}
        scores[heading] = min(4.0, 1.6 * min(len(said), 2) + 0.4 * min(len(hinted), 2))
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


def _particular(text: str, role: str) -> float:
    """Numbers, names, paths, code: what can't be guessed again."""
    score = (
        0.8 * len(set(_PARTICULAR.findall(text)))
        + 0.5 * len(set(_FIGURE.findall(text)))
        + 0.4 * len(set(_NAME.findall(text)))
    )
    return min(score, 1.0 if role == "tool" else 2.5)


class _Commonness:
    """How much of a sentence the chat says again and again: small talk, progress lines, log formats."""

    def __init__(self, split: Sequence[Sequence[str]]) -> None:
        self._messages: Tally[tuple[str, ...]] = Tally()
        self._words: Tally[str] = Tally()
        for sentences in split:
            grams: set[tuple[str, ...]] = set()
            words: set[str] = set()
            for sentence in sentences:
                shape = self._shape(sentence)
                grams.update(self._grams(shape))
                words.update(shape)
            self._messages.update(grams)
            self._words.update(words)
        self._count = max(2, len(split))

    @staticmethod
    def _shape(sentence: str) -> list[str]:
        return [_NUMBER.sub("0", word.casefold()) for word in _WORD.findall(sentence)]

    @staticmethod
    def _grams(shape: Sequence[str]) -> list[tuple[str, ...]]:
        return list(zip(shape, shape[1:], shape[2:], strict=False))

    def fresh(self, sentence: str) -> float:
        """0 for what is always said, to 1 for what is said once, in words that are rare."""
        shape = self._shape(sentence)
        grams = self._grams(shape)
        if not grams:
            return 0.0
        once = sum(1 for gram in grams if self._messages[gram] <= 2) / len(grams)
        rare = sorted((math.log(self._count / self._words[word]) for word in set(shape)), reverse=True)[:5]
        return once * (0.4 + 0.6 * min(1.0, sum(rare) / len(rare) / math.log(self._count)))
