"""Adds the key of a model call to events, and the stored inputs that runs are resumed with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("events", sa.Column("key", sa.String(64)))
    op.create_index("events_key", "events", ["key"])
    op.add_column("runs", sa.Column("input", sa.String(64)))
    op.create_index("runs_input", "runs", ["input"])
    op.create_table(
        "inputs",
        sa.Column("input", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
