"""Decide without a model whether the cited texts can support a claim.

A claim is doubtful if its telling words, its numbers or its quoted names are not in the texts that it cites.
The check knows no meaning: it misses a false claim that is made of its source's words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from rlm.retrieval.words import FUNCTION_WORDS, Tokens

__all__ = ["SupportCheck", "WordVerdict"]

_MIN_SHARE = 0.2
"""The share of a claim's words, weighted by rarity, that its sources must have."""
_NEAR = 0.5
"""What a word counts, as a share, that is only near the cited texts."""
_ALIKE = 0.7
"""What a word counts, as a share, if its sources have one that begins like it: `mentor` for `mentorship`."""
_NEW_WORD = 0.5
"""What a word weighs that no text has, as a share of a word that one text has: it may be a paraphrase. A
capitalized word or a numeral weighs the full amount."""
_SAMPLE = 2_000
"""At most this number of texts tell how rare a word is."""
_BEGINNING = 5
_MAX_MISSING = 8
_NUMBER = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)*(?![\w:]|[.,]\d)")
_MONTH = r"(?:jan|feb|m[aä]r|apr|avr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zäéû]{0,7}\b\.?"
_DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:,?\s+\d{{4}})?"
    rf"|\b{_MONTH}\s+\d{{1,4}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?"
    r"|\b\d{4}-\d\d-\d\d|\b(?:19|20)\d\d\b|\b\d{1,2}:\d\d(?:\s*[ap]m\b)?",
    re.IGNORECASE,
)
"""Dates, years and times. They are not judged: a summary says `28 January` for `yesterday`."""
_NAME = re.compile(r"(?<=[^\W_]\s)[^\W\d_a-z][^\W_]+|(?<=[,;]\s)[^\W\d_a-z][^\W_]+")
_QUOTED = re.compile('["“«`]([^"“”«»`\n]{2,200})["”»`]')
_NUMERALS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_NUMERAL_DIGITS = {word: str(number) for number, word in enumerate(_NUMERALS.split())}
_REPORTING = """
    accept add agree announce appreciate argue ask assure caught chat claim confirm conversation decide
    describe discuss emphasize encourage encouragement explain express gratitude highlight importance inform
    learn mention message note offer open plan point praise propose recall remark reply report request respond
    reveal said say share suggest talk tell thank told want wish
"""
"""Words with which a summary says who said what. They are seldom in the source."""


@dataclass(frozen=True, slots=True)
class WordVerdict:
    """The outcome for one claim. `share` is the share of its words (by weight) that its sources have;
    `missing` are words, numbers and quoted names that they do not have. `reason` says why it is not
    supported. `only_numbers`: for no other reason than numbers that its sources do not have. `is_empty`: it
    has no word to compare."""

    supported: bool
    share: float
    missing: tuple[str, ...] = ()
    reason: str = ""
    only_numbers: bool = False
    is_empty: bool = False


