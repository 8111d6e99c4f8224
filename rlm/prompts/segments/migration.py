"""Migrate the tables of a store up or down."""

from __future__ import annotations

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, select

from rlm.lazy_dataclass import dataclass
from rlm.prompts.segments.errors import StoreOutdated

__all__ = ["HEAD", "REVISIONS", "MigrationStep", "current_revision", "is_held", "move_to"]

REVISIONS = ("0001", "0002")
"""All schema versions, oldest first."""

HEAD = REVISIONS[-1]

_VERSION_TABLE = (
    "prompt_segments_schema"  # the database may also hold other programs' tables and alembic versions
)
_schema = Table(_VERSION_TABLE, MetaData(), Column("version_num", String(32)))
_held = Table("prompt_segments_held", MetaData(), Column("version_num", String(32)))
"""Exists in a store that was migrated down on purpose, until it is migrated up on purpose."""


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """A migration from one schema version (None: no tables) to another."""

    before: str | None
    after: str


def current_revision(connection: Connection) -> str | None:
    """Return the schema version, or None without tables. Raises StoreOutdated for an unknown one."""
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    found = connection.scalar(select(_schema.c.version_num))
    if found is not None and found not in REVISIONS:
        raise StoreOutdated(
            f"the segments have schema {found}, this rlm knows up to {HEAD}: update rlm, or use another store"
        )
    return found


def is_held(connection: Connection) -> bool:
    """Return whether the tables were migrated down on purpose."""
    return inspect(connection).has_table(_held.name)


def move_to(connection: Connection, revision: str) -> MigrationStep:
    """Run the migrations from the current schema version to `revision`, in the caller's transaction."""
    if revision not in REVISIONS:
        raise StoreOutdated(f"there is no schema {revision!r}: use one of {', '.join(REVISIONS)}")
    before = current_revision(connection)
    if before != revision:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", "rlm.prompts.segments:migrations")
        config.attributes.update(connection=connection, version_table=_VERSION_TABLE)
        if before is None or before < revision:
            command.upgrade(config, revision)
        else:
            command.downgrade(config, revision)
        _held.drop(connection, checkfirst=True)
        if before is not None and revision < before:
            _held.create(connection)
    return MigrationStep(before, revision)
