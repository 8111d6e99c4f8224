"""Open the database of a store: connections, transactions, and translation of its errors."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from rlm.prompts.segments.errors import StoreOutdated, StoreUnavailable
from rlm.prompts.segments.migration import HEAD, MigrationStep, current_revision, is_held, move_to
from rlm.prompts.segments.tables import store_revision
from rlm.store_file import keep_private, make_private_file
from rlm.version import install_command

__all__ = ["Database"]

_BUSY_SECONDS = 15.0
_CONNECT_SECONDS = 10
_WAL_ATTEMPTS = 50
_WAL_PAUSE_SECONDS = 0.1
_MIGRATION_LOCK = 0x52_4C_4D_53  # any number, the same in every rlm
_WRITES = "rlm_writes"


class Database:
    """An engine whose errors become StoreUnavailable, naming the store and a remedy.

    Thread-safe. Writers queue, within this process and between processes.
    """

    def __init__(self, url: URL) -> None:
        self._url = url
        self._is_sqlite = url.get_backend_name() == "sqlite"
        self._file = Path(url.database) if self._is_sqlite and url.database else None
        self.name = str(self._file) if self._file else url.render_as_string()
        self._engine: Engine | None = None

    def open(self) -> None:
        """Connect. Creates the tables of an empty database.

        A SQLite store is migrated to the current schema, unless it was migrated down on purpose. A server's
        tables are left to `migrate`, since others use them. Raises StoreUnavailable and StoreOutdated.
        """
        try:
            with self._translate_errors("opened"):
                if self._file is not None:
                    make_private_file(self._file)
                self._engine = self._make_engine()
                if self._file is not None:
                    self._switch_to_wal()
                    keep_private(self._file)
                with self._engine.connect() as connection:
                    found = current_revision(connection)
                    held = is_held(connection)
            if found is None or (found != HEAD and self._is_sqlite and not held):
                self.migrate(HEAD)
            elif found != HEAD:
                raise StoreOutdated(
                    f"the segments in {self.name} have schema {found}, this rlm needs {HEAD}: "
                    "run `rlm segments migrate` with the same --store"
                )
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def migrate(self, revision: str) -> MigrationStep:
        """Migrate the tables to that version, in one transaction. Others wait meanwhile."""
        with self._translate_errors("migrated"):
            if self._file is not None:
                make_private_file(self._file)
            # A separate engine: a pool shared with others can't turn foreign keys off for one connection.
            engine = self._make_engine(foreign_keys=False)
            try:
                with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
                    if not self._is_sqlite:
                        connection.execute(select(func.pg_advisory_xact_lock(literal(_MIGRATION_LOCK))))
                    step = move_to(connection, revision)
                    if self._is_sqlite:
                        self._check_references(connection)
                return step
            finally:
                engine.dispose()

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the store."""
        with self._translate_errors("read"), self._require_engine().connect() as connection:
            if not self._is_sqlite:
                connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction with no other writer in it: kept at the end, or taken back when something raises."""
        with self._translate_errors("written"), self._require_engine().connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                change = update(store_revision).values(revision=store_revision.c.revision + 1)
                if connection.execute(change).rowcount == 0:
                    connection.execute(insert(store_revision).values(id=1, revision=1))
                yield connection

    def _require_engine(self) -> Engine:
        if self._engine is None:
            raise StoreUnavailable(f"the segments in {self.name} are closed: open the store again")
        return self._engine

    def _make_engine(self, *, foreign_keys: bool = True) -> Engine:
        arguments: dict[str, Any] = (
            {"timeout": _BUSY_SECONDS, "check_same_thread": False}
            if self._is_sqlite
            else {"connect_timeout": _CONNECT_SECONDS}
        )
        pooling: dict[str, Any] = {"pool_pre_ping": True} if foreign_keys else {"poolclass": NullPool}
        # hide_parameters: error messages must not contain segment text
        engine = create_engine(self._url, connect_args=arguments, hide_parameters=True, **pooling)
        if self._is_sqlite:

            def configure(connection: Any, _record: object) -> None:
                connection.isolation_level = None  # `begin` starts transactions, not the driver
                # auto_vacuum must be set before the first table; the journal in the same file needs it
                for pragma in ("auto_vacuum=INCREMENTAL", "synchronous=NORMAL"):
                    connection.execute(f"PRAGMA {pragma}")
                connection.execute(f"PRAGMA foreign_keys={'ON' if foreign_keys else 'OFF'}")

            def begin(connection: Connection) -> None:
                writes = connection.get_execution_options().get(_WRITES)
                connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

            event.listen(engine, "connect", configure)
            event.listen(engine, "begin", begin)
        return engine

    def _switch_to_wal(self) -> None:
        # The busy timeout does not apply to this statement, so retry while others hold the file.
        for attempt in range(1, _WAL_ATTEMPTS + 1):
            connection = self._require_engine().raw_connection()
            try:
                connection.driver_connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[union-attr]
                return
            except sqlite3.OperationalError as error:
                if attempt == _WAL_ATTEMPTS or "locked" not in str(error):
                    raise
                time.sleep(_WAL_PAUSE_SECONDS)
            finally:
                connection.close()

    def _check_references(self, connection: Connection) -> None:
        """Check foreign keys, which were off while tables were rebuilt."""
        if connection.execute(text("PRAGMA foreign_key_check")).first() is not None:
            raise StoreUnavailable(
                f"the segments in {self.name} have broken references: export what is needed, "
                "and import it into a new store"
            )

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        """Translate errors of the database to ours."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError, ModuleNotFoundError) as error:
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            reason = " ".join(str(getattr(cause, "strerror", None) or cause).split())[:300]
            raise StoreUnavailable(
                f"the segments in {self.name} can't be {action}: {reason}; {self._remedy(reason, error)}"
            ) from error

    def _remedy(self, reason: str, error: Exception) -> str:
        reason = reason.casefold()
        if isinstance(error, ModuleNotFoundError):
            return f"install PostgreSQL's driver with `{install_command('postgres')}`"
        if isinstance(error, IntegrityError):
            return "the data violates a constraint of its table: correct it"
        if not self._is_sqlite:
            return (
                "check its URL, and that its server runs"
                if isinstance(error, OperationalError)
                else "check its tables"
            )
        if "not a database" in reason or "malformed" in reason:
            return "move the damaged file away, or use another store"
        if "locked" in reason:
            return "another process has locked it: try again later"
        if "full" in reason or "no space" in reason:
            return "free some space on its disk, or use another store"
        return "check that its folder exists and is writable, or use another store"
