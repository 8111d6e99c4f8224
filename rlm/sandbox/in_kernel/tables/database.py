"""Answers queries in SQL over the tables of a body, with SQLite in memory.

A table is copied into the database when a query names it first. A query can only read these tables: SQLite
asks an authorizer about everything else, and no file is ever opened.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...text.body import Body, Span
from ..context_handle.access_log import AccessLog, bounded
from ..context_handle.columns import MISSING, distinct
from ..context_handle.rows import is_joined
from .connection import MAX_ROWS, fetch, open_connection
from .results import SqlRow, SqlRows
from .table import Table, find_tables

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MAX_ROWS", "Database"]

_MAX_TABLE_CHARS = 200_000_000
"""Characters of the tables that are held at once."""
_MAX_COLUMNS = 1_000
_MAX_LOADED = 50
_BATCH = 1_000
_LARGEST_INTEGER = 2**63 - 1
_SHOWN = 20
_READS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:select|with|values)\b", re.IGNORECASE | re.DOTALL)
_ONLY_READS = (
    "sql() takes one SELECT over the tables that tables() lists, and changes nothing: keep other data in "
    "Python variables"
)
_NO_TABLE = re.compile(r"no such table: (?:main\.)?(.*)", re.DOTALL)
_NO_COLUMN = re.compile(r"no such column: (.*)", re.DOTALL)
_NO_FUNCTION = re.compile(r"no such function: (\w+)")
_ONE_TABLE = re.compile(r"\s*select\s+(?!distinct\b|all\b)", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:group|union|intersect|except|join|with|having|values)\b|\border\s+by\b(?:[^,]*,)*\s*\d",
    re.IGNORECASE,
)
"""A query whose rows come from several records, or that would change with one more column: `order by 2`."""
_LITERAL = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\[[^\]]*\]|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
"""Texts, quoted names and comments. Words in them are no words of SQL."""
_AGGREGATES = ("Agg", "Count")
_QUOTED_BOOLEAN = re.compile(r"'(?:true|false|yes|no)'", re.IGNORECASE)
_CONVERTED = frozenset({"integer", "number", "boolean", "date", "datetime"})
_PLAIN = frozenset({str, int, float, bool, type(None)})
_as_json = json.JSONEncoder(ensure_ascii=False).encode
_BOOLEANS = {"true": 1, "false": 0}
_DECLARED = {"integer": "INTEGER", "number": "REAL", "boolean": "BOOLEAN", "mixed": ""}


@dataclass
class _Loaded:
    """A table in the database: the place of each record, and what of the table counts as read."""

    table: Table
    columns: dict[str, str] = field(default_factory=dict)
    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    read: list[Span] = field(default_factory=list)
    misfits: dict[str, int] = field(default_factory=dict)
    is_cut: bool = False

    def stored(self, fields: Mapping[str, Any]) -> list[Any]:
        """Return the values of a record as SQLite gets them. It makes numbers of texts in columns of numbers
        itself."""
        values = map(fields.get, self.columns)
        if self.table.from_json:
            return [value if type(value) in _PLAIN else _as_json(value) for value in values]
        made = [value or None for value in values]
        for at in self.boolean_columns:
            made[at] = _BOOLEANS.get(str(made[at]).strip().lower(), made[at])
        return made

    @cached_property
    def boolean_columns(self) -> list[int]:
        """The places of the columns of booleans."""
        kinds = self.table.types.by_name
        return [at for at, name in enumerate(self.columns) if kinds.get(name) == "boolean"]

    def place(self, record: int) -> Span:
        """Return the place of a record, counted from 1."""
        return Span(self.starts[record - 1], self.ends[record - 1])

    @property
    def booleans(self) -> list[str]:
        return [self.columns[name] for name, kind in self.table.types.by_name.items() if kind == "boolean"]


class Database:
    """One database in memory over the tables of one body, which are looked for when they are first needed."""

    def __init__(self, body: Body, log: AccessLog) -> None:
        self.body = body
        self._log = log
        self._loaded: dict[str, _Loaded] = {}
        self._read: set[str] = set()
        self._connection: sqlite3.Connection | None = None
        self._raised: list[BaseException] = []

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of the body."""
        return find_tables(self.body, self._log)

    def query(self, query: str, params: Any = ()) -> SqlRows:
        """Return the rows of one SELECT. Raises ValueError with the remedy for a query that SQLite refuses,
        TypeError for a wrong argument, and MemoryError for tables that are too large."""
        if not isinstance(query, str) or not query.strip():
            raise TypeError('query must be one SELECT as a str: sql("select count(*) from NAME")')
        text = query.strip().rstrip(";").rstrip()
        if not _READS.match(text):
            raise ValueError(_ONLY_READS)
        self._prepare(text, params)
        used = [self._loaded[name] for name in sorted(self._read) if name in self._loaded]
        for one in used:
            for span in one.read:
                self._log.read(*span)
        self._warn(text, used)
        numbered = self._numbered(text, params, used)
        columns, rows, truncated = self._rows(numbered or text, params)
        if numbered and not all(isinstance(row[0], int) for row in rows):
            numbered = ""
            columns, rows, truncated = self._rows(text, params)
        columns = distinct(columns[1:] if numbered else columns, str.casefold)
        places = tuple(one.table.span for one in used)
        return SqlRows(
            (
                SqlRow.of(values[1:], columns, places, values[0], used[0].place(values[0]))
                if numbered
                else SqlRow.of(values, columns, places)
                for values in rows
            ),
            columns,
            records=sum(len(one.starts) for one in used),
            source=", ".join(one.table.name for one in used),
            truncated=truncated,
        )

    def _prepare(self, text: str, params: Any) -> None:
        """Load the tables that a query names. Raises ValueError for one that SQLite refuses."""
        import sqlite3

        for _ in range(_MAX_LOADED):
            try:
                self._explain(text, params)
                return
            except sqlite3.OperationalError as error:
                missing = _NO_TABLE.fullmatch(str(error))
                if missing is None:
                    raise ValueError(self._advice(str(error), text)) from None
                self._load(missing[1])
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise ValueError(self._advice(str(error), text)) from None
        raise ValueError(f"a query may read at most {_MAX_LOADED} tables")

    def _explain(self, text: str, params: Any) -> list[Any]:
        """Return the program of a query. Records the tables that it reads."""
        self._read.clear()
        connection = self._open()
        connection.set_authorizer(self._authorize)
        try:
            return connection.execute(f"EXPLAIN {text}", params).fetchall()
        finally:
            connection.set_authorizer(None)

    def _rows(self, text: str, params: Any) -> tuple[list[str], list[Any], bool]:
        """Return the columns, the first rows, and whether there are more."""
        import sqlite3

        connection = self._open()
        connection.set_authorizer(self._authorize)
        self._raised.clear()
        try:
            cursor = connection.execute(text, params)
            columns = [name for name, *_ in cursor.description or ()]
            rows, truncated = fetch(cursor)
        except (sqlite3.Error, sqlite3.Warning) as error:
            if str(error) == "interrupted" or any(isinstance(one, KeyboardInterrupt) for one in self._raised):
                raise KeyboardInterrupt from None
            told = f"SQLite: {self._raised[0]}" if self._raised else self._advice(str(error), text)
            raise ValueError(told) from None
        except MemoryError:
            raise MemoryError("the query needs more memory than sql() has: aggregate, or add LIMIT") from None
        finally:
            connection.set_authorizer(None)
        return columns, rows, truncated

    def _numbered(self, text: str, params: Any, used: Sequence[_Loaded]) -> str:
        """Return the query with the number of the record before its columns, or "" if its rows are not each
        from one record."""
        import sqlite3

        if (
            len(used) != 1
            or "_rowid_" in used[0].columns.values()
            or not _ONE_TABLE.match(text)
            or _SEVERAL.search(_LITERAL.sub("x", text))
        ):
            return ""
        numbered = _ONE_TABLE.sub("select _rowid_, ", text, count=1)
        try:
            program = self._explain(numbered, params)
        except sqlite3.Error:
            return ""
        is_computed = any(row[1].startswith(_AGGREGATES) for row in program)
        return "" if is_computed or not program else numbered

    def _authorize(self, action: int, one: str | None, two: str | None, *_: str | None) -> int:
        import sqlite3

        if action == sqlite3.SQLITE_READ:
            self._read.add(str(one).casefold())
            return sqlite3.SQLITE_DENY if str(one).startswith("sqlite_") else sqlite3.SQLITE_OK
        is_function = action == sqlite3.SQLITE_FUNCTION and two != "load_extension"
        if is_function or action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection, self._raised = open_connection()
        return self._connection

    def _load(self, asked: str) -> None:
        table = self._named(asked)
        if table.name.casefold() not in self._loaded:
            self._make_room(table)
            self._copy(table)
        if asked.casefold() != table.name.casefold():
            view = f"CREATE VIEW {_quoted(asked)} AS SELECT * FROM {_quoted(table.name)}"  # noqa: S608
            self._open().execute(view)

    def _named(self, asked: str) -> Table:
        """Return the table of a name, of its document, or of the end of the document's path."""
        tables = self.tables
        key = asked.casefold()
        for found in (
            [one for one in tables if one.name.casefold() == key],
            [one for one in tables if one.document.name.casefold() == key],
            [one for one in tables if one.document.name.casefold().endswith(f"/{key}")],
        ):
            if len(found) == 1:
                return found[0]
        if not tables:
            raise ValueError("there is no table in this input: use search(), or read_lines() and Python")
        every = [one.name for one in tables]
        near = get_close_matches(asked, every, n=3, cutoff=0.5)
        listed = list(dict.fromkeys([*near, *every]))[:_SHOWN]
        more = f" and {len(every) - len(listed):,} more" if len(every) > len(listed) else ""
        raise ValueError(
            f"there is no table {asked[:80]!r}. The tables are {', '.join(listed)}{more}; tables() shows "
            "their columns"
        )

    def _make_room(self, table: Table) -> None:
        size = table.span.end - table.span.start
        if size > _MAX_TABLE_CHARS:
            raise ValueError(
                f"the table {table.name} has {size:,} characters, and sql() holds {_MAX_TABLE_CHARS:,}: go "
                f"through it with read_records(within={table.document.name!r})"
            )
        while (
            self._loaded
            and size + sum(one.table.span.end - one.table.span.start for one in self._loaded.values())
            > _MAX_TABLE_CHARS
        ):
            self._drop(next(iter(self._loaded)))

    def _drop(self, name: str) -> None:
        connection = self._open()
        for (view,) in connection.execute("SELECT name FROM sqlite_master WHERE type='view'").fetchall():
            connection.execute(f"DROP VIEW {_quoted(view)}")
        connection.execute(f"DROP TABLE IF EXISTS {_quoted(name)}")
        self._loaded.pop(name, None)

    def _copy(self, table: Table) -> None:
        """Copy a table into the database."""
        import sqlite3

        loaded = _Loaded(table)
        connection = self._open()
        rows = table.records()
        try:
            connection.execute("BEGIN")
            self._create(loaded)
            while batch := list(islice(rows, _BATCH)):
                self._insert(loaded, batch)
            self._settle(loaded)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._connection = None
            self._loaded.clear()
            if isinstance(error, sqlite3.OperationalError) and "full" in str(error):
                raise ValueError(
                    f"the table {table.name} does not fit the memory of sql(): go through it with "
                    f"read_records(within={table.document.name!r})"
                ) from None
            raise
        whole = is_joined(table.form) or table.form == "pipes"
        loaded.read = [table.span] if whole else bounded(map(Span, loaded.starts, loaded.ends))
        self._loaded[table.name.casefold()] = loaded
        self._report(loaded)

    def _create(self, loaded: _Loaded) -> None:
        names = list(loaded.table.types.by_name)[:_MAX_COLUMNS] or ["value"]
        for name, column in zip(
            names, distinct([_column(name) for name in names], str.casefold), strict=True
        ):
            loaded.columns[name] = column
        types = loaded.table.types
        declared = ", ".join(
            f"{_quoted(column)} {_DECLARED.get(types.by_name.get(name, ''), 'TEXT')}"
            for name, column in loaded.columns.items()
        )
        self._open().execute(f"CREATE TABLE {_quoted(loaded.table.name)} ({declared})")

    def _insert(self, loaded: _Loaded, batch: Sequence[tuple[int, int, Mapping[str, Any]]]) -> None:
        connection, name = self._open(), _quoted(loaded.table.name)
        for _, _, fields in batch:
            for new in [one for one in fields if one not in loaded.columns]:
                self._add_column(loaded, new)
        values = []
        for start, end, fields in batch:
            loaded.starts.append(start)
            loaded.ends.append(end)
            values.append(loaded.stored(fields))
        marks = ", ".join("?" * len(loaded.columns))
        insert = f"INSERT INTO {name} VALUES ({marks})"  # noqa: S608 - the name is quoted
        try:
            connection.executemany(insert, values)
        except (UnicodeEncodeError, OverflowError):
            # Half a surrogate pair, from an escape of JSON, or a number of more than 64 bits. Some rows of
            # the batch may be in already.
            before = len(loaded.starts) - len(batch)
            connection.execute(f"DELETE FROM {name} WHERE _rowid_ > ?", (before,))  # noqa: S608
            connection.executemany(insert, [list(map(_clean, row)) for row in values])

    def _add_column(self, loaded: _Loaded, name: str) -> None:
        if len(loaded.columns) >= _MAX_COLUMNS:
            loaded.is_cut = True
            return
        column = distinct([*loaded.columns.values(), _column(name)], str.casefold)[-1]
        loaded.columns[name] = column
        self._open().execute(f"ALTER TABLE {_quoted(loaded.table.name)} ADD COLUMN {_quoted(column)}")

    def _settle(self, loaded: _Loaded) -> None:
        """Take out what says that there is no value, and count what does not fit its column."""
        name = _quoted(loaded.table.name)
        for field_, kind in loaded.table.types.by_name.items():
            if kind not in _CONVERTED or field_ not in loaded.columns:
                continue
            column = _quoted(loaded.columns[field_])
            marks = ", ".join("?" * len(MISSING))
            connection = self._open()
            texts = f"typeof({column}) = 'text'"
            missing = f"{texts} AND lower(trim({column})) IN ({marks})"
            without = f"UPDATE {name} SET {column} = NULL WHERE {missing}"  # noqa: S608
            connection.execute(without, sorted(MISSING))
            if kind in _DECLARED:
                wrong = f"SELECT count(*) FROM {name} WHERE {texts}"  # noqa: S608
                (count,) = connection.execute(wrong).fetchone()
                loaded.misfits.update({field_: count} if count else {})

    def _report(self, loaded: _Loaded) -> None:
        """Report on stderr what a query over the table would not show: texts among numbers, bad rows."""
        table = loaded.table
        for name, count in loaded.misfits.items():
            _say(
                f"{table.name}.{loaded.columns[name]}: {count:,} of {len(loaded.starts):,} values are no "
                f"{table.types.by_name[name]} and stay text, which sum() and avg() take as 0"
            )
        if loaded.is_cut:
            _say(f"{table.name} has more than {_MAX_COLUMNS:,} columns: the others are left out")
        if table.unreadable:
            _say(
                f"{table.name}: {table.unreadable:,} rows cannot be read and are left out; read_records() "
                "has their .error"
            )

    def _warn(self, text: str, used: Sequence[_Loaded]) -> None:
        booleans = [f"{one.table.name}.{column}" for one in used for column in one.booleans]
        if booleans and _QUOTED_BOOLEAN.search(text):
            _say(f"boolean: {', '.join(booleans[:_SHOWN])}; compare with true or false without quotes")

    def _advice(self, message: str, text: str) -> str:
        """Return an error of SQLite with its remedy."""
        if column := _NO_COLUMN.fullmatch(message):
            named = text.casefold()
            used = [one for name, one in self._loaded.items() if name in named] or [*self._loaded.values()]
            own = "; ".join(f"{one.table.name}: {', '.join(_some(one.columns.values()))}" for one in used[:5])
            return f"there is no column {column[1]}. The columns are {own or 'none'}"
        if function := _NO_FUNCTION.search(message):
            return f"SQLite has no function {function[1]}: select the values and compute it in Python"
        if "not authorized" in message or "prohibited" in message:
            return _ONLY_READS
        return f"SQLite: {message}"


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST_INTEGER else value


def _column(name: str) -> str:
    return name.replace("\x00", "") or "column"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _some(names: Any) -> Iterator[str]:
    every = list(names)
    yield from every[:_SHOWN]
    if len(every) > _SHOWN:
        yield f"… ({len(every):,})"


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
