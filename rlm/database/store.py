"""A store of rows: a SQLite file or a PostgreSQL database, with the same SQL and the same tables.

Work is a plain function over a `Transaction`. Journals await it: one thread writes, in the order of the
calls, each write in a transaction of its own, and a few threads read, so a long read delays no write. If
its caller is cancelled, it runs to its end. Prompt segments run it in the caller's thread (`*_now`).

What was written is committed and survives a kill of the process. A SQLite file in WAL mode is not synced at
each commit: a power cut may lose its last events, but not damage it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

__all__ = ["Row", "RowConflict", "Schema", "Store", "Transaction", "one_of"]

_READERS = 4
_SERVER_WAIT_SECONDS = 60.0
"""How long to wait for a server that went away. It may be restarting or moving to another machine."""
_SERVER_PAUSE_SECONDS = 0.5

_T = TypeVar("_T")

Row = Mapping[str, Any]
"""The values of a row by the names of their columns."""


class RowConflict(Exception):
    """A row was refused: its key is taken, or the row that it refers to is missing."""


class OtherVersion(Exception):
    """The store has tables of another version, which is the message."""


class Schema:
    """The tables of a store, which `file` makes. Their version is in its table `version_table`.

    `error` is what the store raises. Its line begins with `noun` and the name of the store. Most bytes are in
    the columns `data` of the tables `bulk`.
    """

    noun: str
    version_table: str
    version: str
    bulk: tuple[str, ...]
    error: type[Exception]
    file: Path

    @cached_property
    def definitions(self) -> dict[str, str]:
        """Return the statements that make each table and index, by its name, with single spaces."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        text = " ".join(line for line in lines if not line.startswith("--"))
        statements = [" ".join(statement.split()) for statement in text.split(";")]
        return {statement.split(maxsplit=3)[2]: statement for statement in statements if statement}

    def make(self, transaction: Transaction) -> None:
        """Make the tables and indexes."""
        for statement in self.definitions.values():
            transaction.execute(statement)


class Transaction:
    """The statements on one connection: SQL with `:name` parameters. Names of tables and columns come from
    this package, values are parameters.

    `lock` is what a SELECT ends with to keep its rows unchanged until the commit (in SQLite a writer is
    alone). `is_repeated`: the server went away during an earlier attempt, which may have been committed.
    """

    def __init__(self, store: Store, connection: Any, *, is_repeated: bool) -> None:
        self._store = store
        self._connection = connection
        self.lock = store.lock
        self.is_repeated = is_repeated

    def execute(self, sql: str, **parameters: Any) -> int:
        """Run a statement and return the number of rows it changed. Raises RowConflict."""
        with self._conflicts():
            return int(self._connection.execute(self._store.to_sql(sql), parameters).rowcount)

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        cursor = self._connection.execute(self._store.to_sql(sql), parameters)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, values, strict=True)) for values in cursor]

    def scalar(self, sql: str, **parameters: Any) -> Any:
        """Return the first value of the first row; None if there is no row."""
        found = self.rows(sql, **parameters)
        return next(iter(found[0].values())) if found else None

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that name."""
        return bool(self.scalar(self._store.table_query, name=name))

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows that have the same columns. Raises RowConflict."""
        names = list(rows[0])
        values = ", ".join(f":{name}" for name in names)
        sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - names of ours
        with self._conflicts():
            self._connection.cursor().executemany(self._store.to_sql(sql), rows)

    def update(self, table: str, values: Row, where: str, **parameters: Any) -> int:
        """Set columns of the rows that `where` chooses, and return how many there were."""
        changes = ", ".join(f"{name} = :new_{name}" for name in values)
        new = {f"new_{name}": value for name, value in values.items()}
        sql = f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608 - names of ours
        return self.execute(sql, **new, **parameters)

    @contextlib.contextmanager
    def _conflicts(self) -> Iterator[None]:
        try:
            yield
        except self._store.conflicts as error:
            raise RowConflict(type(error).__name__) from error


