"""The tables of a store: plain SQL types only, so that any database SQLAlchemy knows can hold them.

`task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which some databases
refuse in text, survive as escapes.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

__all__ = ["SCHEMA_VERSION", "events", "metadata", "runs", "schema_version"]

SCHEMA_VERSION = 1


metadata = MetaData()

schema_version = Table(
    "schema_version",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("task", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("stop_reason", String(32)),
    Column("started_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("rounds", Integer, nullable=False),
    Column("sub_calls", Integer, nullable=False),
    Column("cost_usd", Double),
    Column("settings", Text, nullable=False),
    Column("process", Text, nullable=False),
    Index("runs_started_at", "started_at"),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("data", Text, nullable=False),
)
