"""The ranked index in SQLite's FTS5: postings only, no text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from rlm.retrieval.index import EngineName, QueryStopped, Stop
from rlm.retrieval.words import TOKENIZE, SearchTerms, spaced

__all__ = ["Fts5Engine", "Fts5Index"]

_FILE = "fts5.db"
_CACHE_KB = 16_000
_GATHERED = 16 * 2**20
"""Bytes of postings gathered in memory before a segment is written: with FTS5's own 1 MiB, building takes
two thirds longer, spent on merging segments."""
_MAPPED = 1 << 40
"""Bytes of the file that may be mapped: all of it. A query over a million passages reads a row of each."""
_COMMON = 4
"""A word that more than a fourth of the passages hold is left out of large indexes, if there are others: it
costs most of the time and ranks next to nothing."""
_LARGE = 50_000
_STEPS = 20_000


class Fts5Engine:
    """See Engine."""

    name: EngineName = "fts5"
    version = 1

    def build(self, folder: Path | None, batches: Iterable[tuple[int, Sequence[str]]]) -> Fts5Index:
        connection = _connected(":memory:" if folder is None else str(folder / _FILE))
        try:
            # Nobody reads it before it is whole: a crash leaves a folder that is thrown away.
            connection.execute("PRAGMA journal_mode=OFF")
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
            connection.execute(
                f'CREATE VIRTUAL TABLE passages USING fts5(text, content="", tokenize="{TOKENIZE}")'
            )
            connection.execute(f"INSERT INTO passages(passages, rank) VALUES('hashsize', {_GATHERED})")
            connection.execute("BEGIN")
            for first, texts in batches:
                connection.executemany(
                    "INSERT INTO passages(rowid, text) VALUES (?, ?)",
                    ((number, spaced(text)) for number, text in enumerate(texts, first)),
                )
            connection.execute("COMMIT")
            return Fts5Index(connection)
        except sqlite3.Error as error:
            connection.close()
            raise OSError(f"SQLite: {error}") from error
        except BaseException:
            connection.close()
            raise

    def open(self, folder: Path) -> Fts5Index:
        if not (folder / _FILE).is_file():
            raise OSError(f"{folder / _FILE} is missing")
        connection = _connected(f"{(folder / _FILE).absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            connection.execute(f"PRAGMA cache_size=-{_CACHE_KB}")
            connection.execute(f"PRAGMA mmap_size={_MAPPED}")
            return Fts5Index(connection)
        except (sqlite3.Error, OSError) as error:
            connection.close()
            raise OSError(f"SQLite: {error}") from error


class Fts5Index:
    """See RankedIndex."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        found = connection.execute("SELECT max(rowid) FROM passages").fetchone()[0]
        self._passages = 0 if found is None else found + 1

    def top(self, query: SearchTerms, limit: int, stop: Stop) -> list[tuple[int, float]]:
        words = query.words
        if self._passages > _LARGE and len(words) > 1:
            counts = {word: self.frequency(word) for word in words}
            rare = [word for word in words if 0 < counts[word] * _COMMON <= self._passages]
            words = tuple(rare) or (min(words, key=lambda word: counts[word] or self._passages),)
        wanted = [_quoted([word]) for word in words] + [_quoted(phrase) for phrase in query.phrases]
        if not wanted or limit < 1:
            return []
        self._connection.set_progress_handler(stop, _STEPS)
        try:
            rows = self._connection.execute(
                "SELECT rowid, bm25(passages) AS score FROM passages WHERE passages MATCH ? "
                "ORDER BY score, rowid LIMIT ?",
                (" OR ".join(wanted), limit),
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
        found = self._connection.execute(
            "SELECT count(*) FROM passages WHERE passages MATCH ?", (_quoted([word]),)
        ).fetchone()
        return int(found[0])

    def close(self) -> None:
        self._connection.close()


def _connected(name: str, *, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, uri=uri, check_same_thread=False, isolation_level=None)


def _quoted(words: Sequence[str]) -> str:
    """Words as a string of FTS5's query language, in which nothing is syntax."""
    return '"' + " ".join(words).replace('"', '""') + '"'
