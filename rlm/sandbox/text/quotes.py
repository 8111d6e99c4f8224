"""Finds the places of quotes in a text of any size, and the place most like a quote that stands nowhere.

A verbatim place wins. Otherwise a place that reads the same counts (`quote_pattern`). Of several the first in
the text wins. The search reads the text in windows, and stops between two of them when its time is over.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal

import re2

from .quote_pattern import QuotePattern, is_east_asian, letters, sure_letters

__all__ = [
    "MAX_NEAR",
    "MAX_QUOTE_CHARS",
    "Budget",
    "Found",
    "Nearest",
    "OutOfTime",
    "Wanted",
    "find_nearest",
    "find_quotes",
]

MAX_QUOTE_CHARS = 5_000
"""Characters. Longer quotes are not searched. Cite a span instead."""
MAX_NEAR = 100
"""Spans next to which a quote is looked for first."""

_NEAR_BYTES = 500
_MAX_NEAR_BYTES = 80_000
"""A longer span does not say where to look."""
_WINDOW_BYTES = 1 << 20
_MAX_GROWTH = 8
"""A quote may take this many times its bytes in the text, with all its white space and escapes."""
_MORE_GROWTH = 4_096
_STRIPPED_CHARS = " \t\r\n…"

Read = Callable[[int, int], bytes]
"""Returns the bytes of the text from an offset to another one."""
Status = Literal["found", "missing", "common", "too_long", "unsearched"]


class OutOfTime(Exception):
    """The seconds of a search are used up."""


class Budget:
    """Limits a search to seconds of computing of its thread: other work does not change what is found."""

    def __init__(self, seconds: float = float("inf"), is_stopped: Callable[[], bool] = lambda: False) -> None:
        self._end = time.thread_time() + seconds
        self._is_stopped = is_stopped

    def check(self) -> None:
        """Raise OutOfTime if the seconds are used up, or nobody waits any more. Called before each piece of
        work."""
        if self._is_stopped() or time.thread_time() > self._end:
            raise OutOfTime


@dataclass(frozen=True, slots=True)
class Wanted:
    """A quote to look for. With `max_places` it is `common` if it stands in more places."""

    text: str
    max_places: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The result for one quote. `start` and `end` are bytes; they are -1 unless the quote was found."""

    status: Status
    start: int = -1
    end: int = -1


class _Quote:
    """One quote in the forms that a search needs."""

    def __init__(self, text: str, budget: Budget) -> None:
        budget.check()
        self.data = text.encode()
        self.letters = sure_letters(text)
        self.room = _MAX_GROWTH * len(self.data) + _MORE_GROWTH
        self._text = text

    @cached_property
    def pattern(self) -> QuotePattern:
        """The pattern of all ways to write the quote."""
        return QuotePattern(self._text)


def find_quotes(
    quotes: Sequence[Wanted],
    read: Read,
    size: int,
    near: Sequence[tuple[int, int]] = (),
    *,
    budget: Budget,
    window: int = _WINDOW_BYTES,
) -> list[Found]:
    """Return the result for each quote in a text of `size` bytes of UTF-8.

    The first of these wins: a place inside a span of `near` (in bytes), a place around one, the first
    verbatim place, the first place that reads the same. When the budget is used up, the rest is `unsearched`.
    """
    search = _Search(read, size, budget, window)
    results: dict[int, Found] = {}
    rest: dict[int, _Quote] = {}
    try:
        for number, wanted in enumerate(quotes):
            text = _trimmed(wanted.text)
            if text is None or len(text) > MAX_QUOTE_CHARS:
                results[number] = Found("too_long" if text else "missing")
            else:
                rest[number] = _Quote(text, budget)
        for places in (search.near(dict(rest), near), search.verbatim(rest), search.alike(rest)):
            for number, place in places:
                most = quotes[number].max_places
                quote = rest.pop(number)
                common = most is not None and search.is_common(quote, most)
                results[number] = Found("common") if common else Found("found", *place)
        results.update((number, Found("missing")) for number in rest)
    except OutOfTime:
        pass
    return [results.get(number, Found("unsearched")) for number in range(len(quotes))]


def _trimmed(quote: str) -> str | None:
    """Return the text to search for, or None if it is empty or not valid Unicode."""
    text = quote.strip().strip(_STRIPPED_CHARS)
    has_lone_surrogate = any("\ud800" <= char <= "\udfff" for char in text)
    return None if not text or has_lone_surrogate else text


