"""Decide without a model whether the cited texts can support a claim.

A claim is doubtful if its telling words, its numbers, its names or its quotes are not in the texts that it
cites, or if it denies what they state or states what they deny. The check knows no meaning: it misses a false
claim that is made of its source's words.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from rlm.answers.support.figures import Figures, digits_of, figures_of, missing_figures, without_dates
from rlm.answers.support.negation import denies, doubts
from rlm.lazy_dataclass import dataclass
from rlm.retrieval.function_words import FUNCTION_WORDS
from rlm.retrieval.words import Tokens

__all__ = ["SupportCheck", "WordVerdict"]

_MIN_SHARE = 0.2
"""The share of a claim's words, weighted by rarity, that its sources must have."""
_NEAR = 0.5
"""What a word counts, as a share, that is only near the cited texts."""
_SEVERAL = 4
_ALIKE = 0.7
"""What a word counts, as a share, if its sources have one that begins like it: `mentor` for `mentorship`."""
_NEW_WORD = 0.5
"""What a word weighs that no text has, as a share of a word that one text has: it may be a paraphrase. A
capitalized word or a numeral weighs the full amount."""
_SAMPLE = 2_000
_SAMPLE_CHARS = 300_000
"""At most this number of texts, and of their characters, tell how rare a word is."""
_BEGINNING = 5
_MAX_MISSING = 8
_NUMBER = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)*(?![\w:]|[.,]\d)")
_NAME = re.compile(r"(?<=[^\W_]\s)[^\W\d_a-z][^\W_]+|(?<=[,;]\s)[^\W\d_a-z][^\W_]+")
_QUOTED = re.compile('["“«`]([^"“”«»`\n]{2,200})["”»`]')
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|[。！？，；、\n]+|(?<=[\u2e80-\U0003ffff])[,;]")
_SAME = 0.6
"""The share of a claim's words from which a sentence of its source says the same, or the opposite."""
_REST = 0.6
"""The share of a claim's other words from which a name that its sources do not have is another name."""
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


@dataclass(frozen=True, slots=True)
class _Text:
    """What is compared of a text. `beginnings` are those of its longer stems."""

    stems: frozenset[str]
    beginnings: frozenset[str]
    figures: Figures
    digits: frozenset[str]
    sentences: tuple[_Sentence, ...]
    names: frozenset[str]
    folded: str


@dataclass(frozen=True, slots=True)
class _Sentence:
    stems: frozenset[str]
    denies: bool
    doubts: bool


@dataclass(frozen=True, slots=True)
class _Word:
    word: str
    stem: str
    weight: float
    is_name: bool


