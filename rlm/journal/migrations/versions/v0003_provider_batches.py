"""Adds the batches that were sent to a provider, and the calls in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "provider_batches",
        sa.Column("batch", sa.String(64), primary_key=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("provider_id", sa.String(128)),
        sa.Column("sent_at", sa.Double, nullable=False),
        sa.Column("requests", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
    )
    op.create_table(
        "batch_calls",
        sa.Column("key", sa.String(64), primary_key=True),
        sa.Column("batch", sa.String(64), nullable=False),
        sa.Column("run_id", sa.String(64), nullable=False),
    )
    op.create_index("batch_calls_batch", "batch_calls", ["batch"])
    op.create_index("batch_calls_run_id", "batch_calls", ["run_id"])
