"""A journal on a PostgreSQL server, reached by SQLAlchemy and psycopg (extra `postgres`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import ArgumentError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from rlm.journal.database.database import Database
from rlm.journal.database.schema import ColumnTypes, has_tables, make_tables
from rlm.journal.database.transaction import Row, RowConflict, Transaction
from rlm.version import install_command

__all__ = ["PostgresDatabase"]

_SERVER_WAIT_SECONDS = 60.0
"""How long to wait for a server that went away. It may be restarting or moving to another machine."""
_SERVER_PAUSE_SECONDS = 0.5
_OPTIONS = {
    "connect_timeout": 10,
    # With these, a server that vanished is detected within half a minute.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_TYPES = ColumnTypes(double="DOUBLE PRECISION", blob="BYTEA")
_LOCK = 0x524C4D
"""The key of an advisory lock that no other program is likely to use."""

_T = TypeVar("_T")


class _Statements(Transaction):
    """The statements on one connection."""

    share_lock = " FOR SHARE"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, **parameters: Any) -> int:
        with _conflicts():
            return self._connection.execute(text(sql), parameters).rowcount

    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        return [dict(row) for row in self._connection.execute(text(sql), parameters).mappings()]

    def has_table(self, name: str) -> bool:
        # Not to_regclass, which may answer from a cache that is older than the lock of _make_schema.
        query = "SELECT count(*) FROM pg_catalog.pg_class WHERE relname = :name AND pg_table_is_visible(oid)"
        return bool(self.scalar(query, name=name))

    def _execute_many(self, sql: str, rows: Sequence[Row]) -> None:
        with _conflicts():
            self._connection.execute(text(sql), list(rows))


class PostgresDatabase(Database):
    """The store at `postgresql://` and `address`. If the server goes away after the first connection, every
    call waits up to a minute for it. Raises ValueError for an address that cannot be read."""

    _errors = (SQLAlchemyError, OSError, ModuleNotFoundError)

    def __init__(self, address: str) -> None:
        try:
            self._url = make_url(f"postgresql+psycopg://{address}")
        except ArgumentError as error:
            raise ValueError("the address cannot be read") from error
        super().__init__(self._url.render_as_string())
        self._writing = asyncio.Lock()
        self._engine: AsyncEngine | None = None

    async def open(self) -> None:
        with self._translate("opened"):
            self._engine = self._make_engine()
        try:
            with self._translate("opened"):
                await self._make_schema(self._engine)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    async def write(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work` in a transaction, and return its result after the commit. If the server goes away, it
        runs again, and may find that its first attempt was committed."""

        async def commit(connection: AsyncConnection) -> _T:
            async with connection.begin():
                return await connection.run_sync(lambda plain: work(_Statements(plain)))

        async with self._writing:
            with self._translate("written"):
                return await self._retry(commit)

    async def read(self, work: Callable[[Transaction], _T]) -> _T:
        async def run(connection: AsyncConnection) -> _T:
            return await connection.run_sync(lambda plain: work(_Statements(plain)))

        with self._translate("read"):
            return await self._retry(run)

    async def shrink(self) -> None:
        async with self._writing:
            with self._translate("shrunk"):
                async with self._get_engine().connect() as plain:
                    connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
                    await connection.execute(text("VACUUM runs, events, inputs"))

    async def size(self) -> int:
        # The sum of the rows and not of the tables' files, which shrink only at their end.
        query = (
            "SELECT (SELECT coalesce(sum(pg_column_size(data)), 0) FROM events) "
            "+ (SELECT coalesce(sum(pg_column_size(data)), 0) FROM inputs)"
        )
        return int(await self.read(lambda transaction: transaction.scalar(query)))

    async def size_on_disk(self) -> int:
        query = "SELECT pg_total_relation_size('events') + pg_total_relation_size('inputs')"
        return int(await self.read(lambda transaction: transaction.scalar(query)))

    async def _retry(self, work: Callable[[AsyncConnection], Awaitable[_T]]) -> _T:
        """Run `work` on a connection, and retry while the server cannot be reached."""
        end = time.monotonic() + _SERVER_WAIT_SECONDS
        while True:
            connected = False
            try:
                async with self._get_engine().connect() as connection:
                    connected = True
                    return await work(connection)
            except OperationalError as error:
                if (connected and not error.connection_invalidated) or time.monotonic() > end:
                    raise
            await asyncio.sleep(_SERVER_PAUSE_SECONDS)

    def _get_engine(self) -> AsyncEngine:
        if self._engine is None:
            raise self._closed()
        return self._engine

    def _make_engine(self) -> AsyncEngine:
        # hide_parameters: errors must not show the text of documents.
        return create_async_engine(
            self._url,
            connect_args={name: value for name, value in _OPTIONS.items() if name not in self._url.query},
            hide_parameters=True,
            # The server may have been restarted since the last event of a long run.
            pool_pre_ping=True,
        )

    async def _make_schema(self, engine: AsyncEngine) -> None:
        async with engine.connect() as connection:
            if await connection.run_sync(lambda plain: has_tables(_Statements(plain))):
                return
        async with engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await connection.run_sync(lambda plain: make_tables(_Statements(plain), _TYPES))

    def _remedy(self, reason: str) -> str:
        if "no module named" in reason:
            return install_command("postgres")
        return "check its URL, its password and that its server runs"


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise RowConflict(type(error.orig).__name__) from error
