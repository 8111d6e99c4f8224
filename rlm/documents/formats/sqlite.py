"""Reading of SQLite databases: each table is a document, each row a line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import BinaryIO

from rlm.documents.formats.csv_lines import csv_line, shown
from rlm.documents.formats.piece import Ended, Fault, Member, Piece, Problem, Text

__all__ = ["read_sqlite"]

_MAGIC = b"SQLite format 3\0"
_LARGEST = 700 << 20
"""Bytes. The file is held twice for a moment: read, and as SQLite's own copy."""
_LONGEST_CELL = 64 << 20
_SCHEMA = "schema.sql"
_VERSIONS = slice(18, 20)
_ROLLBACK = b"\x01\x01"
_REMEDY = "restore it from a backup, or try `sqlite3 FILE .recover`"


def read_sqlite(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each table as a member of kind `csv`: a header, then its rows in SQLite's order.

    A line end within a cell is replaced, so that row n is line n + 1. The last member holds the statements
    that made the tables. Views are not computed: they would show the same rows again. Changes that
    are only in a log (WAL) are not read. Raises Fault for a file that is encrypted or too large.
    """
    if size > _LARGEST:
        raise Fault(
            "large",
            f"{size / 2**20:,.0f} MB, and at most {_LARGEST >> 20} MB are read",
            "export the tables you need: sqlite3 -csv -header FILE 'select * from TABLE' > TABLE.csv",
        )
    data = bytearray(file.read())
    if data[: len(_MAGIC)] != _MAGIC:
        raise Fault("foreign", "or encrypted", "save a decrypted copy, or export its tables as CSV")
    # A database in memory cannot be in WAL mode, and could not be read.
    data[_VERSIONS] = _ROLLBACK
    database = _opened(data)
    del data
    with closing(database):
        try:
            names = list(_tables(database))
        except sqlite3.Error as error:
            raise Fault("damaged", remedy=_REMEDY) from error
        if not names:
            remedy = (
                "name another file, or if it is in use run `sqlite3 FILE 'pragma wal_checkpoint(truncate)'`"
            )
            raise Fault("bare", "no tables", remedy)
        for name in names:
            yield from _table(database, name)
        yield from _schema(database)
    yield Ended()


def _opened(data: bytearray) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_CELL)
    for pragma in ("trusted_schema = off", "query_only = on", "cell_size_check = on", "temp_store = memory"):
        database.execute(f"pragma {pragma}")
    return database


def _tables(database: sqlite3.Connection) -> Iterator[str]:
    """Yield the names of what a person would call a table."""
    # A virtual table (full-text search) is read as itself, its shadow tables are not.
    kinds = dict(database.execute("select name, type from pragma_table_list where schema = 'main'"))
    for (name,) in database.execute("select name from sqlite_schema where type = 'table' order by rowid"):
        if not name.startswith("sqlite_") and kinds.get(name) != "shadow":
            yield name


def _schema(database: sqlite3.Connection) -> Iterator[Piece]:
    """Yield the statements that made the tables and views."""
    try:
        statements = database.execute(
            "select sql from sqlite_schema where sql is not null order by rowid"
        ).fetchall()
    except sqlite3.Error:
        return
    if statements:
        yield Member(_SCHEMA, "code")
        yield Text("".join(f"{sql};\n" for (sql,) in statements))


def _table(database: sqlite3.Connection, name: str) -> Iterator[Piece]:
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        quoted = name.replace('"', '""')
        rows = database.execute(f'select * from "{quoted}"')  # noqa: S608
        yield csv_line([shown(column[0]) for column in rows.description], is_head=True)
        for row in rows:
            count += 1
            yield csv_line(map(shown, row))

    yield Member(name, "csv", "member table")
    try:
        yield from map(Text, lines())
    except (sqlite3.Error, OverflowError) as error:
        yield Problem(f"damaged after row {count:,} ({error})", _REMEDY, "missing")
