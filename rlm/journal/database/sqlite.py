"""A journal in a SQLite file: one thread writes, a few read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rlm.journal.database.database import Database
from rlm.journal.database.readers import Readers
from rlm.journal.database.schema import ColumnTypes, definitions, has_tables, make_tables
from rlm.journal.database.transaction import Row, RowConflict, Transaction
from rlm.journal.database.writer import Writer
from rlm.store_file import keep_private, make_private_file

__all__ = ["SqliteDatabase"]

_BUSY_SECONDS = 15.0
_WAL_ATTEMPTS = 50
_WAL_PAUSE_SECONDS = 0.1
_TYPES = ColumnTypes(double="DOUBLE", blob="BLOB")

_T = TypeVar("_T")


class _Statements(Transaction):
    """The statements on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, **parameters: Any) -> int:
        with _conflicts():
            return self._connection.execute(sql, parameters).rowcount

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        cursor = self._connection.execute(sql, parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor]

    def has_table(self, name: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name"
        return bool(self.rows(query, name=name))

    def _execute_many(self, sql: str, rows: Sequence[Row]) -> None:
        with _conflicts():
            self._connection.executemany(sql, rows)


class SqliteDatabase(Database):
    """The store at `path`. Another process that writes is waited for up to 15 s."""

    _errors = (sqlite3.Error, OSError)

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._writer: Writer | None = None
        self._readers = Readers(partial(_connect_reader, path))

    async def open(self) -> None:
        # Its thread must not hold this object, which closes it when it is abandoned.
        self._writer = Writer(partial(_connect_writer, self._path))
        try:
            with self._translate("opened"):
                await self._writer.run(partial(_prepare, self._path))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._readers.close()
            await writer.close()

    async def write(self, work: Callable[[Transaction], _T]) -> _T:
        writer = self._open_writer()
        with self._translate("written"):
            return await writer.commit(lambda connection: work(_Statements(connection)))

    async def read(self, work: Callable[[Transaction], _T]) -> _T:
        self._open_writer()
        with self._translate("read"):
            return await self._readers.run(lambda connection: work(_Statements(connection)))

    async def shrink(self) -> None:
        writer = self._open_writer()
        with self._translate("shrunk"):
            await writer.run(_shrink)

    async def size(self) -> int:
        query = (
            "SELECT (page_count - freelist_count) * page_size "
            "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        return int(await self.read(lambda transaction: transaction.scalar(query)))

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise self._closed()
        return self._writer

    def _remedy(self, reason: str) -> str:
        if any(
            sign in reason
            for sign in (
                "not a database",
                "malformed",
                "already exists",
                "no such table",
                "not made by",
                "it has no",
            )
        ):
            return "move the damaged file away, or use another store"
        if "locked" in reason:
            return "another process has locked it. Try again after that process ends"
        if "full" in reason or "no space" in reason:
            return "free some space on its disk, or use another store"
        return "check that its folder exists and is yours to write, or use another store"


def _connect(path: Path) -> sqlite3.Connection:
    # Transactions are begun and ended explicitly. A connection is used by one thread at a time.
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _connect_writer(path: Path) -> sqlite3.Connection:
    make_private_file(path)
    connection = _connect(path)
    try:
        # auto_vacuum must be set before the first table. secure_delete overwrites the text of removed runs.
        for pragma in (
            "auto_vacuum=INCREMENTAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "secure_delete=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_reader(path: Path) -> sqlite3.Connection:
    connection = _connect(path)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Make or check the schema, and the modes of the files."""
    _switch_to_wal(connection)
    statements = _Statements(connection)
    if not has_tables(statements):
        connection.execute("BEGIN IMMEDIATE")
        try:
            make_tables(statements, _TYPES)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    _check_tables(statements)
    keep_private(path)


def _check_tables(statements: Transaction) -> None:
    """Refuse a file with other than our tables: a view may never end, and a trigger may write anything."""
    expected = definitions(_TYPES)
    for row in statements.rows("SELECT type, name, sql FROM sqlite_master"):
        is_ours = row["type"] in ("table", "index")
        if row["name"] in expected:
            is_ours = is_ours and row["sql"] == expected.pop(row["name"])
        if not is_ours:
            raise sqlite3.DatabaseError(f"its {row['type']} {row['name']!r} was not made by rlm")
    if expected:
        raise sqlite3.DatabaseError(f"it has no {next(iter(expected))}")


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise RowConflict(str(error)) from error


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


def _shrink(connection: sqlite3.Connection) -> None:
    # As a script: an ordinary execute stops after the first freed page.
    connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")
