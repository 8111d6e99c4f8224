"""The ranked index: BM25 over passages, in SQLite's FTS5. It holds postings and no text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Self

from rlm.retrieval.errors import QueryStopped
from rlm.retrieval.words import TOKENIZE, SearchTerms, split_spaceless

__all__ = ["INDEX_VERSION", "RankedIndex", "Stop"]

INDEX_VERSION = 3
"""Part of an index's key in the cache. Changes when what `build` writes does, or how passages are cut."""
_FILE = "fts5.db"
_CACHE_KB = 16_000
_HASH_BYTES = 16 * 2**20
"""Bytes of postings held in memory before FTS5 writes a segment. With its default of 1 MiB, building takes
two thirds longer, because it merges more segments."""
_MAX_MAPPED = 1 << 40
"""Bytes of the file that may be mapped: all of it, since a query over a million passages reads a row of
each."""
_COMMON = 4
"""In large indexes, a word that more than a fourth of the passages contain is ignored if the query has
others. Such a word costs most of the time and hardly changes the ranking."""
_LARGE = 50_000
_STEPS = 20_000


Stop = Callable[[], bool]
"""Called now and then on the query's thread. True ends the query with QueryStopped."""


class RankedIndex:
    """An index over passages, open for reading. Use it from one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        last = connection.execute("SELECT max(rowid) FROM passages").fetchone()[0]
        self._passages = 0 if last is None else last + 1

    @classmethod
    def build(
        cls, folder: Path | None, batches: Iterable[tuple[int, Sequence[str], Sequence[str] | None]]
    ) -> Self:
        """Index batches of passages in `folder`, or in memory if it is None. A batch is the number of its
        first passage, the texts, and the same texts with stems for words, or None in a body that is all
        English. Passes on what the batches raise. Raises OSError when the disk fails."""
        connection = _connect(":memory:" if folder is None else str(folder / _FILE))
        try:
            # Only whole indexes are read. A crash leaves a folder that is discarded, so no journal is needed.
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
            connection.execute(
                f'CREATE VIRTUAL TABLE passages USING fts5(text, stems, content="", tokenize="{TOKENIZE}")'
            )
            connection.execute(f"INSERT INTO passages(passages, rank) VALUES('hashsize', {_HASH_BYTES})")
            connection.execute("BEGIN")
            for first, texts, stems in batches:
                split = map(split_spaceless, texts)
                if stems is None:
                    connection.executemany(
                        "INSERT INTO passages(rowid, text) VALUES (?, ?)", enumerate(split, first)
                    )
                else:
                    connection.executemany(
                        "INSERT INTO passages(rowid, text, stems) VALUES (?, ?, ?)",
                        zip(count(first), split, map(split_spaceless, stems), strict=False),
                    )
            connection.execute("COMMIT")
            return cls(connection)
        except sqlite3.Error as error:
            connection.close()
            raise OSError(f"SQLite: {error}") from error
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open an index that was built before. Raises OSError when it is damaged."""
        if not (folder / _FILE).is_file():
            raise OSError(f"{folder / _FILE} is missing")
        connection = _connect(f"{(folder / _FILE).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
            connection.execute(f"PRAGMA mmap_size={_MAX_MAPPED}")
            return cls(connection)
        except (sqlite3.Error, OSError) as error:
            connection.close()
            raise OSError(f"SQLite: {error}") from error

    def top(
        self, query: SearchTerms, limit: int, stop: Stop, numbers: range | None = None
    ) -> list[tuple[int, float]]:
        """Return the best passages, or the best of `numbers`, as (number, BM25 score): score descending, then
        number ascending."""
        words = query.words
        if self._passages > _LARGE and len(words) > 1:
            counts = {word: self.frequency(word) for word in words}
            rare = [word for word in words if 0 < counts[word] * _COMMON <= self._passages]
            words = tuple(rare) or (min(words, key=lambda word: counts[word] or self._passages),)
        terms = [_quote([word]) for word in words] + [_quote(phrase) for phrase in query.phrases]
        if query.forms:
            # A passage that has the word itself ranks above one that has another form of it.
            by_word = dict(zip(query.words, query.forms, strict=True))
            forms = dict.fromkeys(chain.from_iterable(by_word[word] for word in words))
            terms = [f"text : {term}" for term in terms] + [f"stems : {_quote([form])}" for form in forms]
        if not terms or limit < 1:
            return []
        bounds = () if numbers is None else (numbers.start, numbers.stop - 1)
        self._connection.set_progress_handler(stop, _STEPS)
        try:
            rows = self._connection.execute(
                "SELECT rowid, bm25(passages) AS score FROM passages WHERE passages MATCH ? "
                "AND rowid BETWEEN ? AND ? ORDER BY score, rowid LIMIT ?"
                if numbers is not None
                else "SELECT rowid, bm25(passages) AS score FROM passages WHERE passages MATCH ? "
                "ORDER BY score, rowid LIMIT ?",
                (" OR ".join(terms), *bounds, limit),
            ).fetchall()
        except sqlite3.OperationalError as error:
            if stop():
                raise QueryStopped from None
            raise OSError(f"SQLite: {error}") from error
        except sqlite3.Error as error:
            raise OSError(f"SQLite: {error}") from error
        finally:
            self._connection.set_progress_handler(None, 0)
        return [(number, -score) for number, score in rows]

    def frequency(self, word: str) -> int:
        """Return how many passages contain `word`, in any form of the same stem."""
        row = self._connection.execute(
            "SELECT count(*) FROM passages WHERE passages MATCH ?", (_quote([word]),)
        ).fetchone()
        return int(row[0])

    def close(self) -> None:
        self._connection.close()


def _connect(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=uri, check_same_thread=False, isolation_level=None)


def _quote(words: Sequence[str]) -> str:
    """Return words as a quoted string of FTS5's query language, in which nothing is syntax."""
    return '"' + " ".join(words).replace('"', '""') + '"'
