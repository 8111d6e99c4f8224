"""Reading of DuckDB databases with duckdb (the extra `duckdb`): each table is a document, each row a line.

DuckDB opens files by their names, and starts threads. Here it gets the file and its log by a file system of
ours, and runs on the thread that calls it.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, BinaryIO

from rlm.documents.formats.piece import Ended, Member, Piece, Text, Unread, Unreadable
from rlm.documents.formats.tables.csv_lines import csv_line, shown

_IS_INSTALLED = all(find_spec(name) is not None for name in ("duckdb", "fsspec"))
if _IS_INSTALLED:
    import duckdb
    import fsspec

__all__ = ["prepare", "read_duckdb"]

_ROWS = 2_000
_NAME = "database.duckdb"
_SCHEMA = "schema.sql"
_EXPORT = "export its tables: duckdb FILE \"export database 'FOLDER' (format parquet)\""
_REMEDY = f"restore it from a backup, or {_EXPORT}"
_PLAIN = re.compile(
    r"(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|BOOLEAN|VARCHAR|DATE|BLOB|DECIMAL\(.*\))"
)
"""Types whose values are shown as ours. All others are shown as DuckDB does."""
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "external_threads": 1,
    "async_threads": 0,
    "memory_limit": "1GB",
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_ENGINE: list[Any] = []


def prepare() -> None:
    """Start DuckDB: later nothing can be opened."""
    if not _IS_INSTALLED:
        return
    engine = duckdb.connect(":memory:", config=_CONFIG)
    engine.register_filesystem(_FILES)
    engine.execute("create table t (a integer, b varchar, c decimal(4, 2), d timestamp, e integer[])")
    engine.execute("insert into t values (1, 'b', 2.5, '2024-01-01', [1])")
    list(_table(engine, "memory", "main", "t"))
    list(_schema(engine, "memory"))
    engine.execute("drop table t")
    _ENGINE[:] = [engine]


def read_duckdb(file: BinaryIO, size: int, beside: BinaryIO | None = None) -> Iterator[Piece]:
    """Yield each table as a member of kind `csv`: a header, then its rows, row n on line n + 1.

    The last member holds the statements that made the tables and views. Views are not computed. `beside` is
    the log of changes.

    Raises Unreadable without the extra, and for a file that is damaged or encrypted.
    """
    if not _IS_INSTALLED:
        raise Unreadable(
            "a DuckDB database, whose reader is not installed",
            f"pip install 'rlm-kernel[duckdb]', or {_EXPORT}",
        )
    if not _ENGINE:
        prepare()
    engine = _ENGINE[0]
    _FILES.files = {_NAME: file}
    if beside is not None and beside.seek(0, os.SEEK_END):
        _FILES.files[f"{_NAME}.wal"] = beside
    try:
        engine.execute(f"attach 'rlm://{_NAME}' as given (read_only)")
        tables = engine.execute(
            "select schema_name, table_name from duckdb_tables() where database_name = 'given' "
            "and not internal order by schema_name <> 'main', schema_name, table_name"
        ).fetchall()
    except (duckdb.Error, OSError, ValueError, RuntimeError) as error:
        raise _refused(error) from error
    if not tables:
        raise Unreadable("a DuckDB database without tables", "name another file")
    for schema, name in tables:
        yield Member(name if schema == "main" else f"{schema}.{name}", "csv")
        yield from _table(engine, "given", schema, name)
    yield from _schema(engine, "given")
    yield Ended()


def _refused(error: Exception) -> Unreadable:
    """Return why a database cannot be attached. Only DuckDB's message tells."""
    text = " ".join(str(error).split())
    if "encrypt" in text.lower():
        return Unreadable(
            "a DuckDB database that is encrypted",
            "attach it with its key and `copy from database` to a new one",
        )
    if "version" in text.lower() and "storage" in text.lower():
        return Unreadable(
            "a DuckDB database of another version",
            "pip install -U duckdb, or export its tables with its version",
        )
    return Unreadable("a DuckDB database that is damaged or truncated", _REMEDY)


def _table(engine: Any, database: str, schema: str, name: str) -> Iterator[Piece]:
    """Yield the lines of a table."""
    number = 0
    try:
        columns = engine.execute(
            "select column_name, data_type from duckdb_columns() where database_name = ? and schema_name = ? "
            "and table_name = ? order by column_index",
            [database, schema, name],
        ).fetchall()
        yield Text(csv_line([shown(column) for column, _ in columns], is_head=True))
        wanted = ", ".join(
            _quoted(column) if _PLAIN.fullmatch(kind) else f"cast({_quoted(column)} as varchar)"
            for column, kind in columns
        )
        source = ".".join(map(_quoted, (database, schema, name)))
        rows = engine.execute(f"select {wanted} from {source}")  # noqa: S608
        while batch := rows.fetchmany(_ROWS):
            yield Text("".join(csv_line(map(shown, row)) for row in batch))
            number += len(batch)
    except (duckdb.Error, OSError, ValueError, RuntimeError) as error:
        yield Unread(f"damaged after row {number:,} ({type(error).__name__})", _REMEDY)


def _schema(engine: Any, database: str) -> Iterator[Piece]:
    """Yield the statements that made the tables and views."""
    try:
        statements = engine.execute(
            "select sql from duckdb_tables() where database_name = $1 and not internal union all "
            "select sql from duckdb_views() where database_name = $1 and not internal",
            [database],
        ).fetchall()
    except duckdb.Error:
        return
    if lines := [f"{' '.join(sql.split())}\n" for (sql,) in statements if sql]:
        yield Member(_SCHEMA, "code")
        yield Text("".join(lines))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _Window(io.RawIOBase):
    """An open file with a position of its own, which nothing can close or write to."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._descriptor = file.fileno()
        self._size = file.seek(0, os.SEEK_END)
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        data = os.pread(self._descriptor, self._size - self._at if size < 0 else size, self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


if _IS_INSTALLED:

    class _OpenFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
        """A file system that holds the files that are read, and no others."""

        protocol = "rlm"
        cachable = False
        files: dict[str, BinaryIO] = {}  # noqa: RUF012

        def info(self, path: str, **_: object) -> dict[str, Any]:
            """Return the name, size and type of a file. Raises FileNotFoundError."""
            name = path.rpartition("/")[2]
            if name not in self.files:
                raise FileNotFoundError(path)
            return {"name": name, "size": self.files[name].seek(0, os.SEEK_END), "type": "file"}

        def exists(self, path: str, **_: object) -> bool:
            """Return whether it is one of the files."""
            return path.rpartition("/")[2] in self.files

        def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:
            """Return nothing: no folder can be listed."""
            return []

        def _open(self, path: str, mode: str = "rb", **_: object) -> io.RawIOBase:
            name = path.rpartition("/")[2]
            if mode != "rb" or name not in self.files:
                raise FileNotFoundError(path)
            return _Window(self.files[name])

    _FILES = _OpenFiles()
