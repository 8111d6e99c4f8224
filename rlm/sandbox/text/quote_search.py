"""Finds the places of quotes in a text of any size, in bounded work.

A verbatim place wins. Otherwise a place that reads the same counts (`text_folding`). Different words or
another order never match. The search reads the text in windows. Its time grows in proportion to the text and
to the quotes. Places that only look like a quote are tried up to a limit.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, takewhile
from typing import Any, Literal

import re2

from .text_folding import (
    Token,
    is_plain,
    skeleton,
    skeleton_sizes,
    stable_words,
    tokens,
    words_or_unsure,
)
from .transcripts import spoken_places

__all__ = [
    "MAX_NEAR",
    "MAX_QUOTE_CHARS",
    "Budget",
    "Found",
    "OutOfTime",
    "Wanted",
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
_BLOCK_BYTES = 2_048
_CONTEXT_BYTES = 256
_MAX_GROWTH = 8
"""A quote may take this many times its bytes in the text, with all its white space and escapes."""
_MORE_GROWTH = 4_096
_MAX_TRIED = 2_000
"""Places of one quote that only look like it."""
_STRIPPED_CHARS = " \t\r\n…"

Read = Callable[[int, int], bytes]
"""Returns the bytes of the text from an offset to another one."""
Status = Literal["found", "missing", "common", "too_long", "unsearched"]


class OutOfTime(Exception):
    """The seconds of a search are used up."""


class Budget:
    """Limits a search to seconds of computing of its thread: other work does not change what is found."""

    def __init__(self, seconds: float = float("inf")) -> None:
        self._end = time.thread_time() + seconds

    def check(self) -> None:
        """Raise OutOfTime if the seconds are used up. Called before each piece of work."""
        if time.thread_time() > self._end:
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


_MISSING = Found("missing")
_UNSEARCHED = Found("unsearched")


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
    verbatim place, the first place that reads the same, the first one that does without the notes of a
    transcript. When the budget is used up, the rest is `unsearched`.
    """
    search = _Search(read, size, budget, window)
    results: dict[int, Found] = {}
    patterns: dict[int, _Pattern] = {}
    places: dict[int, tuple[int, int]] = {}
    try:
        for number, quote in enumerate(quotes):
            text = _trim(quote.text)
            if text is None or len(text) > MAX_QUOTE_CHARS:
                results[number] = _MISSING if text is None else Found("too_long")
            else:
                patterns[number] = _Pattern(text, budget)
        steps = (lambda rest: search.near(rest, near), search.verbatim, search.folded, search.spoken)
        for step in steps:
            for number, place in step({at: one for at, one in patterns.items() if at not in places}):
                places[number] = place
                if quotes[number].max_places is None:
                    results[number] = Found("found", *place)
        for number, pattern in patterns.items():
            if number not in places and pattern.tried <= _MAX_TRIED:
                results[number] = _MISSING
        for number, place in places.items():
            most = quotes[number].max_places
            if most is not None:
                common = search.is_common(patterns[number], most)
                results[number] = Found("common") if common else Found("found", *place)
    except OutOfTime:
        pass
    return [results.get(number, _UNSEARCHED) for number in range(len(quotes))]


def _trim(quote: str) -> str | None:
    """Return the text to search for, or None if it is empty or not valid Unicode."""
    text = quote.strip().strip(_STRIPPED_CHARS)
    has_lone_surrogate = any("\ud800" <= char <= "\udfff" for char in text)
    return None if not text or has_lone_surrogate else text


