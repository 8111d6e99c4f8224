"""The tables of a store: plain SQL types only, the same in SQLite and PostgreSQL.

`task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which PostgreSQL
refuses in text, survive as escapes. `events.key` is the hash of a model request. `inputs` holds the
compressed files of contexts, and `runs.input` refers to them. `provider_batches` are the batches that were
sent to a provider (`--slow`), and `batch_calls` the calls in them, by the ids under which the provider knows
them. The `served_` tables belong to the HTTP server: its keys (as hashes), what was asked of it by whom, the
files of its users, and the process that serves. `migrations/` upgrades older stores to these tables."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
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
    "served_files",
    "served_keys",
    "served_leases",
    "served_parts",
    "served_runs",
]

HEAD = "0004"
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

served_keys = Table(
    "served_keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("user_name", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("revoked_at", Double),
    Column("day_usd", Double),
    Column("month_usd", Double),
    Index("served_keys_digest", "digest"),
)

served_runs = Table(
    "served_runs",
    metadata,
    Column("run_id", String(64), primary_key=True),
    Column("journal_id", String(64), nullable=False),
    Column("user_name", String(64), nullable=False),
    Column("key_id", String(16), nullable=False),
    Column("face", String(16), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("request", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("outcome", Text),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("reserved_usd", Double, nullable=False),
    Column("cost_usd", Double, nullable=False),
    Index("served_runs_user", "user_name", "created_at"),
    Index("served_runs_state", "state"),
)

served_files = Table(
    "served_files",
    metadata,
    Column("file_id", String(64), primary_key=True),
    Column("user_name", String(64), nullable=False),
    Column("name", Text, nullable=False),
    Column("purpose", String(32), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Index("served_files_user", "user_name", "created_at"),
)

served_parts = Table(
    "served_parts",
    metadata,
    Column("file_id", String(64), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

served_leases = Table(
    "served_leases",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("process", Text, nullable=False),
    Column("seen_at", Double, nullable=False),
)