class Store(ABC):
    """Connections that raise the schema's error: one line with the store's name and a remedy."""

    lock: ClassVar[str] = ""
    conflicts: ClassVar[type[Exception]]
    """What the driver raises for a row that it refuses."""
    _errors: ClassVar[tuple[type[Exception], ...]]
    """What the driver raises."""
    _begin: ClassVar[str] = "BEGIN"
    table_query: ClassVar[str]
    """A query that has a row if there is a table `:name`."""

    def __init__(self, schema: Schema, name: str) -> None:
        self.schema = schema
        self.name = name
        """The store's file, or its URL without a password."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="rlm-store-writer")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="rlm-store-reader")
        self._own = threading.local()
        self._connections: list[Any] = []
        self._is_open = False

    async def open(self) -> None:
        """Connect, and make or check the tables. Raises the schema's error."""
        try:
            await self._submit("opened", self._writer, self._prepare)
        except BaseException:
            await self.close()
            raise
        self._is_open = True

    async def close(self) -> None:
        """Finish the work that was begun, and close every connection. Safe to call twice."""
        self._is_open = False
        await asyncio.to_thread(self._shut)

    async def write(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work` in a transaction, and return its result after the commit. Work that raises an exception
        changes nothing. Raises RowConflict, too: the caller knows which row it means.

        A server that went away is waited for up to a minute. The work then runs again, `is_repeated`.
        """
        return await self._submit("written", self._writer, self._repeat, self._commit, work)

    async def read(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work`, which only reads. Each statement reads one consistent state."""
        return await self._submit("read", self._readers, self._repeat, _read, work)

    async def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Return the rows of a query."""
        return await self.read(lambda transaction: transaction.rows(sql, **parameters))

    async def flush(self) -> None:
        """Wait until every write that was begun has ended."""
        await self._submit("written", self._writer, lambda: None)

    async def shrink(self) -> None:
        """Free the space of removed rows: for the file system (SQLite) or for new rows (PostgreSQL)."""
        await self._submit("shrunk", self._writer, lambda: self._shrink(self._connection()))

    async def size(self) -> int:
        """Return the size of the store in bytes, not counting free pages."""
        return int(await self.read(lambda transaction: transaction.scalar(self._size())))

    async def size_on_disk(self) -> int:
        """Return the bytes of the store's files, without a look at its rows: never less than `size`."""
        return int(await self.read(lambda transaction: transaction.scalar(self._size_on_disk())))

    def open_now(self) -> None:
        """Connect, and make or check the tables. Raises the schema's error."""
        try:
            with self._translated("opened"):
                self._prepare()
        except BaseException:
            self.close_now()
            raise
        self._is_open = True

    def write_now(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work` as `write` does, in this thread. Another thread or process that writes is waited for."""
        with self._translated("written"):
            return self._repeat(self._commit, work)

    def read_now(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work` as `read` does, in this thread."""
        with self._translated("read"):
            return self._repeat(_read, work)

    def close_now(self) -> None:
        """Close every connection. Safe to call twice."""
        self._is_open = False
        self._shut()

    def to_sql(self, sql: str) -> str:
        """Return a statement with `:name` parameters as the driver takes it."""
        return sql

    @abstractmethod
    def _connect(self, *, is_writer: bool) -> Any:
        """Open a connection that commits each statement unless a transaction was begun."""

    @abstractmethod
    def _prepare(self) -> None:
        """Make or check the tables."""

    @abstractmethod
    def _size(self) -> str:
        """Return a query of the bytes that rows take."""

    @abstractmethod
    def _size_on_disk(self) -> str:
        """Return a query of the bytes of the store's files."""

    @abstractmethod
    def _shrink(self, connection: Any) -> None: ...

    @abstractmethod
    def _remedy(self, reason: str) -> str:
        """Return what to do about an error. `reason` is its message, casefolded."""

    def _is_away(self, error: Exception) -> bool:
        """Return whether an error says that the server cannot be reached."""
        return False

    def _make_tables(self, transaction: Transaction) -> None:
        """Make the tables in a transaction that other openers wait for, unless another process made them."""
        if not self._is_made(transaction):
            self.schema.make(transaction)
            transaction.insert(self.schema.version_table, [{"version_num": self.schema.version}])

    def _is_made(self, transaction: Transaction) -> bool:
        """Return whether the store has its tables. Raises OtherVersion."""
        if not transaction.has_table(self.schema.version_table):
            return False
        version = transaction.scalar(f"SELECT version_num FROM {self.schema.version_table}")  # noqa: S608
        if version != self.schema.version:
            raise OtherVersion(version)
        return True

    def _connection(self) -> Any:
        """Return the connection of this thread."""
        connection = getattr(self._own, "connection", None)
        if connection is None:
            is_writer = not threading.current_thread().name.startswith("rlm-store-reader")
            connection = self._own.connection = self._connect(is_writer=is_writer)
            self._connections.append(connection)
        return connection

    def _drop_connection(self) -> None:
        connection, self._own.connection = getattr(self._own, "connection", None), None
        if connection is not None:
            self._connections.remove(connection)
            connection.close()

    def _repeat(self, run: Callable[[Transaction, Callable[[Transaction], _T]], _T], work: Any) -> _T:
        """Run `work` by `run`, again while the server cannot be reached."""
        end, is_repeated = time.monotonic() + _SERVER_WAIT_SECONDS, False
        while True:
            try:
                return run(Transaction(self, self._connection(), is_repeated=is_repeated), work)
            except self._errors as error:
                if not self._is_away(error) or time.monotonic() > end:
                    raise
            self._drop_connection()
            is_repeated = True
            time.sleep(_SERVER_PAUSE_SECONDS)

    def _commit(self, transaction: Transaction, work: Callable[[Transaction], _T]) -> _T:
        transaction.execute(self._begin)
        try:
            result = work(transaction)
            transaction.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(*self._errors):  # the transaction may have ended by itself
                transaction.execute("ROLLBACK")
            raise
        return result

    async def _submit(
        self, action: str, threads: ThreadPoolExecutor, work: Callable[..., _T], *arguments: Any
    ) -> _T:
        with self._translated(action):
            future = asyncio.wrap_future(threads.submit(work, *arguments))
            # Or asyncio logs the exception: a caller that was cancelled never looks at it.
            future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            return await asyncio.shield(future)

    def _shut(self) -> None:
        self._writer.shutdown()
        self._readers.shutdown()
        while self._connections:
            with contextlib.suppress(*self._errors):
                self._connections.pop().close()

    @contextlib.contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        """Turn errors of the driver into the schema's error."""
        raised, store = self.schema.error, f"{self.schema.noun} {self.name}"
        if not self._is_open and action != "opened":
            raise raised(f"{store} can't be {action}: the store is closed; open it again")
        try:
            yield
        except OtherVersion as error:
            raise raised(
                f"{store} can't be opened: it has schema {error}, this rlm needs {self.schema.version}; "
                "move the file away, or use another store (--store)"
            ) from error
        except self._errors as error:
            reason = " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
            remedy = self._remedy(reason.casefold())
            raise raised(f"{store} can't be {action}: {reason}; {remedy}") from error


def one_of(values: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the right side of an IN, and its parameters, of which databases allow a few hundred."""
    parameters = {f"value_{number}": value for number, value in enumerate(values)}
    return f"({', '.join(f':{name}' for name in parameters)})", parameters


def _read(transaction: Transaction, work: Callable[[Transaction], _T]) -> _T:
    return work(transaction)
