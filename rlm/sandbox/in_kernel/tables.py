"""Lists the tables of a body, and answers queries in SQL over them, with SQLite in memory.

A table is copied into the database when a query names it first. Each gets two more columns, `_start` and
`_end`: the place of the row in the body. A result row with both of them has a `.span`; any other row is
computed over the tables that the query read.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ..text.body import Body, Document, Span
from .access_log import AccessLog, bounded
from .columns import MISSING, SAMPLED, column_types, distinct
from .places import Later, Place, Record, Records, Use
from .rows import drawn_tables, format_of, is_joined, raw_rows

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MAX_ROWS", "Database", "SqlRow", "SqlRows", "Tables"]

MAX_ROWS = 100_000
_MAX_TABLE_CHARS = 200_000_000
_MOST_LISTED = 20
_MOST_TABLES = 10
"""Tables of a computed row that are cited."""
_MOST_COMPUTED = 20
"""Computed rows that are cited one by one. More are cited by their tables."""
_MOST_PRINTED = 30
_CELL = 80
_LARGEST_INTEGER = 2**63 - 1
_BATCH = 1_000
_STEPS = 50_000
"""Steps of SQLite's machine after which Python may handle an interrupt."""
_PLACE = ("_start", "_end")
_DECLARED = {"integer": "INTEGER", "number": "REAL", "boolean": "BOOLEAN", "mixed": ""}
_BOOLEANS = {"true": 1, "false": 0}
_KEYWORDS = """
    add all alter and as autoincrement between case check collate commit constraint create default
    deferrable delete distinct drop else escape except exists foreign from group having in index insert
    intersect into is isnull join limit not nothing notnull null on or order primary references
    returning select set table then to transaction union unique update using values when where
"""
"""Words that SQLite takes for no name."""
_ONLY_READS = (
    "sql() takes one SELECT over the tables that tables() lists, and changes nothing: keep other data in "
    "Python variables"
)
_NO_TABLE = re.compile(r"no such table: (?:main\.)?(.*)", re.DOTALL)
_NO_COLUMN = re.compile(r"no such column: (.*)", re.DOTALL)


class Table:
    """One table: `name` (for SQL), `document`, of which it may be a part, and `form` (jsonl, json, csv, chat,
    board, … or drawn).

    Nothing of it is read before it is asked for. Types and columns are those of its first 1,000 rows, which
    then count as scanned.
    """

    def __init__(self, body: Body, log: AccessLog, name: str, document: Document, form: str) -> None:
        self._body = body
        self._log = log
        self.name = name
        self.document = document
        self.form = form
        self.span = Span(document.start, document.end)
        self.from_json = form not in ("csv", "drawn")
        """Whether its values have types of their own. Those of CSV are texts."""
        self.unreadable = 0

    def rows(self) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
        """Yield start, end and fields of each row that can be read. A row that is no object has one field,
        `value`. At the end, `unreadable` is how many rows cannot be read."""
        unreadable = 0
        for start, end, value, error in raw_rows(self._body, self.document, self.form):
            if value is None and error is not None:
                unreadable += 1
            else:
                yield start, end, value if isinstance(value, Mapping) else {"value": value}
        self.unreadable = unreadable

    @cached_property
    def columns(self) -> dict[str, str]:
        """The types of the columns by their names."""
        first = list(islice(self.rows(), SAMPLED))
        if first:
            self._log.scanned(first[0][0], first[-1][1])
        return column_types((fields for *_, fields in first), from_json=self.from_json)

    @property
    def place(self) -> Place:
        """The record of the table for a cell. It prints its columns as a query names them."""

        def short(_: Place) -> str:
            return _some([f"{_in_query(name)} {kind}" for name, kind in self.columns.items()])

        start, end = self.span
        columns = Later(lambda _: Record(self.columns), short)
        fields = {"name": self.name, "document": self.document.name, "start": start, "end": end}
        return Place({**fields, "columns": columns})


class Tables(Records):
    """Tables as records: name, document, start, end, and on access columns (their types by their names)."""

    __slots__ = ()
    EMPTY = "no table: no document holds CSV, JSON, a chat or a table drawn with |"

    def _lines(self) -> tuple[list[str], int]:
        first = list.__getitem__(self, slice(_MOST_LISTED))
        return [f"  {one.name} ({one.document}): {one._shown('columns')}" for one in first], len(first)


