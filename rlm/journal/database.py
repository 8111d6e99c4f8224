"""The open database of a journal: its connections, its schema, and the translation of its errors."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Row, Select, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from rlm.errors import JournalError
from rlm.journal.schema import NewerStore, bring_up_to_date
from rlm.journal.tables import HEAD
from rlm.store_file import keep_private, make_private_file

__all__ = ["Database"]

_BUSY_SECONDS = 15.0
_WAL_ATTEMPTS = 50
_WAL_PAUSE_SECONDS = 0.1
_SERVER_WAIT_SECONDS = 60.0
"""How long to wait for a server that went away. It may be restarting or moving to another machine."""
_SERVER_PAUSE_SECONDS = 0.5
_POSTGRES_OPTIONS = {
    "connect_timeout": 10,
    # With these, a server that vanished is detected within half a minute.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

_T = TypeVar("_T")


class Database:
    """An engine that raises JournalError: one line with the store's name and a remedy.

    Writers of this process queue on a lock here, because SQLite waits for its own lock by polling. If a
    server goes away after the first connection, every call waits up to a minute for it.
    """

    def __init__(self, url: URL) -> None:
        self._url = url
        self._is_sqlite = url.get_backend_name() == "sqlite"
        self._writing = asyncio.Lock()
        self._engine: AsyncEngine | None = None
        self.name = url.database if self._is_sqlite and url.database else url.render_as_string()

    async def open(self) -> None:
        """Connect, and make or check the schema. Raises JournalError."""
        with self._translate("opened"):
            if self._is_sqlite and self._url.database:
                make_private_file(Path(self._url.database))
                # aiosqlite leaks a thread if a connection fails, so the first connection uses sqlite3
                # directly.
                sqlite3.connect(self._url.database).close()
            self._engine = self._make_engine()
        try:
            with self._translate("opened"):
                if self._is_sqlite:
                    await self._switch_to_wal()
                await self._make_schema()
                if self._is_sqlite and self._url.database:
                    keep_private(Path(self._url.database))
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection. Safe to call twice."""
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    async def write(self, work: Callable[[AsyncConnection], Awaitable[_T]]) -> _T:
        """Run `work` in one transaction, and commit it.

        The first statement of `work` must write: SQLite cannot turn a read transaction into a write while
        another process writes. If the server goes away, `work` is retried, and may find that its first
        attempt was committed.
        """

        async def commit(connection: AsyncConnection) -> _T:
            async with connection.begin():
                return await work(connection)

        async with self._writing:
            with self._translate("written"):
                return await self._retry(commit)

    async def read(self, work: Callable[[AsyncConnection], Awaitable[_T]]) -> _T:
        """Run `work` on a connection that only reads. Retries if the server goes away. Each statement reads
        one consistent state."""
        with self._translate("read"):
            return await self._retry(work)

    async def rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        """Return the rows of a query."""

        async def fetch(connection: AsyncConnection) -> list[Row[Any]]:
            return list((await connection.execute(query)).all())

        return await self.read(fetch)

    async def shrink(self) -> None:
        """Free the space of removed rows: for the file system (SQLite) or for new rows (PostgreSQL)."""
        if not self._is_sqlite:
            async with self._writing:
                with self._translate("shrunk"):
                    async with self._get_engine().connect() as plain:
                        connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
                        await connection.execute(text("VACUUM runs, events, inputs"))
            return
        async with self._writing:
            with self._translate("shrunk"):
                async with self._get_engine().connect() as connection:
                    driver: Any = (await connection.get_raw_connection()).driver_connection
                    # As a script: an ordinary execute stops after the first freed page.
                    await driver.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    async def size(self) -> int:
        """Return the size of the store in bytes, not counting free pages."""
        query = (
            "SELECT (page_count - freelist_count) * page_size "
            "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
            if self._is_sqlite
            # The sum of the rows and not of the tables' files, which shrink only at their end.
            else "SELECT (SELECT coalesce(sum(pg_column_size(data)), 0) FROM events) "
            "+ (SELECT coalesce(sum(pg_column_size(data)), 0) FROM inputs)"
        )
        return int(await self.read(lambda connection: connection.scalar(text(query))) or 0)

    async def _retry(self, work: Callable[[AsyncConnection], Awaitable[_T]]) -> _T:
        """Run `work` on a connection, and retry while a server cannot be reached. SQLite is not retried."""
        end = time.monotonic() + (0.0 if self._is_sqlite else _SERVER_WAIT_SECONDS)
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
            raise JournalError(f"the journal {self.name} is closed; open it again")
        return self._engine

    def _make_engine(self) -> AsyncEngine:
        arguments: dict[str, Any] = {"timeout": _BUSY_SECONDS}
        if not self._is_sqlite:
            arguments = {
                name: value for name, value in _POSTGRES_OPTIONS.items() if name not in self._url.query
            }
        # hide_parameters: errors must not show the text of documents.
        engine = create_async_engine(
            self._url,
            connect_args=arguments,
            hide_parameters=True,
            # The server may have been restarted since the last event of a long run.
            pool_pre_ping=not self._is_sqlite,
        )
        if self._is_sqlite:
            event.listen(engine.sync_engine, "connect", _configure_sqlite)
        return engine

    async def _switch_to_wal(self) -> None:
        # SQLite does not apply its busy timeout to this statement.
        for attempt in range(1, _WAL_ATTEMPTS + 1):
            try:
                async with self._get_engine().connect() as connection:
                    await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
                return
            except OperationalError as error:
                if attempt == _WAL_ATTEMPTS or "locked" not in str(error.orig):
                    raise
                await asyncio.sleep(_WAL_PAUSE_SECONDS)

    async def _make_schema(self) -> None:
        try:
            await bring_up_to_date(self._get_engine(), sqlite=self._is_sqlite)
        except NewerStore as error:
            raise JournalError(
                f"the journal {self.name} has schema {error}, this rlm writes {HEAD}: a newer version of rlm "
                "made it; install that one or use another store"
            ) from error

    @contextlib.contextmanager
    def _translate(self, action: str) -> Iterator[None]:
        """Turn errors of the database into JournalError. IntegrityError passes through: the caller knows
        which row it means."""
        try:
            yield
        except IntegrityError:
            raise
        except (SQLAlchemyError, sqlite3.Error, OSError, ModuleNotFoundError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            reason = " ".join(str(getattr(cause, "strerror", None) or cause).split())[:200]
            raise JournalError(
                f"the journal {self.name} can't be {action}: {reason}; {self._remedy(reason)}"
            ) from error

    def _remedy(self, reason: str) -> str:
        reason = reason.casefold()
        if not self._is_sqlite and "no module named" in reason:
            return "install rlm-kernel[postgres]"
        if not self._is_sqlite:
            return "check its URL, its password and that its server runs"
        if any(sign in reason for sign in ("not a database", "malformed", "already exists", "no such table")):
            return "move the damaged file away, or use another store"
        if "locked" in reason:
            return "another process has locked it. Try again after that process ends"
        if "full" in reason or "no space" in reason:
            return "free some space on its disk, or use another store"
        return "check that its folder exists and is yours to write, or use another store"


def _configure_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    # auto_vacuum must be set before the first table. secure_delete overwrites the text of removed runs.
    for pragma in ("auto_vacuum=INCREMENTAL", "synchronous=NORMAL", "foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
