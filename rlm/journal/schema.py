"""Migration of a store to the newest schema. Concurrent openers migrate it once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from rlm.journal.tables import HEAD, VERSION_TABLE

__all__ = ["NewerStore", "bring_up_to_date"]

_STEPS = Path(__file__).parent / "migrations"
_LOCK = 0x524C4D
"""The key of a PostgreSQL advisory lock that no other program is likely to use."""


_MIGRATING = threading.Lock()


class NewerStore(Exception):
    """The store has a schema that this version does not know. The message is its name."""


async def bring_up_to_date(engine: AsyncEngine, *, sqlite: bool) -> None:
    """Apply the missing migrations in one transaction, which other openers wait for. Raises NewerStore."""
    async with engine.connect() as connection:
        if await connection.run_sync(_version) == HEAD:
            return
    async with _only_migration():
        await _migrate(engine, sqlite=sqlite)


@asynccontextmanager
async def _only_migration() -> AsyncIterator[None]:
    """Wait until no other store of this process is migrated: Alembic keeps the migration in module globals.

    The lock also holds between event loops, and a wait for it can be cancelled.
    """
    while not _MIGRATING.acquire(blocking=False):  # noqa: ASYNC110 - an Event belongs to one loop
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        _MIGRATING.release()


async def _migrate(engine: AsyncEngine, *, sqlite: bool) -> None:
    if sqlite:
        # SQLite's driver begins a transaction at the first row written, which is too late for CREATE TABLE.
        async with engine.connect() as plain:
            connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                await connection.run_sync(_upgrade)
            except BaseException:
                await connection.exec_driver_sql("ROLLBACK")
                raise
            await connection.exec_driver_sql("COMMIT")
        return
    async with engine.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        await connection.run_sync(_upgrade)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))  # noqa: S608 - a constant
    return version


def _upgrade(connection: Connection) -> None:
    # Another process may have migrated the store while this one waited for the lock.
    version = _version(connection)
    if version == HEAD:
        return
    # The import takes a quarter of a second, so only a migration pays for it.
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if version is not None and version not in {
        step.revision for step in ScriptDirectory.from_config(config).walk_revisions()
    }:
        raise NewerStore(version)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