class SqlRow(tuple[Any, ...]):
    """A row of a result: `row[0]`, `row["name"]` and `row.name` are the same, and `dict(row)` works.

    `span` is the place of the row if the query selected `_start` and `_end`, else None. A column of that name
    wins.
    """

    _columns: Sequence[str]
    _tables: tuple[Span, ...]

    @classmethod
    def of(cls, values: Iterable[Any], columns: Sequence[str], tables: tuple[Span, ...]) -> SqlRow:
        """Return a row. `tables` are the places of the tables that were read."""
        made = cls(values)
        made._columns, made._tables = columns, tables
        return made

    @property
    def span(self) -> Span | None:
        """The place of its row."""
        return _place_of(self)

    def stands_for(self, use: Use) -> list[Any]:
        """Return what `spans_of` makes of it: the place of its row, or else the tables it was computed over.
        As a slice a computed row is text. As evidence all its tables are one piece, because an answer numbers
        its evidence by rows."""
        place = _place_of(self)
        if place is not None:
            return [place]
        if use == "slice":
            return [repr(self)]
        tables = self._tables
        if use == "evidence" and len(tables) > 1:
            return [{"rows": [list(one) for one in tables[:_MOST_TABLES]], "total": len(tables)}]
        return list(tables)

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column."""
        return self[name] if name in self._columns else default

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self._columns:
                raise KeyError(f"there is no column {at!r}. The columns are {', '.join(self._columns)}.")
            at = list(self._columns).index(at)
        return tuple.__getitem__(self, at)

    def __getattribute__(self, name: str) -> Any:
        # First the columns, so that `count(*) count` is no method of a tuple.
        if not name.startswith("_"):
            columns = object.__getattribute__(self, "__dict__").get("_columns", ())
            if name in columns:
                return self[name]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no column {name!r}. The columns are {', '.join(self._columns)}.")

    def __repr__(self) -> str:
        return repr(dict(zip(self._columns, self, strict=True)))

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


class SqlRows(Records):
    """Rows in order. `columns` are their names, `truncated` is whether the query gave more than are kept."""

    __slots__ = ("columns", "source", "truncated")
    EMPTY = None

    def __init__(
        self, rows: Iterable[SqlRow], columns: Sequence[str], source: str, *, truncated: bool
    ) -> None:
        super().__init__(rows, "row")
        self.columns = list(columns)
        self.source = source
        self.truncated = truncated

    def stands_for(self, use: Use) -> list[Any]:
        """Return what `spans_of` makes of it. Many computed rows are cited by their tables."""
        if use == "evidence" and len(self) > _MOST_COMPUTED:
            return self.spans()
        return [piece for row in self for piece in SqlRow.stands_for(row, use)]

    def spans(self) -> list[Span]:
        """Return the places that the rows cite, each once."""
        return list(dict.fromkeys(place for row in self for place in SqlRow.stands_for(row, "part")))

    def _heading(self) -> str:
        heading = super()._heading()
        if self.truncated:
            heading = f"the first {heading} (there are more: aggregate, or add LIMIT)"
        return f"{heading} of {self.source}" if self.source else heading

    def _lines(self) -> tuple[list[str], int]:
        first = list.__getitem__(self, slice(_MOST_PRINTED))
        return [" | ".join(self.columns), *(" | ".join(map(_cell, row)) for row in first)], len(first)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def _place_of(row: SqlRow) -> Span | None:
    """Return the place of a row that selected it, or None. A column may hide `row.span`."""
    values = dict(zip(row._columns, row, strict=True))
    start, end = map(values.get, _PLACE)
    return Span(start, end) if isinstance(start, int) and isinstance(end, int) else None


def _cell(value: Any) -> str:
    text = " ".join(str("" if value is None else value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


class Database:
    """One database in memory over the tables of one body, which are looked for when they are first needed."""

    def __init__(self, body: Body, log: AccessLog) -> None:
        self.body = body
        self._log = log
        self._loaded: dict[str, tuple[Table, list[Span]]] = {}
        self._connection: sqlite3.Connection | None = None
        self._raised: list[BaseException] = []

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of the body: documents with rows first, then the tables drawn within documents."""
        body = self.body
        formats = [(document, format_of(body, document)) for document in body.documents]
        found = [(document, form) for document, form in formats if form]
        found += [(part, "drawn") for part in drawn_tables(body, Span(0, body.chars))]
        names = distinct([_table_name(document.name) for document, _ in found], str.casefold)
        return [Table(body, self._log, name, *one) for name, one in zip(names, found, strict=True)]

    def query(self, query: str, params: Any = ()) -> SqlRows:
        """Return the rows of one SELECT. Raises ValueError with the remedy for a query that SQLite refuses,
        and TypeError for a wrong argument."""
        import sqlite3

        if not isinstance(query, str) or not query.strip():
            raise TypeError('query must be one SELECT as a str: sql("select count(*) from NAME")')
        connection = self._open()
        read: set[str] = set()

        def allow(action: int, table: str | None, *_: str | None) -> int:
            """Allow what only reads, and note the tables."""
            if action == sqlite3.SQLITE_READ:
                read.add(str(table).casefold())
                return sqlite3.SQLITE_DENY if str(table).startswith("sqlite_") else sqlite3.SQLITE_OK
            reads = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
            return sqlite3.SQLITE_OK if action in reads else sqlite3.SQLITE_DENY

        while True:
            read.clear()
            self._raised.clear()
            connection.set_authorizer(allow)
            try:
                cursor = connection.execute(query.strip().rstrip(";"), params)
                if cursor.description is None:
                    raise ValueError(_ONLY_READS)
                columns = [name for name, *_ in cursor.description]
                rows = cursor.fetchmany(MAX_ROWS + 1)
                break
            except (sqlite3.Error, sqlite3.Warning) as error:
                if str(error) == "interrupted" or any(
                    isinstance(one, KeyboardInterrupt) for one in self._raised
                ):
                    raise KeyboardInterrupt from None
                missing = _NO_TABLE.fullmatch(str(error))
                if missing is None:
                    raise ValueError(self._advice(str(error))) from None
            finally:
                connection.set_authorizer(None)
            self._load(missing[1])
        used = [self._loaded[name] for name in sorted(read) if name in self._loaded]
        for _, spans in used:
            for span in spans:
                self._log.read(*span)
        places = tuple(table.span for table, _ in used)
        columns = distinct(columns, str.casefold)
        return SqlRows(
            (SqlRow.of(values, columns, places) for values in rows[:MAX_ROWS]),
            columns,
            ", ".join(table.name for table, _ in used),
            truncated=len(rows) > MAX_ROWS,
        )

    def _open(self) -> sqlite3.Connection:
        """Return the database, with functions that SQLite lacks or has for ASCII only."""
        if self._connection is None:
            import sqlite3

            self._connection = connection = sqlite3.connect(
                ":memory:", isolation_level=None, check_same_thread=False, cached_statements=0
            )
            # The callback does nothing: Python handles an interrupt when it is called.
            connection.set_progress_handler(lambda: 0, _STEPS)
            for name, count, function in (("regexp", 2, _regexp), ("lower", 1, _lower), ("upper", 1, _upper)):
                connection.create_function(name, count, self._watched(function), deterministic=True)
            # SQLite makes these tables at their first use, which is no mere reading.
            connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
            connection.create_aggregate("median", 1, _Median)  # type: ignore[arg-type]
        return self._connection

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Keep what a function raises, which SQLite does not tell."""

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:
                self._raised.append(error)
                raise

        return call

    def _load(self, asked: str) -> None:
        table = self._named(asked)
        if table.name.casefold() not in self._loaded:
            size = table.span.end - table.span.start
            if size > _MAX_TABLE_CHARS:
                raise ValueError(
                    f"the table {table.name} has {size:,} characters, and sql() takes {_MAX_TABLE_CHARS:,}: "
                    f"go through it with read_records(within={table.document.name!r})"
                )
            self._copy(table)
        if asked.casefold() != table.name.casefold():
            self._open().execute(f"CREATE VIEW {_quoted(asked)} AS SELECT * FROM {_quoted(table.name)}")  # noqa: S608

    def _named(self, asked: str) -> Table:
        """Return the table of a name, of its document, or of the end of the document's path."""
        key = asked.casefold()
        for found in (
            [one for one in self.tables if one.name.casefold() == key],
            [one for one in self.tables if f"/{one.document.name}".casefold().endswith(f"/{key}")],
        ):
            if len(found) == 1:
                return found[0]
        if not self.tables:
            raise ValueError("there is no table in this input: use search(), or read_lines() and Python")
        every = [one.name for one in self.tables]
        listed = list(dict.fromkeys([*get_close_matches(asked, every, n=3, cutoff=0.5), *every]))
        raise ValueError(
            f"there is no table {asked[:80]!r}. The tables are {_some(listed)}; tables() shows their columns"
        )

    def _copy(self, table: Table) -> None:
        """Copy a table into the database, and say what a query over it would not show."""
        connection, name = self._open(), _quoted(table.name)
        columns: dict[str, str] = {}
        spans: list[Span] = []
        rows = table.rows()
        connection.execute("BEGIN")
        try:
            declared = [_declared(table, columns, field) for field in table.columns]
            places = [f"{one} INTEGER" for one in _PLACE]
            connection.execute(f"CREATE TABLE {name} ({', '.join(declared + places)})")
            while batch := list(islice(rows, _BATCH)):
                for field in dict.fromkeys(field for *_, fields in batch for field in fields):
                    if field not in columns:
                        connection.execute(f"ALTER TABLE {name} ADD {_declared(table, columns, field)}")
                own = ", ".join(map(_quoted, [*columns.values(), *_PLACE]))
                marks = "?, " * len(columns)
                connection.executemany(
                    f"INSERT INTO {name} ({own}) VALUES ({marks}?, ?)",  # noqa: S608 - the names are quoted
                    (
                        (*(_stored(fields.get(field), table, field) for field in columns), start, end)
                        for start, end, fields in batch
                    ),
                )
                spans += (Span(start, end) for start, end, _ in batch)
            for field, kind in table.columns.items():
                self._take_out_missing(table, columns[field], kind, len(spans))
            connection.execute("COMMIT")
        except BaseException as error:
            connection.execute("ROLLBACK")
            if isinstance(error, connection.OperationalError):
                raise ValueError(f"the table {table.name} cannot be loaded: {error}") from None
            raise
        read = [table.span] if is_joined(table.form) else bounded(spans)
        self._loaded[table.name.casefold()] = table, read
        if table.unreadable:
            sys.stderr.write(
                f"{table.name}: {table.unreadable:,} rows cannot be read and are left out; read_records() "
                "has their .error\n"
            )

    def _take_out_missing(self, table: Table, column: str, kind: str, rows: int) -> None:
        """Make NULL of what says that there is no value, and count what does not fit its column."""
        if kind not in ("integer", "number", "boolean", "date", "datetime"):
            return
        connection, name, column = self._open(), _quoted(table.name), _quoted(column)
        texts = f"typeof({column}) = 'text'"
        marks = ", ".join("?" * len(MISSING))
        missing = f"{texts} AND lower(trim({column})) IN ({marks})"
        connection.execute(f"UPDATE {name} SET {column} = NULL WHERE {missing}", sorted(MISSING))  # noqa: S608
        if kind in _DECLARED:
            (count,) = connection.execute(f"SELECT count(*) FROM {name} WHERE {texts}").fetchone()  # noqa: S608
            if count:
                sys.stderr.write(
                    f"{table.name}.{column}: {count:,} of {rows:,} values are no {kind} and stay text, which "
                    "sum() and avg() take as 0\n"
                )

    def _advice(self, message: str) -> str:
        """Return an error of SQLite with its remedy."""
        if column := _NO_COLUMN.fullmatch(message):
            own = "; ".join(f"{one.name}: {_some(one.columns)}" for one, _ in self._loaded.values())
            return f"there is no column {column[1]}. The columns are {own or 'none'}"
        if "not authorized" in message or "prohibited" in message:
            return _ONLY_READS
        return f"SQLite: {self._raised[0] if self._raised else message}"


