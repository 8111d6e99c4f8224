"""Define the tables of the store, the same on SQLite and PostgreSQL. A test compares them with the
migrations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    Uuid,
    false,
    func,
    true,
)

__all__ = [
    "entities",
    "entry_rulesets",
    "labels",
    "metadata",
    "prompt_segments",
    "put_aside",
    "store_revision",
    "versions",
]


class _Utc(TypeDecorator[datetime]):
    """A time in UTC. SQLite stores no zone, so it is added when reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_STORED = "'core', 'ruleset', 'world', 'entry', 'entry_start', 'npc'"
_PUT_ASIDE = "'game_state', 'player', 'rng', 'input'"

metadata = MetaData()

entities = Table(
    "entities",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    CheckConstraint("kind IN ('ruleset', 'world', 'entry', 'npc')", name="entities_kind"),
)

entry_rulesets = Table(
    "entry_rulesets",
    metadata,
    Column("entry", Text, primary_key=True),
    Column("ruleset", Text, primary_key=True),
    Column("sort_order", Integer, nullable=False, server_default="0"),
    # a foreign key needs both columns of the key it refers to
    Column("entry_kind", Text, Computed("'entry'", persisted=True)),
    Column("ruleset_kind", Text, Computed("'ruleset'", persisted=True)),
    ForeignKeyConstraint(
        ["entry_kind", "entry"], ["entities.kind", "entities.id"], name="entry_rulesets_entry"
    ),
    ForeignKeyConstraint(
        ["ruleset_kind", "ruleset"], ["entities.kind", "entities.id"], name="entry_rulesets_ruleset"
    ),
)

prompt_segments = Table(
    "prompt_segments",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("scope", Text, nullable=False),
    Column("ref_id", Text),
    Column("content", Text, nullable=False),
    Column("metadata", JSON, nullable=False, server_default="{}"),
    Column("version", Integer, nullable=False, server_default="1"),
    Column("active", Boolean, nullable=False, server_default=true()),
    Column("created_at", _Utc, nullable=False, server_default=func.now()),
    Column("updated_at", _Utc, nullable=False, server_default=func.now()),
    Column(
        "ref_kind",
        Text,
        Computed(
            "CASE WHEN scope = 'entry_start' THEN 'entry' "
            "WHEN scope IN ('ruleset', 'world', 'entry', 'npc') THEN scope END",
            persisted=True,
        ),
    ),
    CheckConstraint(
        f"scope IN ({_STORED}) OR (scope IN ({_PUT_ASIDE}) AND NOT active)", name="prompt_segments_scope"
    ),
    CheckConstraint(
        f"scope IN ({_PUT_ASIDE}) OR (scope = 'core') = (ref_id IS NULL)", name="prompt_segments_ref_id"
    ),
    ForeignKeyConstraint(
        ["ref_kind", "ref_id"], ["entities.kind", "entities.id"], name="prompt_segments_ref"
    ),
    Index("prompt_segments_scope_ref_id", "scope", "ref_id"),
)

versions = Table(
    "prompt_segment_versions",
    metadata,
    Column("segment_id", Uuid, ForeignKey("prompt_segments.id"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    Column("metadata", JSON, nullable=False, server_default="{}"),
    Column("note", Text, nullable=False, server_default=""),
    Column("created_at", _Utc, nullable=False, server_default=func.now()),
)

labels = Table(
    "prompt_segment_labels",
    metadata,
    Column("segment_id", Uuid, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    ForeignKeyConstraint(
        ["segment_id", "version"],
        ["prompt_segment_versions.segment_id", "prompt_segment_versions.version"],
        name="prompt_segment_labels_version",
    ),
)

# The rows that the deprecated-scope migration changed, so that the downgrade can restore them exactly.
put_aside = Table(
    "prompt_segments_put_aside",
    metadata,
    Column("id", Uuid, ForeignKey("prompt_segments.id"), primary_key=True),
    Column("active", Boolean, nullable=False, server_default=false()),
    Column("metadata", JSON, nullable=False, server_default="{}"),
)

# One row, incremented by every writer: it makes writers queue and invalidates caches.
store_revision = Table(
    "prompt_segments_revision",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("revision", Integer, nullable=False),
    CheckConstraint("id = 1", name="prompt_segments_revision_one_row"),
)