class _Pattern:
    """One quote in the forms that a search needs."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._text = text
        self._budget = budget
        self.data = text.encode()
        budget.check()
        self.skeleton = skeleton(self.data)
        self.room = _MAX_GROWTH * len(self.data) + _MORE_GROWTH
        self.tried = 0

    @cached_property
    def tokens(self) -> list[Token]:
        self._budget.check()
        return list(tokens(self._text))

    @cached_property
    def words(self) -> list[str]:
        self._budget.check()
        return stable_words(self._text)

    @cached_property
    def lead(self) -> int:
        """The tokens before the first letter or digit."""
        first = next(skeleton_sizes(self._text), (0, 0))[0]
        return next((number for number, token in enumerate(self.tokens) if token.start >= first), 0)


class _Region:
    """A part of the text with its skeleton, made block by block so that places can be mapped back."""

    def __init__(self, start: int, data: bytes) -> None:
        # A window may begin inside a character.
        cut = next((number for number, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
        self.start = start + cut
        self.data = data = data[cut:]
        self.borders = list(_borders(data))
        parts = [skeleton(data[low:high]) for low, high in zip(self.borders, self.borders[1:], strict=False)]
        self.skeleton = b"".join(parts)
        self._ends = list(accumulate(map(len, parts)))
        self._mapped: dict[int, dict[int, int]] = {}

    def byte_of(self, offset: int, budget: Budget) -> int | None:
        """Return the byte of `data` at which the letter at an offset of the skeleton begins, or None."""
        block = bisect_right(self._ends, offset)
        before = self._ends[block - 1] if block else 0
        if block not in self._mapped:
            low, high = self.borders[block], self.borders[block + 1]
            budget.check()
            if len(self._mapped) > _MAX_MAPPED:
                self._mapped.clear()
            self._mapped[block] = _map_block(self.data[low:high])
        at = self._mapped[block].get(offset - before)
        return None if at is None else self.borders[block] + at


_MAX_MAPPED = 16


def _map_block(data: bytes) -> dict[int, int]:
    """Return for each offset of the block's skeleton at which a letter begins, the byte of the letter."""
    text = data.decode("utf-8", "ignore")
    places = {}
    chars = at = offset = 0
    for start, size in skeleton_sizes(text):
        at += len(text[chars:start].encode())
        chars = start
        places[offset] = at
        offset += size
    return places


