"""The tables of a store: plain SQL types only, the same in SQLite and PostgreSQL.

`task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which PostgreSQL
refuses in text, survive as escapes. `events.key` is the hash of a model request. `inputs` holds the
compressed files of contexts, and `runs.input` refers to them. `provider_batches` are the batches that were
sent to a provider (`--slow`), and `batch_calls` the calls in them, by the ids under which the provider knows
them. `migrations/` upgrades older stores to these tables."""

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

__all__ = [
    "HEAD",
    "VERSION_TABLE",
    "batch_calls",
    "events",
    "inputs",
    "metadata",
    "provider_batches",
    "runs",
]

HEAD = "0003"
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

provider_batches = Table(
    "provider_batches",
    metadata,
    Column("batch", String(64), primary_key=True),
    Column("model", Text, nullable=False),
    Column("provider_id", String(128)),
    Column("sent_at", Double, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("state", String(16), nullable=False),
)

batch_calls = Table(
    "batch_calls",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("batch", String(64), nullable=False),
    Column("run_id", String(64), nullable=False),
    Index("batch_calls_batch", "batch"),
    Index("batch_calls_run_id", "run_id"),
)
