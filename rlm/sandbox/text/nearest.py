"""Finds the place of a text that is most like a quote that does not stand in it, in bounded work.

The place is where most of the quote's longer words stand close together. It is a help for whoever gave the
quote, and never a proof.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import re2

from .quote_search import Budget, OutOfTime, Read
from .text_folding import is_east_asian

__all__ = ["Nearest", "find_nearest"]

_WINDOW_BYTES = 1 << 20
_MAX_WORDS = 12
_MIN_WORD_CHARS = 3
_MAX_WEIGHT = 10
_LEAST_SHARE = 0.4
"""Share of the words that a place must hold to be worth naming."""
_MAX_DIFFERENCES = 3
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Nearest:
    """A place in bytes, how many of the quote's words stand there in order, and what differs:
    (in the quote, in the text)."""

    start: int
    end: int
    found: int
    words: int
    differences: tuple[tuple[str, str], ...]


def find_nearest(quote: str, read: Read, size: int, *, budget: Budget) -> Nearest | None:
    """Return the place most like `quote` in `size` bytes of UTF-8, or None if no place is like it.

    When the budget is used up, it is the best place so far.
    """
    telling = _telling_words(quote)
    if not telling:
        return None
    room = 2 * len(quote.encode()) + 100
    best = _Best(sum(telling.values()))
    try:
        for start, end, words in _clusters(telling, read, size, room, budget):
            best.offer(start, end, words, telling)
    except OutOfTime:
        pass
    if best.score < _LEAST_SHARE * best.whole:
        return None
    low, high = max(0, best.start - room), min(size, best.end + room)
    return _aligned(quote, low, read(low, high), budget)


class _Best:
    """The place with the heaviest words so far."""

    def __init__(self, whole: int) -> None:
        self.whole = whole
        self.score = self.start = self.end = 0

    def offer(self, start: int, end: int, words: Counter[str], weights: dict[str, int]) -> None:
        score = sum(weights[word] for word in words)
        if score > self.score:
            self.score, self.start, self.end = score, start, end


def _clusters(
    telling: dict[str, int], read: Read, size: int, room: int, budget: Budget
) -> Iterator[tuple[int, int, Counter[str]]]:
    """Yield (start, end, words) where a word of the quote follows others within `room` bytes."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    pattern = re2.compile("|".join(map(re2.escape, telling)), options)
    near: deque[tuple[int, str]] = deque()
    counts: Counter[str] = Counter()
    for low in range(0, size, _WINDOW_BYTES):
        budget.check()
        data = read(low, min(size, low + _WINDOW_BYTES))
        for match in pattern.finditer(data):
            budget.check()
            start, end = match.span()
            word = data[start:end].decode("utf-8", "ignore").casefold()
            if word not in telling:
                continue
            near.append((low + start, word))
            counts[word] += 1
            while near[0][0] < low + end - room:
                _, gone = near.popleft()
                counts[gone] -= 1
                if not counts[gone]:
                    del counts[gone]
            yield near[0][0], low + end, counts


def _telling_words(quote: str) -> dict[str, int]:
    """Return the longest words of a quote with their weights. Without blanks, two characters are a word."""
    words: dict[str, int] = {}
    for word in _words(quote):
        if len(word) >= _MIN_WORD_CHARS or word.isdigit() or is_east_asian(word[0]):
            words[word] = min(_MAX_WEIGHT, len(word) * (2 if word.isdigit() else 1))
    longest = sorted(words, key=lambda word: -words[word])[:_MAX_WORDS]
    return {word: words[word] for word in longest}


def _words(text: str) -> list[str]:
    return [word for word, _, _ in _placed_words(text)]


def _placed_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text in lower case, each with its place."""
    placed = []
    for match in _WORD.finditer(text):
        word, start = match[0], match.start()
        size = 2 if any(map(is_east_asian, word)) else len(word)
        for at in range(0, len(word), size):
            piece = word[at : at + size]
            folded = unicodedata.normalize("NFKC", piece).casefold()
            placed.append((folded, start + at, start + at + len(piece)))
    return placed


def _aligned(quote: str, low: int, data: bytes, budget: Budget) -> Nearest | None:
    """Return the part of `data` whose words follow each other as those of the quote do."""
    cut = next((number for number, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    text = data[cut:].decode("utf-8", "ignore")
    theirs, ours = _placed_words(text), _placed_words(quote)
    try:
        budget.check()
    except OutOfTime:
        return None
    matcher = _matcher([word for word, _, _ in theirs], [word for word, _, _ in ours])
    anchor = matcher.find_longest_match()
    # Words far from where the quote would continue belong to something else.
    slack = 3 + len(ours) // 3
    blocks = [
        block
        for block in matcher.get_matching_blocks()
        if block.size and abs((block.a - block.b) - (anchor.a - anchor.b)) <= slack
    ]
    found = sum(block.size for block in blocks)
    if not blocks or found < _LEAST_SHARE * len(ours):
        return None
    first = max(0, blocks[0].a - blocks[0].b)
    tail = len(ours) - (blocks[-1].b + blocks[-1].size)
    last = min(len(theirs), blocks[-1].a + blocks[-1].size + tail)
    start, end = theirs[first][1], theirs[last - 1][2]
    before = low + cut + len(text[:start].encode())
    return Nearest(
        start=before,
        end=before + len(text[start:end].encode()),
        found=found,
        words=len(ours),
        differences=tuple(_differences(text, theirs[first:last], quote, ours)),
    )


_Placed = Sequence[tuple[str, int, int]]


def _differences(text: str, theirs: _Placed, quote: str, ours: _Placed) -> Iterator[tuple[str, str]]:
    matcher = _matcher([word for word, _, _ in theirs], [word for word, _, _ in ours])
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    for _, low, high, first, last in changes[:_MAX_DIFFERENCES]:
        yield _between(quote, ours, first, last), _between(text, theirs, low, high)


def _between(text: str, placed: _Placed, first: int, last: int) -> str:
    return text[placed[first][1] : placed[last - 1][2]] if last > first else ""


def _matcher(theirs: list[str], ours: list[str]) -> Any:
    return SequenceMatcher(None, theirs, ours, autojunk=False)
