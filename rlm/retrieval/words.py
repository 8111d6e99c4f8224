"""The words of the ranked index: folded and stemmed; pairs of characters where a script has no spaces.

Index, queries, hits and tf-idf use the same tokenizer: SQLite's own, through a table in memory. It stems
English. The words of other languages are replaced by their stems before (`languages.py`).
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from rlm.retrieval.languages import ENGLISH, Languages, function_words, stem_words, word_pattern

__all__ = ["FUNCTION_WORDS", "MAX_QUERY", "TOKENIZE", "SearchTerms", "Tokens", "split_spaceless"]

TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
"""The tokenizer in FTS5's notation. M* keeps marks with their letters: else every vowel sign would end a
word."""

MAX_QUERY = 2_000
"""Characters of a query that are used."""
MAX_WORDS = 64

_SPACELESS = (
    "\u0e00-\u0e7f"  # Thai
    "\u0e80-\u0eff"  # Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u3005\u3007\u3040-\u30ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # Han
    "\uac00-\ud7af"  # Hangul: particles stick to its words
    "\U00020000-\U0003ffff"  # rarer Han
)
_RUN = re.compile(f"[{_SPACELESS}]+")
_PHRASE = re.compile('["“«]([^"“”«»]{2,200})["”»]')


def split_spaceless(text: str) -> str:
    """Return `text` with every run of a script without spaces split into overlapping pairs of characters."""
    return text if text.isascii() else _RUN.sub(_split_pairs, text)


def _split_pairs(run: re.Match[str]) -> str:
    characters = run[0]
    if len(characters) == 1:
        return f" {characters} "
    return f" {' '.join(map(str.__add__, characters, characters[1:]))} "


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """The parsed query: `words` (folded, one for each stem), their `stems`, and quoted `phrases` as lists of
    words. Without any of them a search finds nothing.

    In a body with other languages than English, `forms` are what its words are compared by: for each word
    its stem in each of the languages. `form_stems` are what the tokenizer makes of these.
    """

    words: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()
    forms: tuple[tuple[str, ...], ...] = ()
    form_stems: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.words or self.phrases)


class Tokens:
    """The tokenizer of the index, for other texts. Use it from one thread at a time.

    `languages` are those of the body whose index is queried.
    """

    def __init__(self, languages: Languages | None = None) -> None:
        self._languages = languages or Languages()
        self._stemmers: dict[str, Callable[[str], str]] = {}
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        for name, tokenize in (("stemmed", TOKENIZE), ("plain", TOKENIZE.removeprefix("porter "))):
            self._connection.execute(
                f'CREATE VIRTUAL TABLE {name} USING fts5(text, content="", tokenize="{tokenize}")'
            )
            self._connection.execute(
                f"CREATE VIRTUAL TABLE {name}_tokens USING fts5vocab({name}, 'instance')"
            )

    def words(self, texts: Iterable[str]) -> list[list[str]]:
        """Return the folded words of each text, in order."""
        return self._tokenize("plain", texts)

    def stems(self, texts: Iterable[str], language: str = ENGLISH) -> list[list[str]]:
        """Return the stems of each text, in order, as the index holds them."""
        return self._tokenize("stemmed", map(self._stemmer(language), texts))

    def query(self, text: str) -> SearchTerms:
        """Parse a query. Double quotes mark a phrase; there is no other syntax. Function words count only
        when there are no others. Uses at most MAX_WORDS words of the first MAX_QUERY characters."""
        text = text[:MAX_QUERY]
        whole, *phrases = self.words([text, *_PHRASE.findall(text)])
        ignored = self._ignored_in(text)
        words = [word for word in whole if word not in ignored] or whole
        unique = list(dict.fromkeys(words))[:MAX_WORDS]
        by_stem: dict[str, str] = {}
        for word, stems in zip(unique, self.stems(unique), strict=True):
            by_stem.setdefault(stems[0] if stems else word, word)
        forms = self._forms(text, tuple(by_stem.values()))
        return SearchTerms(
            tuple(by_stem.values()),
            tuple(by_stem),
            tuple(tuple(each) for each in phrases if len(each) > 1),
            forms,
            frozenset(chain.from_iterable(self.stems(chain.from_iterable(forms)))),
        )

    def _ignored_in(self, text: str) -> frozenset[str]:
        """Return the words of grammar of the query's language: of that language of the body that has most of
        the query's words, and of English if none has more."""
        languages = self._languages
        if not languages.names:
            return FUNCTION_WORDS
        words = set(word_pattern().findall(text.lower()))
        counts = {language: len(words & function_words()[language]) for language in languages.names}
        best = max(counts, key=lambda language: counts[language])
        needed = len(words & FUNCTION_WORDS) + 1 if languages.has_english else 1
        if counts[best] < needed:
            return FUNCTION_WORDS
        (folded,) = self.words([" ".join(words & function_words()[best])])
        return frozenset(folded)

    def _forms(self, text: str, words: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Return the stems of each of the folded words, which are from `text`, in each language."""
        languages = self._languages
        if not languages.names:
            return ()
        names = (*languages.names, *([ENGLISH] if languages.has_english else []))
        raw_words = list(dict.fromkeys(word_pattern().findall(text)))
        # A stemmer needs the accents that folding removes.
        raw = {
            folded[0]: word
            for word, folded in zip(raw_words, self.words(raw_words), strict=True)
            if len(folded) == 1
        }
        return tuple(
            tuple(dict.fromkeys(self._stemmer(name)(raw.get(word, word)).lower() for name in names))
            for word in words
        )

    def _stemmer(self, language: str) -> Callable[[str], str]:
        if language not in self._stemmers:
            self._stemmers[language] = stem_words(language)
        return self._stemmers[language]

    def close(self) -> None:
        self._connection.close()

    def _tokenize(self, table: str, texts: Iterable[str]) -> list[list[str]]:
        rows = [(number, split_spaceless(text)) for number, text in enumerate(texts, 1)]
        found: list[list[str]] = [[] for _ in rows]
        try:
            # The table's name is a constant of this module.
            self._connection.executemany(f"INSERT INTO {table}(rowid, text) VALUES (?, ?)", rows)  # noqa: S608
            tokens = self._connection.execute(f"SELECT doc, term FROM {table}_tokens ORDER BY doc, offset")  # noqa: S608
            for number, term in tokens:
                # SQLite gives NULL for a token that it cannot decode.
                if term is not None:
                    found[number - 1].append(term)
        finally:
            self._connection.execute(f"INSERT INTO {table}({table}) VALUES ('delete-all')")  # noqa: S608
        return found


_FUNCTION_WORDS = """
    a about after again all also am an and any are as at be because been before being between both but by
    can could did do does doing down during each for from had has have having he her here hers him his how
    i if in into is it its itself just many me more most much my no nor not now of off on once only or
    other our out over own same shall she should so some such than that the their them then there these
    they this those through to too under until up us very was we were what when where which while who whom
    whose why will with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words. They are ignored unless a query has no other words."""
