"""Bringing a store's tables up to date, once, however many processes open it at the same moment."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from rlm.journal.tables import HEAD, VERSION_TABLE

__all__ = ["NewerStore", "bring_up_to_date"]

_STEPS = Path(__file__).parent / "migrations"
_LOCK = 0x524C4D
"""A number of PostgreSQL's advisory locks that nobody else in the database is likely to take."""


class NewerStore(Exception):
    """The store is at a step that this version does not know; it is named."""


async def bring_up_to_date(engine: AsyncEngine, *, sqlite: bool) -> None:
    """Apply the missing steps, in one transaction that other openers wait for. Raises NewerStore."""
    async with engine.connect() as connection:
        if await connection.run_sync(_version) == HEAD:
            return
    if sqlite:
        # SQLite's driver would begin a transaction only at the first row that is written, after the tables.
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
    # Another process may have been faster to the lock.
    version = _version(connection)
    if version == HEAD:
        return
    # A quarter of a second to import: only a store that needs it pays.
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