class SupportCheck:
    """Compares claims with the texts that they cite.

    `texts` are all texts that may be cited, in order. A word that many texts of `corpus` have tells little;
    by default these are the texts. The names of `speakers` prove nothing. Use it from one thread at a time,
    and close it.
    """

    def __init__(
        self, texts: Sequence[str], speakers: Iterable[str] = (), corpus: Sequence[str] = ()
    ) -> None:
        self._texts = texts
        self._tokens = Tokens()
        self._known: dict[int, _Text] = {}
        corpus = corpus or texts
        sample = _sample(corpus)
        self._sampled = len(sample)
        self._counts = Counter(chain.from_iterable(map(frozenset, self._tokens.stems(sample))))
        self._names = frozenset(
            chain.from_iterable(self._tokens.stems(chain.from_iterable(map(_NAME.findall, sample))))
        )
        self._passed_over = frozenset(chain.from_iterable(self._tokens.stems([_REPORTING, *speakers])))

    def close(self) -> None:
        """Close the tokenizer."""
        self._tokens.close()

    def holds(self, claim: str, cited: Iterable[int]) -> bool:
        """Return whether one of the texts has the claim word for word, if that is at least three words."""
        folded = " ".join(claim.split()).strip(' "“”.…')
        return folded.count(" ") > 1 and any(folded in self._text(place).folded for place in cited)

    def judge(self, claim: str, cited: Iterable[int], near: Iterable[int] = ()) -> WordVerdict:
        """Return whether the texts `cited` (places in `texts`, from 0) can support the claim. The texts
        `near` are their context: an answer like `yes, do that` has few words of its own."""
        own = [self._text(place) for place in cited]
        around = [*own, *(self._text(place) for place in near)]
        words = list(self._weighed(claim))
        found = total = 0.0
        missing: list[str] = []
        for one in words:
            is_own = any(one.stem in text.stems for text in own)
            is_near = is_own or any(one.stem in text.stems for text in around)
            is_alike = (
                not is_near
                and len(one.stem) >= _BEGINNING
                and any(one.stem[:_BEGINNING] in text.beginnings for text in around)
            )
            total += one.weight
            found += one.weight * (1.0 if is_own else _NEAR if is_near else _ALIKE * is_alike)
            if not is_near and not is_alike:
                missing.append(one.word)
        figures = figures_of(claim)
        known = _joined([text.figures for text in around])
        lacking = missing_figures(figures, known, frozenset().union(*(text.digits for text in around)))
        confirmed = sum(self._weight(number) for number in figures.numbers if number not in lacking)
        share = (found + confirmed) / (total + confirmed) if total + confirmed else 1.0
        quotes = self._missing_quotes(claim, frozenset().union(*(text.stems for text in around)))
        turned = self._turned(claim, words, own)
        matched = len(figures.numbers) - len(figures.numbers & set(lacking))
        # One word of several, mostly a name, does not support what is said of it.
        is_low = share < _MIN_SHARE or (len(words) >= _SEVERAL and len(words) - len(missing) + matched <= 1)
        faults = []
        names = self._other_names(words, own, around)
        unique = tuple(dict.fromkeys([*lacking, *quotes, *names, *missing]))[:_MAX_MISSING]
        if is_low or lacking or quotes or names:
            faults.append(f"not in its source: {', '.join(unique)}")
        if turned:
            faults.append(turned)
        return WordVerdict(
            not faults,
            share,
            unique,
            "; ".join(faults),
            only_numbers=bool(lacking) and not (is_low or quotes or names or turned),
            is_empty=not (total or figures.numbers or figures.dates),
        )

    def _text(self, place: int) -> _Text:
        text = self._known.get(place)
        if text is None:
            raw = self._texts[place]
            sentences = [one for one in _SENTENCE.split(raw) if one.strip()]
            stems = [frozenset(one) for one in self._tokens.stems([raw, *sentences])]
            text = self._known[place] = _Text(
                stems[0],
                frozenset(stem[:_BEGINNING] for stem in stems[0] if len(stem) >= _BEGINNING),
                figures_of(raw),
                digits_of(raw),
                tuple(
                    _Sentence(own, denies(one), doubts(one))
                    for own, one in zip(stems[1:], sentences, strict=True)
                ),
                frozenset(chain.from_iterable(self._tokens.stems(_NAME.findall(raw)))),
                " ".join(raw.split()),
            )
        return text

    def _turned(self, claim: str, words: Sequence[_Word], own: Sequence[_Text]) -> str:
        """Return why the claim says the opposite of its sources, or ""."""
        total = sum(one.weight for one in words)
        alike = [
            sentence
            for text in own
            for sentence in text.sentences
            if total and sum(one.weight for one in words if one.stem in sentence.stems) >= _SAME * total
        ]
        if not alike:
            return ""
        if denies(claim):
            return "" if any(one.doubts for one in alike) else "it denies what its source says"
        if doubts(claim):
            return ""
        return "its source denies it" if all(one.denies for one in alike) else ""

    def _other_names(
        self, words: Sequence[_Word], own: Sequence[_Text], around: Sequence[_Text]
    ) -> list[str]:
        """Return the names of a claim that its sources do not have, if they have the rest of it, and other
        names."""
        known = frozenset().union(*(text.stems | text.beginnings for text in around))
        missing = [
            one
            for one in words
            if one.is_name and one.stem not in known and one.stem[:_BEGINNING] not in known
        ]
        rest = [one for one in words if not one.is_name]
        total = sum(one.weight for one in rest)
        found = sum(one.weight for one in rest if any(one.stem in text.stems for text in own))
        if not missing or not total or found < _REST * total:
            return []
        others = frozenset().union(*(text.names for text in own)) - {one.stem for one in words}
        return [one.word for one in missing] if others else []

    def _weighed(self, claim: str) -> Iterator[_Word]:
        """Yield the telling words of a claim with their stems and weights. Rare words weigh more."""
        judged = _NUMBER.sub(" ", without_dates(claim))
        words = self._tokens.words([judged])[0]
        names = set(chain.from_iterable(self._tokens.words(_NAME.findall(judged))))
        for place, (word, stems) in enumerate(zip(words, self._tokens.stems(words), strict=True)):
            if word in FUNCTION_WORDS or not stems or stems[0] in self._passed_over:
                continue
            if len(word) == 1 and word.isascii():
                continue
            # A capital at the beginning tells nothing by itself.
            is_name = word in names or (place == 0 and claim[:1].isupper() and stems[0] in self._names)
            is_particular = bool(self._counts[stems[0]]) or is_name
            yield _Word(
                word, stems[0], self._weight(stems[0]) * (1.0 if is_particular else _NEW_WORD), is_name
            )

    def _weight(self, stem: str) -> float:
        return math.log(1 + self._sampled / (self._counts[stem] or 1))

    def _missing_quotes(self, claim: str, known: frozenset[str]) -> list[str]:
        quotes = _QUOTED.findall(claim)
        stems = self._tokens.stems(quotes)
        return [quote for quote, parts in zip(quotes, stems, strict=True) if not known.issuperset(parts)]


def _joined(figures: Sequence[Figures]) -> Figures:
    return Figures(
        frozenset().union(*(one.numbers for one in figures)),
        frozenset().union(*(one.counted for one in figures)),
        frozenset().union(*(one.dates for one in figures)),
        frozenset().union(*(one.units for one in figures)),
        any(one.relative for one in figures),
    )


def _sample(corpus: Sequence[str]) -> list[str]:
    texts = corpus[:: 1 + len(corpus) // _SAMPLE]
    each = _SAMPLE_CHARS // max(1, len(texts))
    return [text if len(text) <= each else text[:each] for text in texts]
