"""The tables of a store: the same in SQLite and PostgreSQL.

`task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which PostgreSQL
refuses in text, survive as escapes. `events.key` is the hash of a model request. `inputs` holds the
compressed files of contexts, and `runs.input` refers to them. `provider_batches` are the batches that were
sent to a provider (`--slow`), and `batch_calls` the calls in them, by the ids under which the provider knows
them.

A change of the tables changes VERSION. A store of another version is refused.
"""

from __future__ import annotations

from rlm.journal.database.transaction import Transaction
from rlm.lazy_dataclass import dataclass

__all__ = ["VERSION", "ColumnTypes", "OtherVersion", "definitions", "has_tables", "make_tables"]

VERSION = "6"
"""The version of the tables, which a store holds in its table `journal_version`."""


class OtherVersion(Exception):
    """The store has tables of another version, which is the message."""


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The names of the types that differ between databases."""

    double: str
    blob: str


_TABLES: tuple[str, ...] = (
    "CREATE TABLE journal_version (version_num VARCHAR(32) NOT NULL, PRIMARY KEY (version_num))",
    """CREATE TABLE runs (
        run_id VARCHAR(64) NOT NULL,
        task TEXT NOT NULL,
        state VARCHAR(16) NOT NULL,
        stop_reason VARCHAR(32),
        started_at {double} NOT NULL,
        finished_at {double},
        rounds INTEGER NOT NULL,
        sub_calls INTEGER NOT NULL,
        cost_usd {double},
        settings TEXT NOT NULL,
        process TEXT NOT NULL,
        input VARCHAR(64),
        PRIMARY KEY (run_id)
    )""",
    "CREATE INDEX runs_started_at ON runs (started_at)",
    "CREATE INDEX runs_input ON runs (input)",
    """CREATE TABLE events (
        run_id VARCHAR(64) NOT NULL,
        seq INTEGER NOT NULL,
        at {double} NOT NULL,
        kind VARCHAR(16) NOT NULL,
        data TEXT NOT NULL,
        key VARCHAR(64),
        PRIMARY KEY (run_id, seq),
        FOREIGN KEY (run_id) REFERENCES runs (run_id)
    )""",
    "CREATE INDEX events_key ON events (key)",
    """CREATE TABLE inputs (
        input VARCHAR(64) NOT NULL,
        name VARCHAR(32) NOT NULL,
        part INTEGER NOT NULL,
        data {blob} NOT NULL,
        PRIMARY KEY (input, name, part)
    )""",
    """CREATE TABLE provider_batches (
        batch VARCHAR(64) NOT NULL,
        model TEXT NOT NULL,
        provider_id VARCHAR(128),
        sent_at {double} NOT NULL,
        requests INTEGER NOT NULL,
        state VARCHAR(16) NOT NULL,
        PRIMARY KEY (batch)
    )""",
    """CREATE TABLE batch_calls (
        key VARCHAR(64) NOT NULL,
        batch VARCHAR(64) NOT NULL,
        run_id VARCHAR(64) NOT NULL,
        PRIMARY KEY (key)
    )""",
    "CREATE INDEX batch_calls_batch ON batch_calls (batch)",
    "CREATE INDEX batch_calls_run_id ON batch_calls (run_id)",
)


def has_tables(transaction: Transaction) -> bool:
    """Return whether the store has its tables. Raises OtherVersion."""
    if not transaction.has_table("journal_version"):
        return False
    version = transaction.scalar("SELECT version_num FROM journal_version")
    if version != VERSION:
        raise OtherVersion(version)
    return True


def definitions(types: ColumnTypes) -> dict[str, str]:
    """Return the statements that make each table and index, by its name, with single spaces."""
    made = [" ".join(statement.format(double=types.double, blob=types.blob).split()) for statement in _TABLES]
    return {statement.split(maxsplit=3)[2]: statement for statement in made}


def make_tables(transaction: Transaction, types: ColumnTypes) -> None:
    """Make the tables in a transaction that other openers wait for. Raises OtherVersion."""
    # Another process may have made them while this one waited for the lock.
    if has_tables(transaction):
        return
    for statement in definitions(types).values():
        transaction.execute(statement)
    transaction.insert("journal_version", [{"version_num": VERSION}])
