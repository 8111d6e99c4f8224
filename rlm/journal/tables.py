"""The tables of a store: plain SQL types only, the same in SQLite and PostgreSQL.

`task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which PostgreSQL
refuses in text, survive as escapes. `events.key` is the hash of a model request. `inputs` holds the
compressed files of contexts, and `runs.input` refers to them. `migrations/` upgrades older stores to these
tables."""

from __future__ import annotations

from sqlalchemy import (
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

__all__ = ["HEAD", "VERSION_TABLE", "events", "inputs", "metadata", "runs"]

HEAD = "0002"
"""The newest revision of `migrations/`."""
VERSION_TABLE = "journal_version"
"""The table that holds the revision of a store. Alembic's default name could clash with other programs."""


metadata = MetaData()

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
    Column("input", String(64)),
    Index("runs_started_at", "started_at"),
    Index("runs_input", "input"),
)

events = Table(
    "events",
    metadata,
    Column("run_id", String(64), ForeignKey("runs.run_id"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("data", Text, nullable=False),
    Column("key", String(64)),
    Index("events_key", "key"),
)

inputs = Table(
    "inputs",
    metadata,
    Column("input", String(64), primary_key=True),
    Column("name", String(32), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)
