"""A store in a SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm.database.store import Schema, Store, Transaction
from rlm.store_file import keep_private, make_private_file

__all__ = ["SqliteStore"]

_BUSY_SECONDS = 15.0
_WAL_ATTEMPTS = 50
_WAL_PAUSE_SECONDS = 0.1
# auto_vacuum must be set before the first table. secure_delete overwrites the text of removed runs.
_WRITER_PRAGMAS = ("auto_vacuum=INCREMENTAL", "synchronous=NORMAL", "foreign_keys=ON", "secure_delete=ON")
_DAMAGE = ("not a database", "malformed", "already exists", "no such table", "not made by", "it has no")


class SqliteStore(Store):
    """The store at `path`. Another process that writes is waited for up to 15 s."""

    conflicts = sqlite3.IntegrityError
    _errors = (sqlite3.Error, OSError)
    _begin = "BEGIN IMMEDIATE"
    table_query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name"

    def __init__(self, schema: Schema, path: Path) -> None:
        super().__init__(schema, str(path))
        self._path = path

    def _connect(self, *, is_writer: bool) -> sqlite3.Connection:
        if is_writer:
            make_private_file(self._path)
        # Transactions are begun and ended explicitly. One thread uses a connection, another closes it.
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in _WRITER_PRAGMAS if is_writer else ("query_only=ON",):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        connection = self._connection()
        _switch_to_wal(connection)
        transaction = Transaction(self, connection, is_repeated=False)
        if not self._is_made(transaction):
            self._commit(transaction, self._make_tables)
        _check_tables(transaction, self.schema.definitions)
        keep_private(self._path)

    def _size(self) -> str:
        pragmas = "pragma_page_count, pragma_freelist_count, pragma_page_size"
        return f"SELECT (page_count - freelist_count) * page_size FROM {pragmas}"  # noqa: S608

    def _size_on_disk(self) -> str:
        return self._size()

    def _shrink(self, connection: Any) -> None:
        # As a script: an ordinary execute stops after the first freed page.
        connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    def _remedy(self, reason: str) -> str:
        if any(sign in reason for sign in _DAMAGE):
            return "move the damaged file away, or use another store"
        if "locked" in reason:
            return "another process has locked it. Try again after that process ends"
        if "full" in reason or "no space" in reason:
            return "free some space on its disk, or use another store"
        return "check that its folder exists and is yours to write, or use another store"


def _check_tables(transaction: Transaction, definitions: Mapping[str, str]) -> None:
    """Refuse a file with other than our tables: a view may never end, and a trigger may write anything."""
    expected = dict(definitions)
    for row in transaction.rows("SELECT type, name, sql FROM sqlite_master"):
        is_ours = row["type"] in ("table", "index")
        if row["name"] in expected:
            is_ours = is_ours and row["sql"] == expected.pop(row["name"])
        if not is_ours:
            raise sqlite3.DatabaseError(f"its {row['type']} {row['name']!r} was not made by rlm")
    if expected:
        raise sqlite3.DatabaseError(f"it has no {next(iter(expected))}")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    # SQLite does not apply its busy timeout to this statement.
    for attempt in range(1, _WAL_ATTEMPTS + 1):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if attempt == _WAL_ATTEMPTS or "locked" not in str(error):
                raise
            time.sleep(_WAL_PAUSE_SECONDS)