def _declared(table: Table, columns: dict[str, str], field: str) -> str:
    """Give a field a column of its own, and return the column's declaration."""
    own = field.replace("\x00", "") or "column"
    columns[field] = distinct([*_PLACE, *columns.values(), own], str.casefold)[-1]
    kind = table.columns.get(field, "mixed")
    return f"{_quoted(columns[field])} {_DECLARED.get(kind, 'TEXT')}"


def _stored(value: Any, table: Table, field: str) -> Any:
    """Return a value as SQLite gets it. It makes numbers of texts in columns of numbers itself."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _LARGEST_INTEGER else str(value)
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False)
    elif not table.from_json:
        if table.columns.get(field) == "boolean":
            return _BOOLEANS.get(value.strip().lower(), value or None)
        return value or None
    # An escape of JSON may be half a surrogate pair.
    return value.encode("utf-8", "replace").decode()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_query(name: str) -> str:
    return name if name.isidentifier() and name.casefold() not in _KEYWORDS.split() else _quoted(name)


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _MOST_LISTED:,} more" if len(every) > _MOST_LISTED else ""
    return ", ".join(every[:_MOST_LISTED]) + more


def _table_name(document: str) -> str:
    """Return the last part of a document's name as a name for SQL."""
    name = re.sub(r"\W+", "_", PurePosixPath(document).name.split(".")[0]).strip("_")[:60]
    if not name or name[0].isdigit() or name.casefold().startswith("sqlite_"):
        return f"t_{name}"
    return f"{name}_" if name.casefold() in _KEYWORDS.split() else name


class _Median:
    """The median of the numbers of a column."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def step(self, value: Any) -> None:
        """Take one value."""
        if isinstance(value, (int, float)):
            self._values.append(value)

    def finalize(self) -> float | None:
        """Return the median, or None without a number."""
        return statistics.median(self._values) if self._values else None


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _regexp(pattern: Any, value: Any) -> bool | None:
    if pattern is None or value is None:
        return None
    try:
        return re.search(str(pattern), str(value)) is not None
    except re.error as error:
        raise ValueError(f"REGEXP {str(pattern)[:80]!r}: {error}") from None
