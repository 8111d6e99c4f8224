"""Adds what the HTTP server keeps: its keys, its runs, the files of its users, and who serves the store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "served_keys",
        sa.Column("key_id", sa.String(16), primary_key=True),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("revoked_at", sa.Double),
        sa.Column("day_usd", sa.Double),
        sa.Column("month_usd", sa.Double),
    )
    op.create_index("served_keys_digest", "served_keys", ["digest"])
    op.create_table(
        "served_runs",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("journal_id", sa.String(64), nullable=False),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(16), nullable=False),
        sa.Column("face", sa.String(16), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("reserved_usd", sa.Double, nullable=False),
        sa.Column("cost_usd", sa.Double, nullable=False),
    )
    op.create_index("served_runs_user", "served_runs", ["user_name", "created_at"])
    op.create_index("served_runs_state", "served_runs", ["state"])
    op.create_table(
        "served_files",
        sa.Column("file_id", sa.String(64), primary_key=True),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("purpose", sa.String(32), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_index("served_files_user", "served_files", ["user_name", "created_at"])
    op.create_table(
        "served_parts",
        sa.Column("file_id", sa.String(64), primary_key=True),
        sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "served_leases",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("process", sa.Text, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
    )
