"""Create the tables of the segment store, with the ten scopes of the first version.

An existing table `prompt_segments`, made by another program, is renamed to `prompt_segments_adopted` and its
rows are copied.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

from rlm.prompts.segments.errors import SegmentRefused

revision = "0001"
down_revision = None

_ADOPTED = "prompt_segments_adopted"
_SCOPES = "'core', 'ruleset', 'world', 'entry', 'entry_start', 'npc', 'game_state', 'player', 'rng', 'input'"
_DEPRECATED = "'game_state', 'player', 'rng', 'input'"
_KINDS = {"ruleset": "ruleset", "world": "world", "entry": "entry", "entry_start": "entry", "npc": "npc"}


def upgrade() -> None:
    connection = op.get_bind()
    adopting = sa.inspect(connection).has_table("prompt_segments")
    if adopting:
        op.rename_table("prompt_segments", _ADOPTED)
    _make_tables()
    connection.execute(sa.text("INSERT INTO prompt_segments_revision (id, revision) VALUES (1, 0)"))
    if adopting:
        _adopt(connection)


def downgrade() -> None:
    for table in (
        "prompt_segments_revision",
        "prompt_segment_labels",
        "prompt_segment_versions",
        "prompt_segments",
        "entry_rulesets",
        "entities",
    ):
        op.drop_table(table)
    if sa.inspect(op.get_bind()).has_table(_ADOPTED):
        op.rename_table(_ADOPTED, "prompt_segments")


def _make_tables() -> None:
    now = sa.func.now()
    op.create_table(
        "entities",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
        sa.CheckConstraint("kind IN ('ruleset', 'world', 'entry', 'npc')", name="entities_kind"),
    )
    op.create_table(
        "entry_rulesets",
        sa.Column("entry", sa.Text, primary_key=True),
        sa.Column("ruleset", sa.Text, primary_key=True),
        sa.Column("sort_order", sa.Integer, nullable=False, server_default="0"),
        sa.Column("entry_kind", sa.Text, sa.Computed("'entry'", persisted=True)),
        sa.Column("ruleset_kind", sa.Text, sa.Computed("'ruleset'", persisted=True)),
        sa.ForeignKeyConstraint(
            ["entry_kind", "entry"], ["entities.kind", "entities.id"], name="entry_rulesets_entry"
        ),
        sa.ForeignKeyConstraint(
            ["ruleset_kind", "ruleset"], ["entities.kind", "entities.id"], name="entry_rulesets_ruleset"
        ),
    )
    op.create_table(
        "prompt_segments",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("ref_id", sa.Text),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False, server_default="{}"),
        sa.Column("version", sa.Integer, nullable=False, server_default="1"),
        sa.Column("active", sa.Boolean, nullable=False, server_default=sa.true()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
        sa.Column(
            "ref_kind",
            sa.Text,
            sa.Computed(
                "CASE WHEN scope = 'entry_start' THEN 'entry' "
                "WHEN scope IN ('ruleset', 'world', 'entry', 'npc') THEN scope END",
                persisted=True,
            ),
        ),
        sa.CheckConstraint(f"scope IN ({_SCOPES})", name="prompt_segments_scope"),
        sa.CheckConstraint(
            f"scope IN ({_DEPRECATED}) OR (scope = 'core') = (ref_id IS NULL)", name="prompt_segments_ref_id"
        ),
        sa.ForeignKeyConstraint(
            ["ref_kind", "ref_id"], ["entities.kind", "entities.id"], name="prompt_segments_ref"
        ),
    )
    op.create_index("prompt_segments_scope_ref_id", "prompt_segments", ["scope", "ref_id"])
    op.create_table(
        "prompt_segment_versions",
        sa.Column("segment_id", sa.Uuid, sa.ForeignKey("prompt_segments.id"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("metadata", sa.JSON, nullable=False, server_default="{}"),
        sa.Column("note", sa.Text, nullable=False, server_default=""),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=now),
    )
    op.create_table(
        "prompt_segment_labels",
        sa.Column("segment_id", sa.Uuid, primary_key=True),
        sa.Column("label", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(
            ["segment_id", "version"],
            ["prompt_segment_versions.segment_id", "prompt_segment_versions.version"],
            name="prompt_segment_labels_version",
        ),
    )
    op.create_table(
        "prompt_segments_revision",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.CheckConstraint("id = 1", name="prompt_segments_revision_one_row"),
    )


def _adopt(connection: sa.Connection) -> None:
    tables = sa.MetaData()
    tables.reflect(connection, only=[_ADOPTED, "prompt_segments", "prompt_segment_versions", "entities"])
    segments = tables.tables["prompt_segments"]
    versions = tables.tables["prompt_segment_versions"]
    entities = tables.tables["entities"]
    known: set[tuple[str, str]] = set()
    rows = connection.execute(sa.select(tables.tables[_ADOPTED])).mappings().all()
    faults = [fault for row in rows for fault in _faults(row)]
    if faults:
        raise SegmentRefused(*faults)
    for row in rows:
        name = _uuid(row["id"])
        scope, ref_id = str(row["scope"]), str(row["ref_id"]) if row.get("ref_id") else None
        entity = (_KINDS[scope], ref_id) if scope in _KINDS and ref_id is not None else None
        if entity is not None and entity not in known:
            known.add(entity)
            connection.execute(sa.insert(entities).values(kind=entity[0], id=entity[1]))
        now = datetime.now(UTC)
        data = _object(row.get("metadata"))
        shared = {"content": row["content"], "metadata": data, "version": 1}
        connection.execute(
            sa.insert(segments).values(
                id=name,
                scope=scope,
                ref_id=ref_id,
                active=True if row.get("active") is None else bool(row["active"]),
                created_at=_time(row.get("created_at")) or now,
                updated_at=_time(row.get("updated_at")) or now,
                **shared,
            )
        )
        connection.execute(
            sa.insert(versions).values(
                segment_id=name, note=f"adopted, was version {row.get('version')}", created_at=now, **shared
            )
        )


def _faults(row: Mapping[Any, Any]) -> list[str]:
    where, scope = f"row {row['id']} of prompt_segments", str(row["scope"])
    if scope not in _KINDS and f"'{scope}'" not in _SCOPES:
        return [f"{where} has the unknown scope {scope!r}: correct or remove it"]
    if scope in _KINDS and not row.get("ref_id"):
        return [f"{where} is of scope {scope!r} and has no ref_id: correct or remove it"]
    if scope == "core" and row.get("ref_id"):
        return [f"{where} is of scope 'core' and has a ref_id: correct or remove it"]
    return []


def _uuid(value: Any) -> Any:
    """Return the row's id if it is a UUID, else a UUID computed from it."""
    try:
        found = uuid.UUID(str(value))
    except ValueError:
        found = uuid.uuid5(uuid.NAMESPACE_URL, f"prompt_segments/{value}")
    return found if op.get_bind().dialect.name == "postgresql" else found.hex


def _object(value: Any) -> Any:
    if isinstance(value, str):
        value = json.loads(value)
    return value if isinstance(value, dict) else {}


def _time(value: Any) -> datetime | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value if isinstance(value, datetime) else None
