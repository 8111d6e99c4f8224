"""Runs and their events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    # Stores older than these steps hold just these tables, under a version of their own.
    if sa.inspect(op.get_bind()).has_table("schema_version"):
        op.drop_table("schema_version")
        return
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("stop_reason", sa.String(32)),
        sa.Column("started_at", sa.Double, nullable=False),
        sa.Column("finished_at", sa.Double),
        sa.Column("rounds", sa.Integer, nullable=False),
        sa.Column("sub_calls", sa.Integer, nullable=False),
        sa.Column("cost_usd", sa.Double),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("process", sa.Text, nullable=False),
    )
    op.create_index("runs_started_at", "runs", ["started_at"])
    op.create_table(
        "events",
        sa.Column("run_id", sa.String(64), sa.ForeignKey("runs.run_id"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