class SupportCheck:
    """Compares claims with the texts that they cite.

    `texts` are all texts that may be cited, in order: a word that many of them have tells little. The names
    of `speakers` prove nothing. Use it from one thread at a time, and close it.
    """

    def __init__(
        self, texts: Sequence[str], speakers: Iterable[str] = (), corpus: Sequence[str] = ()
    ) -> None:
        self._texts = texts
        self._tokens = Tokens()
        self._stems: dict[int, frozenset[str]] = {}
        corpus = corpus or texts
        sample = corpus[:: 1 + len(corpus) // _SAMPLE]
        self._sampled = len(sample)
        self._counts = Counter(chain.from_iterable(map(frozenset, self._tokens.stems(sample))))
        self._passed_over = frozenset(chain.from_iterable(self._tokens.stems([_REPORTING, *speakers])))

    def close(self) -> None:
        """Close the tokenizer."""
        self._tokens.close()

    def judge(self, claim: str, cited: Iterable[int], near: Iterable[int] = ()) -> WordVerdict:
        """Return whether the texts `cited` (places in `texts`, from 0) can support the claim. The texts
        `near` are their context: an answer like `yes, do that` has few words of its own."""
        places, near = tuple(cited), tuple(near)
        own = self._stems_of(places)
        around = own | self._stems_of(near)
        found = total = 0.0
        missing: list[str] = []
        for word, stem, weight in self._weighed(claim):
            is_alike = stem not in around and any(_begin_alike(stem, other) for other in around)
            total += weight
            found += weight * (1.0 if stem in own else _NEAR if stem in around else _ALIKE * is_alike)
            if stem not in around and not is_alike:
                missing.append(word)
        judged = _DATE.sub(" ", claim)
        known = _known_numbers(self._texts[place] for place in (*places, *near))
        numbers = _numbers(judged)
        lacking = [number for number in numbers if number not in known]
        confirmed = sum(self._weight(number) for number in numbers if number in known)
        share = (found + confirmed) / (total + confirmed) if total + confirmed else 1.0
        quotes = self._missing_quotes(claim, around)
        unique = tuple(dict.fromkeys([*lacking, *quotes, *missing]))[:_MAX_MISSING]
        is_low = share < _MIN_SHARE
        return WordVerdict(
            not (is_low or lacking or quotes),
            share,
            unique,
            f"not in its source: {', '.join(unique)}" if is_low or lacking or quotes else "",
            only_numbers=bool(lacking) and not (is_low or quotes),
            is_empty=not (total or numbers),
        )

    def _stems_of(self, places: Iterable[int]) -> frozenset[str]:
        wanted = tuple(places)
        new = [place for place in wanted if place not in self._stems]
        for place, stems in zip(new, self._tokens.stems([self._texts[one] for one in new]), strict=True):
            self._stems[place] = frozenset(stems)
        return frozenset().union(*(self._stems[place] for place in wanted))

    def _weighed(self, claim: str) -> Iterator[tuple[str, str, float]]:
        """Yield the telling words of a claim with their stems and weights. Rare words weigh more."""
        judged = _NUMBER.sub(" ", _DATE.sub(" ", claim))
        words = self._tokens.words([judged])[0]
        names = set(chain.from_iterable(self._tokens.words(_NAME.findall(judged))))
        for word, stems in zip(words, self._tokens.stems(words), strict=True):
            if word in FUNCTION_WORDS or not stems or stems[0] in self._passed_over:
                continue
            if len(word) == 1 and word.isascii():
                continue
            is_particular = bool(self._counts[stems[0]]) or word in names or word in _NUMERAL_DIGITS
            yield word, stems[0], self._weight(stems[0]) * (1.0 if is_particular else _NEW_WORD)

    def _weight(self, stem: str) -> float:
        return math.log(1 + self._sampled / (self._counts[stem] or 1))

    def _missing_quotes(self, claim: str, known: frozenset[str]) -> list[str]:
        quotes = _QUOTED.findall(claim)
        stems = self._tokens.stems(quotes)
        return [quote for quote, parts in zip(quotes, stems, strict=True) if not known.issuperset(parts)]


def _begin_alike(one: str, other: str) -> bool:
    return one[:_BEGINNING] == other[:_BEGINNING] and min(len(one), len(other)) >= _BEGINNING


def _known_numbers(sources: Iterable[str]) -> set[str]:
    """Return the numbers of the texts in digits, also those that are words or parts of a word."""
    known: set[str] = set()
    for source in sources:
        words = re.findall(r"[a-z]+", source.casefold())
        known.update(_numbers(source), re.findall(r"\d+", source))
        known.update(_NUMERAL_DIGITS[word] for word in words if word in _NUMERAL_DIGITS)
    return known


def _numbers(text: str) -> list[str]:
    """Return the numbers in digits, without thousands separators."""
    return [re.sub(r"[,.](?=\d{3}\b)", "", number) for number in _NUMBER.findall(text)]
