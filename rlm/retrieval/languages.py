"""The languages of a body, told by their words of grammar, and the stems of their words (Snowball).

English and what is not known have the name "". The tokenizer of the index stems these by itself.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files

import Stemmer

from rlm.sandbox.text.body import Body

__all__ = [
    "ENGLISH",
    "Languages",
    "detect_language",
    "function_words",
    "language_of",
    "stem_words",
    "word_pattern",
]

ENGLISH = ""
_SAMPLE = 3_000
"""Characters of a text that tell its language."""
_LEAST_WORDS = 12
"""A text with fewer words of grammar is too short to tell its language."""
_LEAST_DIFFERENT = 8
"""A text that repeats a few of them is code or a table."""
_LEAST_SHARE = 0.07
"""The share of a language's words of grammar in its texts is mostly 0.25 to 0.5, and below 0.1 where half of
the words are names of functions."""
_LEAD = 1.25
"""English has to be so much rarer: a text that quotes much of it is stemmed as English, as before."""
_LETTERS = re.compile(r"[^\W\d_]+")
_MAX_WORD = 64
_MAX_KNOWN = 300_000
"""Words of a language whose stems are remembered: about 40 MB."""


def detect_language(sample: str) -> str:
    """Return the name of the sample's language, or ENGLISH. Looks at its first _SAMPLE characters."""
    words = _LETTERS.findall(_compose(sample[:_SAMPLE]).lower())
    counts: Counter[str] = Counter()
    different: Counter[str] = Counter()
    for word, times in Counter(words).items():
        for language in _languages_by_word().get(word, ()):
            counts[language] += times
            different[language] += 1
    english = counts.pop("english", 0)
    if not counts:
        return ENGLISH
    best, count = min(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    is_sure = (
        count >= max(_LEAST_WORDS, _LEAST_SHARE * len(words))
        and count >= _LEAD * english
        and different[best] >= _LEAST_DIFFERENT
    )
    return best if is_sure else ENGLISH


def language_of(body: Body, start: int, end: int) -> str:
    """Return the language of a part of a body, from pieces of its start, middle and end."""
    if end - start <= _SAMPLE:
        return detect_language(body.text(start, end))
    size = _SAMPLE // 3
    middle = (start + end - size) // 2
    return detect_language("\n".join(body.text(at, at + size - 1) for at in (start, middle, end - size)))


@cache
def function_words() -> dict[str, frozenset[str]]:
    """Return the words of grammar of each language, in lower case with their accents."""
    table = tomllib.loads(files("rlm.retrieval").joinpath("function_words.toml").read_text("utf-8"))
    return {language: frozenset(words.split()) for language, words in table.items()}


def stem_words(language: str) -> Callable[[str], str]:
    """Return a function that replaces each word of a text by its stem. It keeps the number of words and what
    is between them. Use it from one thread at a time."""
    if language == ENGLISH:
        return lambda text: text
    stem = Stemmer.Stemmer(language, 0).stemWord
    known: dict[str, str] = {}

    def stem_of(match: re.Match[str]) -> str:
        word = match[0]
        found = known.get(word)
        if found is None:
            if len(known) >= _MAX_KNOWN:
                known.clear()
            # A stem of no letters would lose a place that a phrase counts.
            found = known[word] = (stem(word) or word) if len(word) <= _MAX_WORD else word
        return found

    return lambda text: word_pattern().sub(stem_of, _compose(text).lower())


class Languages:
    """The languages of passages, as runs: each begins at a number of `firsts` and lasts until the next."""

    def __init__(self, firsts: Iterable[int] = (), names: Iterable[str] = ()) -> None:
        self._firsts = array("Q", firsts)
        self._names = list(names)

    def begin(self, first: int, name: str) -> None:
        """Say that the passages from `first` on, which is above all earlier ones, are of this language."""
        if not self._names or self._names[-1] != name:
            self._firsts.append(first)
            self._names.append(name)

    def of(self, passage: int) -> str:
        """Return the language of a passage."""
        at = bisect_right(self._firsts, passage) - 1
        return self._names[at] if at >= 0 else ENGLISH

    @property
    def names(self) -> tuple[str, ...]:
        """Return every language but ENGLISH, sorted."""
        return tuple(sorted(set(self._names) - {ENGLISH}))

    @property
    def has_english(self) -> bool:
        """Return whether any passage is English or not known."""
        return ENGLISH in self._names or not self._names

    def to_json(self) -> list[list[int] | list[str]]:
        """Return what the constructor takes."""
        return [self._firsts.tolist(), list(self._names)]


@cache
def word_pattern() -> re.Pattern[str]:
    """Return a pattern of the index's words: letters, digits and their marks."""
    marks = (chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"(?:[^\W_]+|[{''.join(marks)}]+)+")


def _compose(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@cache
def _languages_by_word() -> dict[str, list[str]]:
    languages: dict[str, list[str]] = {}
    for language, words in function_words().items():
        for word in words:
            # A Latin letter alone is mostly a name in code.
            if len(word) > 1 or not word.isascii():
                languages.setdefault(word, []).append(language)
    return languages
