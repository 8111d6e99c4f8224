"""The words of the ranked index: folded and stemmed; pairs of characters where a script has no spaces.

Index, queries, hits and tf-idf use the same tokenizer: SQLite's own, through a table in memory.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["FUNCTION_WORDS", "MAX_QUERY", "TOKENIZE", "SearchTerms", "Tokens", "split_spaceless"]

TOKENIZE = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
"""The tokenizer in FTS5's notation. M* keeps marks with their letters: else every vowel sign would end a
word."""

MAX_QUERY = 2_000
"""Characters of a query that are used."""
MAX_WORDS = 64

_FUNCTION_WORDS = """
    a about after again all also am an and any are as at be because been before being between both but by
    can could did do does doing down during each for from had has have having he her here hers him his how i
    if in into is it its itself just me more most my no nor not now of off on once only or other our out
    over own same shall she should so some such than that the their them then there these they this those
    through to too under until up us very was we were what when where which while who whom whose why will
    with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words. They are ignored unless a query has no other words."""

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
    words. Without any of them a search finds nothing."""

    words: tuple[str, ...] = ()
    stems: tuple[str, ...] = ()
    phrases: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words or self.phrases)


class Tokens:
    """The tokenizer of the index, for other texts. Use it from one thread at a time."""

    def __init__(self) -> None:
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

    def stems(self, texts: Iterable[str]) -> list[list[str]]:
        """Return the stems of each text, in order, as the index holds them."""
        return self._tokenize("stemmed", texts)

    def query(self, text: str) -> SearchTerms:
        """Parse a query. Double quotes mark a phrase; there is no other syntax. Function words count only
        when there are no others. Uses at most MAX_WORDS words of the first MAX_QUERY characters."""
        text = text[:MAX_QUERY]
        whole, *phrases = self.words([text, *_PHRASE.findall(text)])
        words = [word for word in whole if word not in FUNCTION_WORDS] or whole
        unique = list(dict.fromkeys(words))[:MAX_WORDS]
        by_stem: dict[str, str] = {}
        for word, stems in zip(unique, self.stems(unique), strict=True):
            by_stem.setdefault(stems[0] if stems else word, word)
        return SearchTerms(
            tuple(by_stem.values()), tuple(by_stem), tuple(tuple(each) for each in phrases if len(each) > 1)
        )

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
                found[number - 1].append(term)
        finally:
            self._connection.execute(f"INSERT INTO {table}({table}) VALUES ('delete-all')")  # noqa: S608
        return found
