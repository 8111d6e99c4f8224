"""Measure how often the words and phrases of a chat occur, and so how much each says."""

from __future__ import annotations

import math
import re
from collections import Counter as Tally
from collections.abc import Collection, Sequence

from rlm.prompts.history.sentences import UNSPACED

__all__ = ["TermFrequency", "words_of"]

_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+(?:['’][^\W{UNSPACED}]+)?")
_NUMBER = re.compile(r"\d+")
_QUOTED = re.compile(r"`[^`\n]+`|\"[^\"\n]{2,60}\"|“[^”\n]{2,60}”|«[^»\n]{2,60}»|「[^」\n]{2,60}」")
_TOKEN = re.compile(rf"[^\s{UNSPACED}\u3000-\u303f\uff00-\uffef]+")
_AROUND = ".,;:!?()[]{}<>\"'`“”‘’*¿¡«»"
_FIGURE = re.compile(r"[#$€£¥₹~≈<>=≤≥±+-]{0,2}\d")
_HABIT_SHARE = 0.05  # share of the messages above which a phrase is a habit
_COMMON_CUE = 0.7  # rarity below which a cue phrase loses weight (1: once in a chat)


def words_of(text: str) -> list[str]:
    """Return the words of `text`. In scripts without spaces, every character is a word."""
    return _WORD.findall(text)


def _is_code(word: str) -> bool:
    """Return whether `word` is a path, a file, an address, an identifier or an abbreviation."""
    inside = word[1:-1]
    return (
        any(sign in inside for sign in "/\\_.=@")
        or word.startswith(("--", "/", "~", "@", "#"))
        or any(letter.isupper() for letter in word[1:])
        or (any(letter.isdigit() for letter in word[1:]) and any(letter.isalpha() for letter in word))
    )


class TermFrequency:
    """Counts words, three-word sequences and cue phrases by message.

    Frequent ones are small talk, progress lines or log formats. `split` holds the sentences of each message,
    `cues` the cue phrases found in it.
    """

    def __init__(self, split: Sequence[Sequence[str]], cues: Sequence[Collection[str]] = ()) -> None:
        self._grams: Tally[tuple[str, ...]] = Tally()
        self._words: Tally[str] = Tally()
        self._small: set[str] = set()
        for sentences in split:
            grams: set[tuple[str, ...]] = set()
            words: set[str] = set()
            for sentence in sentences:
                shape = self._shape(sentence)
                grams.update(zip(shape, shape[1:], shape[2:], strict=False))
                words.update(shape)
                words.update(
                    word for token in _TOKEN.findall(sentence) if _FIGURE.match(word := token.strip(_AROUND))
                )
                self._small.update(word for word in words_of(sentence) if word.islower())
            self._grams.update(grams)
            self._words.update(words)
        self._cues: Tally[str] = Tally(cue for found in cues for cue in found)
        self._scale = math.log(max(3, len(split)))
        self._often = math.log(max(4.0, _HABIT_SHARE * len(split)) / 2)

    @staticmethod
    def _shape(sentence: str) -> list[str]:
        return [_NUMBER.sub("0", word.casefold()) for word in words_of(sentence)]

    def _rarity(self, word: str) -> float:
        """Return 1 for a word of one message, down to 0 for a word of every message."""
        return 1 - math.log(max(1, self._words[word])) / self._scale

    def _max_rarity(self, piece: str) -> float:
        return max((self._rarity(word) for word in self._shape(piece)), default=0.0)

    def cue_weight(self, phrase: str) -> float:
        """Return how much a cue phrase says in this chat: 1, or less if it is frequent here."""
        return min(1.0, (1 - math.log(max(1, self._cues[phrase])) / self._scale) / _COMMON_CUE)

    def is_distinctive(self, word: str) -> bool:
        """Return whether the word is not among the most frequent ones."""
        return self._rarity(_NUMBER.sub("0", word.casefold())) > 0.4

    def novelty(self, sentence: str) -> float:
        """Return 0 for a frequent phrasing, up to 1 for a unique one in rare words."""
        shape = self._shape(sentence)
        grams = list(zip(shape, shape[1:], shape[2:], strict=False))
        if not grams:
            return 0.0
        new = sum(
            min(1.0, max(0.0, 1 - math.log(max(2, self._grams[gram]) / 2) / self._often)) for gram in grams
        )
        rare = sorted((self._rarity(word) for word in set(shape)), reverse=True)[:5]
        return new / len(grams) * (0.4 + 0.6 * sum(rare) / len(rare))

    def particulars(self, sentence: str) -> dict[str, float]:
        """Return numbers, names, paths and code in a sentence, with their weights."""
        found: dict[str, float] = {}
        for token in _TOKEN.findall(sentence):
            word = token.strip(_AROUND)
            if not word or (len(word) < 2 and not word.isdigit()) or (word.islower() and word.isalpha()):
                continue
            if _FIGURE.match(word):
                found[word] = (0.4 if len(word) < 2 else 1.3) * self._rarity(word)
            elif _is_code(word):
                found[word] = (0.7 if word.isalpha() and word.isupper() else 1.5) * self._max_rarity(word)
            elif word[0].isupper() and len(word) > 2 and word.casefold() not in self._small:
                # A name, not the first word of a sentence: the chat never writes it in lower case.
                found[word] = 0.7 * self._rarity(word.casefold())
        for quote in _QUOTED.findall(sentence):
            if quote.strip(_AROUND) not in found:
                found[quote] = self._max_rarity(quote)
        return found