@dataclass(frozen=True, slots=True)
class _Search:
    """Searches one text within one budget. What it yields is taken out of `quotes` by its caller."""

    read: Read
    size: int
    budget: Budget
    window: int

    def near(
        self, quotes: dict[int, _Quote], near: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the places inside the spans `near`, or else around one of them."""
        spans = [span for span in dict.fromkeys(near) if span[1] - span[0] <= _MAX_NEAR_BYTES][:MAX_NEAR]
        for slack in (0, _NEAR_BYTES):
            for start, end in spans:
                most = max([slack, *(len(one.data) for one in quotes.values())]) if slack else 0
                low = max(0, start - most)
                data = self.read(low, min(self.size, end + most))
                for number, quote in list(quotes.items()):
                    self.budget.check()
                    at = data.find(quote.data)
                    place = (
                        (at, at + len(quote.data)) if at >= 0 else quote.pattern.find(data, self.budget.check)
                    )
                    if place is not None:
                        del quotes[number]
                        yield number, (low + place[0], low + place[1])

    def verbatim(self, quotes: dict[int, _Quote]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the first verbatim places."""
        for low, data in self._windows(max((len(one.data) for one in quotes.values()), default=0)):
            for number, quote in list(quotes.items()):
                self.budget.check()
                at = data.find(quote.data)
                if at >= 0:
                    yield number, (low + at, low + at + len(quote.data))
            if not quotes:
                return

    def alike(self, quotes: dict[int, _Quote]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the first places that read the same."""
        for low, data in self._windows(max((one.room for one in quotes.values()), default=0)):
            standing = letters(data)
            for number, quote in list(quotes.items()):
                self.budget.check()
                if standing is None or quote.letters in standing:
                    place = quote.pattern.find(data, self.budget.check)
                    # A later one is found in the next window, which shows more of what follows it.
                    if place is not None and place[0] < self.window:
                        yield number, (low + place[0], low + place[1])
            if not quotes:
                return

    def is_common(self, quote: _Quote, most: int) -> bool:
        """Return whether a quote stands verbatim in more than `most` places."""
        count = 0
        for _, data in self._windows(len(quote.data) - 1):
            count += data.count(quote.data)
            if count > most:
                return True
        return False

    def _windows(self, overlap: int) -> Iterator[tuple[int, bytes]]:
        """Yield the first byte of each window, and its bytes with `overlap` after it."""
        for low in range(0, self.size, self.window):
            self.budget.check()
            yield low, self.read(low, min(self.size, low + self.window + overlap))


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

    It is where most of the quote's longer words stand close together: a help for whoever gave the quote, and
    never a proof. When the budget is used up, it is the best place so far.
    """
    weights = _weights(quote)
    room = 2 * len(quote.encode()) + 100
    best = start = end = 0
    try:
        for low, high, words in _clusters(weights, read, size, room, budget):
            score = sum(weights[word] for word in words)
            if score > best:
                best, start, end = score, low, high
    except OutOfTime:
        pass
    if not best or best < _LEAST_SHARE * sum(weights.values()):
        return None
    low = max(0, start - room)
    return _aligned(quote, low, read(low, min(size, end + room)))


def _weights(quote: str) -> dict[str, int]:
    """Return the longest words of a quote with their weights. Without blanks, two characters are a word."""
    weights: dict[str, int] = {}
    for word, _, _ in _placed_words(quote):
        if len(word) >= _MIN_WORD_CHARS or word.isdigit() or is_east_asian(word[0]):
            weights[word] = min(_MAX_WEIGHT, len(word) * (2 if word.isdigit() else 1))
    longest = sorted(weights, key=lambda word: -weights[word])[:_MAX_WORDS]
    return {word: weights[word] for word in longest}


def _clusters(
    weights: dict[str, int], read: Read, size: int, room: int, budget: Budget
) -> Iterator[tuple[int, int, Counter[str]]]:
    """Yield (start, end, words) where a word of the quote follows others within `room` bytes."""
    if not weights:
        return
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = False
    pattern = re2.compile("|".join(map(re2.escape, weights)), options)
    near: deque[tuple[int, str]] = deque()
    counts: Counter[str] = Counter()
    for low in range(0, size, _WINDOW_BYTES):
        budget.check()
        data = read(low, min(size, low + _WINDOW_BYTES))
        for match in pattern.finditer(data):
            budget.check()
            start, end = match.span()
            word = data[start:end].decode("utf-8", "ignore").casefold()
            if word not in weights:
                continue
            near.append((low + start, word))
            counts[word] += 1
            while near[0][0] < low + end - room:
                _, gone = near.popleft()
                counts[gone] -= 1
                if not counts[gone]:
                    del counts[gone]
            yield near[0][0], low + end, counts


_Placed = Sequence[tuple[str, int, int]]


def _placed_words(text: str) -> _Placed:
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


def _aligned(quote: str, low: int, data: bytes) -> Nearest | None:
    """Return the part of `data` whose words follow each other as those of the quote do."""
    cut = next((number for number, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
    text = data[cut:].decode("utf-8", "ignore")
    theirs, ours = _placed_words(text), _placed_words(quote)
    matcher = _matcher(theirs, ours)
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
    place = theirs[first:last]
    changes = [change for change in _matcher(place, ours).get_opcodes() if change[0] != "equal"]
    return Nearest(
        start=before,
        end=before + len(text[start:end].encode()),
        found=found,
        words=len(ours),
        differences=tuple(
            (_between(quote, ours, change[3], change[4]), _between(text, place, change[1], change[2]))
            for change in changes[:_MAX_DIFFERENCES]
        ),
    )


def _between(text: str, placed: _Placed, first: int, last: int) -> str:
    return text[placed[first][1] : placed[last - 1][2]] if last > first else ""


def _matcher(theirs: _Placed, ours: _Placed) -> SequenceMatcher[str]:
    return SequenceMatcher(
        None, [word for word, _, _ in theirs], [word for word, _, _ in ours], autojunk=False
    )