def _borders(data: bytes) -> Iterator[int]:
    """Yield where blocks begin and end: after a blank if there is one, and never inside a character."""
    at = 0
    while at < len(data):
        yield at
        end = at + _BLOCK_BYTES
        if end < len(data):
            blank = data.rfind(b" ", end - _BLOCK_BYTES // 8, end)
            if blank > at:
                end = blank + 1
            while end > at + 1 and data[end] & 0xC0 == 0x80:
                end -= 1
        at = end
    yield len(data)


class _Prefilter:
    """Tells in one pass whether a text may hold one of many parts."""

    def __init__(self) -> None:
        self._parts: Sequence[bytes] = ()
        self._pattern: Any = None

    def may_hold(self, parts: Sequence[bytes], data: bytes) -> bool:
        if parts != self._parts:
            # Ends tell more than beginnings: the lines of a log begin alike.
            ends = dict.fromkeys(part[-_PREFILTER_BYTES:] for part in parts)
            options = re2.Options()
            options.log_errors = False
            options.encoding = re2.Options.Encoding.LATIN1
            literals = ("".join(f"\\x{byte:02x}" for byte in end) for end in ends)
            self._pattern = re2.compile("|".join(literals).encode(), options)
            self._parts = parts
        return self._pattern.search(data) is not None


_PREFILTER_BYTES = 24
_MIN_WORDS = 3
_MAX_COMPILED = 16
_MANY = 6
"""Quotes from which on one pass for all of them is faster than a pass for each."""


class _Search:
    """Searches one text within one budget."""

    def __init__(self, read: Read, size: int, budget: Budget, window: int) -> None:
        self._read = read
        self._size = size
        self._budget = budget
        self._window = window
        self._patterns_of_words: dict[tuple[str, ...], Any] = {}

    def near(
        self, patterns: dict[int, _Pattern], near: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the places inside the spans `near`, or else around one of them."""
        spans = [span for span in dict.fromkeys(near) if span[1] - span[0] <= _MAX_NEAR_BYTES][:MAX_NEAR]
        rest = dict(patterns)
        for slack in (0, _NEAR_BYTES):
            for start, end in spans:
                if not rest:
                    return
                most = max(slack, *(len(one.data) for one in rest.values())) if slack else 0
                region = self._region(max(0, start - most), min(self._size, end + most))
                for number, pattern in list(rest.items()):
                    place = self._in_region(pattern, region)
                    if place is not None:
                        yield number, place
                        del rest[number]

    def verbatim(self, patterns: dict[int, _Pattern]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the first verbatim places."""
        rest = dict(patterns)
        filtered = _Prefilter()
        for low, data in self._windows(max((len(one.data) for one in rest.values()), default=0)):
            if not self._may_hold(filtered, [one.data for one in rest.values()], data):
                continue
            for number, pattern in list(rest.items()):
                self._budget.check()
                at = data.find(pattern.data)
                if at >= 0:
                    yield number, (low + at, low + at + len(pattern.data))
                    del rest[number]
            if not rest:
                return

    def spoken(self, patterns: dict[int, _Pattern]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the first places in a transcript whose words and stops are those of a quote."""
        quotes = {number: one.data.decode() for number, one in patterns.items()}
        windows = self._windows(max((one.room for one in patterns.values()), default=0))
        return spoken_places(quotes, windows, self._budget.check)

    def folded(self, patterns: dict[int, _Pattern]) -> Iterator[tuple[int, tuple[int, int]]]:
        """Yield the first places that read the same."""
        rest = {number: one for number, one in patterns.items() if one.skeleton}
        if not rest:
            return
        filtered = _Prefilter()
        for low, data in self._windows(max(one.room for one in rest.values()), _CONTEXT_BYTES):
            if not self._may_read_alike(list(rest.values()), data):
                continue
            region = self._fold(max(0, low - _CONTEXT_BYTES), data)
            if not self._may_hold(filtered, [one.skeleton for one in rest.values()], region.skeleton):
                continue
            for number, pattern in list(rest.items()):
                place = self._folded_in(pattern, region, low + self._window - region.start)
                if place is not None:
                    yield number, place
                    del rest[number]
            if not rest:
                return

    def _may_hold(self, filtered: _Prefilter, parts: Sequence[bytes], data: bytes) -> bool:
        """Return False if none of many parts is in `data`, at the price of looking for a few of them."""
        if len(parts) < _MANY:
            return True
        self._budget.check()
        return filtered.may_hold(parts, data)

    def _may_read_alike(self, patterns: Sequence[_Pattern], data: bytes) -> bool:
        """Return False if `data` lacks most of the words of each quote, at less than the price of folding."""
        if any(len(one.words) < _MIN_WORDS for one in patterns):
            return True
        if not self._may_hold_a_word([word for one in patterns for word in one.words[:_MIN_WORDS]], data):
            return False
        if len(patterns) >= _MANY or not is_plain(data):
            return True
        return any(self._may_hold_most_words(pattern, data) for pattern in patterns)

    def _may_hold_a_word(self, words: Sequence[str], data: bytes) -> bool:
        """Return False if `data` holds none of some words, whole or broken at the ends of lines."""
        key = tuple(words)
        if key not in self._patterns_of_words:
            if len(self._patterns_of_words) >= _MAX_COMPILED:
                self._patterns_of_words.clear()
            self._budget.check()
            self._patterns_of_words[key] = words_or_unsure(key)
        self._budget.check()
        return self._patterns_of_words[key].search(data) is not None

    def _may_hold_most_words(self, pattern: _Pattern, data: bytes) -> bool:
        missing = []
        for word in pattern.words:
            self._budget.check()
            if word.encode() not in data:
                missing.append(word)
            if 2 * len(missing) > len(pattern.words):
                # Where the quote stands, each of these words is broken.
                return self._may_hold_a_word(missing, data)
        return True

    def is_common(self, pattern: _Pattern, most: int) -> bool:
        """Return whether a quote stands verbatim in more than `most` places."""
        count = 0
        for _, data in self._windows(len(pattern.data) - 1):
            self._budget.check()
            count += data.count(pattern.data)
            if count > most:
                return True
        return False

    def _windows(self, overlap: int, context: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield the first byte of each window, and its bytes with `context` before and `overlap` after it."""
        for low in range(0, self._size, self._window):
            self._budget.check()
            yield (
                low,
                self._read(max(0, low - context), min(self._size, low + self._window + overlap)),
            )

    def _region(self, low: int, high: int) -> _Region:
        return self._fold(low, self._read(low, high))

    def _fold(self, low: int, data: bytes) -> _Region:
        self._budget.check()
        return _Region(low, data)

    def _in_region(self, pattern: _Pattern, region: _Region) -> tuple[int, int] | None:
        self._budget.check()
        at = region.data.find(pattern.data)
        if at >= 0:
            return region.start + at, region.start + at + len(pattern.data)
        return self._folded_in(pattern, region, len(region.data)) if pattern.skeleton else None

    def _folded_in(self, pattern: _Pattern, region: _Region, before: int) -> tuple[int, int] | None:
        """Return the first place in a region that reads the same and begins before byte `before` of it."""
        if pattern.tried > _MAX_TRIED:
            return None
        self._budget.check()
        offset = region.skeleton.find(pattern.skeleton)
        while offset >= 0:
            at = region.byte_of(offset, self._budget)
            if at is not None:
                if at >= before:
                    return None
                place = self._read_alike(pattern, region, at)
                if place is not None:
                    return region.start + place[0], region.start + place[1]
            pattern.tried += 1
            if pattern.tried > _MAX_TRIED:
                return None
            self._budget.check()
            offset = region.skeleton.find(pattern.skeleton, offset + 1)
        return None

    def _read_alike(self, pattern: _Pattern, region: _Region, at: int) -> tuple[int, int] | None:
        """Return the bytes of `region` that read as the quote, or None. Its first letter is at byte `at`."""
        self._budget.check()
        head = region.data[max(0, at - _CONTEXT_BYTES) : at].decode("utf-8", "ignore")
        text = head + region.data[at : at + pattern.room].decode("utf-8", "ignore")
        start = len(head)
        end = _aligned_end(pattern.tokens[pattern.lead :], self._timed(tokens(text, start)))
        if end is None:
            return None
        if pattern.lead:
            before = list(takewhile(lambda token: token.start < start, self._timed(tokens(text))))
            lead = pattern.tokens[: pattern.lead]
            first = _aligned_end(lead[::-1], iter(before[::-1]), backward=True)
            if first is None:
                return None
            start = first if first >= 0 else start
        low = at - len(text[start : len(head)].encode())
        return low, at + len(text[len(head) : end].encode())

    def _timed(self, every: Iterator[Token]) -> Iterator[Token]:
        for token in every:
            self._budget.check()
            yield token


def _aligned_end(quote: Sequence[Token], body: Iterator[Token], *, backward: bool = False) -> int | None:
    """Return where the part of the body ends that reads as the tokens of a quote, or None.

    With `backward` both are read from their ends, and the result is where the part begins. It is -1 if
    no token of the quote needs one of the body.
    """
    number = 0
    last: Token | None = None
    for token in body:
        while number < len(quote) and quote[number].char != token.char and quote[number].optional:
            if token.optional:
                break
            number += 1
        if number == len(quote):
            if last is not None and token.start == last.start:
                return None  # the place would end inside a character
            break
        if quote[number].char == token.char:
            number += 1
            last = token
        elif not token.optional:
            return None
    if not all(token.optional for token in quote[number:]):
        return None
    if last is None:
        return -1
    return last.start if backward else last.end
