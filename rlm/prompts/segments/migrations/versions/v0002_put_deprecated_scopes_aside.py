"""Deactivate the segments of four scopes that are no longer stored. Their content is unchanged.

The previous state of each row is kept, so that the downgrade restores it exactly.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_STORED = "'core', 'ruleset', 'world', 'entry', 'entry_start', 'npc'"
_INSTEAD = {
    "game_state": "the state of the game is given to every assembly as game_state",
    "player": "the player's facts are given to every assembly as player",
    "rng": "the dice are given to every assembly as rng",
    "input": "the player's words are given to every assembly as input",
}
_DEPRECATED = ", ".join(f"'{scope}'" for scope in _INSTEAD)
_BEFORE = f"scope IN ({_STORED}, {_DEPRECATED})"
_AFTER = f"scope IN ({_STORED}) OR (scope IN ({_DEPRECATED}) AND NOT active)"
_REF_ID = f"scope IN ({_DEPRECATED}) OR (scope = 'core') = (ref_id IS NULL)"


def upgrade() -> None:
    op.create_table(
        "prompt_segments_put_aside",
        sa.Column("id", sa.Uuid, sa.ForeignKey("prompt_segments.id"), primary_key=True),
        sa.Column("active", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("metadata", sa.JSON, nullable=False, server_default="{}"),
    )
    connection = op.get_bind()
    segments, kept = _segments_table(), _put_aside_table()
    now = connection.scalar(sa.select(sa.cast(sa.func.current_timestamp(), sa.Text)))
    found = connection.execute(sa.select(segments).where(segments.c.scope.in_(_INSTEAD))).all()
    for row in found:
        connection.execute(sa.insert(kept).values(id=row.id, active=row.active, metadata=row.metadata))
        marked = {
            **(row.metadata or {}),
            "deprecated_scope": row.scope,
            "deprecated_at": now,
            "note": f"no longer stored: {_INSTEAD[row.scope]}",
        }
        change = sa.update(segments).where(segments.c.id == row.id)
        connection.execute(change.values(active=False, metadata=marked))
    _count_up(connection, len(found))
    _replace_check(_AFTER)


def downgrade() -> None:
    _replace_check(_BEFORE)
    connection = op.get_bind()
    segments, kept = _segments_table(), _put_aside_table()
    found = connection.execute(sa.select(kept)).all()
    for row in found:
        change = sa.update(segments).where(segments.c.id == row.id)
        connection.execute(change.values(active=row.active, metadata=row.metadata))
    _count_up(connection, len(found))
    op.drop_table("prompt_segments_put_aside")


def _count_up(connection: sa.Connection, changed: int) -> None:
    if changed:
        connection.execute(sa.text("UPDATE prompt_segments_revision SET revision = revision + 1"))


def _segments_table() -> sa.TableClause:
    return sa.table(
        "prompt_segments",
        sa.column("id", sa.Uuid),
        sa.column("scope", sa.Text),
        sa.column("active", sa.Boolean),
        sa.column("metadata", sa.JSON),
    )


def _put_aside_table() -> sa.TableClause:
    return sa.table(
        "prompt_segments_put_aside",
        sa.column("id", sa.Uuid),
        sa.column("active", sa.Boolean),
        sa.column("metadata", sa.JSON),
    )


def _replace_check(scope_check: str) -> None:
    if op.get_bind().dialect.name != "sqlite":
        op.drop_constraint("prompt_segments_scope", "prompt_segments", type_="check")
        op.create_check_constraint("prompt_segments_scope", "prompt_segments", sa.text(scope_check))
        return
    # SQLite can't change a constraint, so the table is rebuilt. Alembic's batch mode can't copy a table
    # with a computed column.
    new = _whole_table("prompt_segments_new", scope_check)
    copied = ", ".join(column.name for column in new.columns if column.computed is None)
    new.create(op.get_bind())
    op.execute(f"INSERT INTO {new.name} ({copied}) SELECT {copied} FROM prompt_segments")  # noqa: S608
    op.drop_table("prompt_segments")
    op.rename_table(new.name, "prompt_segments")
    op.create_index("prompt_segments_scope_ref_id", "prompt_segments", ["scope", "ref_id"])


def _whole_table(name: str, scope_check: str) -> sa.Table:
    now = sa.func.now()
    return sa.Table(
        name,
        _with_entities(),
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
        sa.CheckConstraint(scope_check, name="prompt_segments_scope"),
        sa.CheckConstraint(_REF_ID, name="prompt_segments_ref_id"),
        sa.ForeignKeyConstraint(
            ["ref_kind", "ref_id"],
            ["entities.kind", "entities.id"],
            name="prompt_segments_ref",
        ),
    )


def _with_entities() -> sa.MetaData:
    tables = sa.MetaData()
    sa.Table(
        "entities",
        tables,
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, primary_key=True),
    )
    return tables
