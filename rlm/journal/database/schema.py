"""The tables of a store, as the steps that make them: the same in SQLite and PostgreSQL.

`task`, `settings`, `process` and `data` hold JSON in ASCII: lone surrogates and NUL, which PostgreSQL
refuses in text, survive as escapes. `events.key` is the hash of a model request. `inputs` holds the
compressed files of contexts, and `runs.input` refers to them. `provider_batches` are the batches that were
sent to a provider (`--slow`), and `batch_calls` the calls in them, by the ids under which the provider knows
them. The `served_` tables belong to the HTTP server: its keys (as hashes), what was asked of it by whom, the
files of its users, and the process that serves.

A new store goes through all steps in one transaction, which takes a few milliseconds. A released step is
never changed.
"""

from __future__ import annotations

from rlm.journal.database.transaction import Transaction
from rlm.lazy_dataclass import dataclass

__all__ = ["HEAD", "STEPS", "VERSION_TABLE", "ColumnTypes", "NewerStore", "Step", "upgrade", "version_of"]

VERSION_TABLE = "journal_version"
"""The table that holds the revision of a store."""


class NewerStore(Exception):
    """The store has a schema that this version does not know. The message is its name."""


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The names of the types that differ between databases."""

    double: str
    blob: str


@dataclass(frozen=True, slots=True)
class Step:
    """A change of the schema: its statements, and the revision that a store has after them."""

    revision: str
    statements: tuple[str, ...]


STEPS: tuple[Step, ...] = (
    # Runs and their events.
    Step(
        "0001",
        (
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
                PRIMARY KEY (run_id)
            )""",
            "CREATE INDEX runs_started_at ON runs (started_at)",
            """CREATE TABLE events (
                run_id VARCHAR(64) NOT NULL,
                seq INTEGER NOT NULL,
                at {double} NOT NULL,
                kind VARCHAR(16) NOT NULL,
                data TEXT NOT NULL,
                PRIMARY KEY (run_id, seq),
                FOREIGN KEY (run_id) REFERENCES runs (run_id)
            )""",
        ),
    ),
    # The key of a model call in events, and the stored inputs that runs are resumed with.
    Step(
        "0002",
        (
            "ALTER TABLE events ADD COLUMN key VARCHAR(64)",
            "CREATE INDEX events_key ON events (key)",
            "ALTER TABLE runs ADD COLUMN input VARCHAR(64)",
            "CREATE INDEX runs_input ON runs (input)",
            """CREATE TABLE inputs (
                input VARCHAR(64) NOT NULL,
                name VARCHAR(32) NOT NULL,
                part INTEGER NOT NULL,
                data {blob} NOT NULL,
                PRIMARY KEY (input, name, part)
            )""",
        ),
    ),
    # The batches that were sent to a provider, and the calls in them.
    Step(
        "0003",
        (
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
        ),
    ),
    # What the HTTP server keeps: its keys, its runs, the files of its users, and who serves the store.
    Step(
        "0004",
        (
            """CREATE TABLE served_keys (
                key_id VARCHAR(16) NOT NULL,
                user_name VARCHAR(64) NOT NULL,
                role VARCHAR(16) NOT NULL,
                digest VARCHAR(64) NOT NULL,
                created_at {double} NOT NULL,
                revoked_at {double},
                day_usd {double},
                month_usd {double},
                PRIMARY KEY (key_id)
            )""",
            "CREATE INDEX served_keys_digest ON served_keys (digest)",
            """CREATE TABLE served_runs (
                run_id VARCHAR(64) NOT NULL,
                journal_id VARCHAR(64) NOT NULL,
                user_name VARCHAR(64) NOT NULL,
                key_id VARCHAR(16) NOT NULL,
                face VARCHAR(16) NOT NULL,
                kind VARCHAR(16) NOT NULL,
                state VARCHAR(16) NOT NULL,
                request TEXT NOT NULL,
                digest VARCHAR(64) NOT NULL,
                outcome TEXT,
                created_at {double} NOT NULL,
                started_at {double},
                ended_at {double},
                reserved_usd {double} NOT NULL,
                cost_usd {double} NOT NULL,
                PRIMARY KEY (run_id)
            )""",
            "CREATE INDEX served_runs_user ON served_runs (user_name, created_at)",
            "CREATE INDEX served_runs_state ON served_runs (state)",
            """CREATE TABLE served_files (
                file_id VARCHAR(64) NOT NULL,
                user_name VARCHAR(64) NOT NULL,
                name TEXT NOT NULL,
                purpose VARCHAR(32) NOT NULL,
                bytes BIGINT NOT NULL,
                sha256 VARCHAR(64) NOT NULL,
                created_at {double} NOT NULL,
                PRIMARY KEY (file_id)
            )""",
            "CREATE INDEX served_files_user ON served_files (user_name, created_at)",
            """CREATE TABLE served_parts (
                file_id VARCHAR(64) NOT NULL,
                part INTEGER NOT NULL,
                data {blob} NOT NULL,
                PRIMARY KEY (file_id, part)
            )""",
            """CREATE TABLE served_leases (
                name VARCHAR(16) NOT NULL,
                process TEXT NOT NULL,
                seen_at {double} NOT NULL,
                PRIMARY KEY (name)
            )""",
        ),
    ),
)
HEAD = STEPS[-1].revision
"""The newest revision."""

_VERSIONS = (
    f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL, "
    f"CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
)


def version_of(transaction: Transaction) -> str | None:
    """Return the revision of a store; None if it has none."""
    if not transaction.has_table(VERSION_TABLE):
        return None
    version: str | None = transaction.scalar(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608 - a constant
    return version


def upgrade(transaction: Transaction, types: ColumnTypes) -> None:
    """Apply the missing steps in a transaction that other openers wait for. Raises NewerStore."""
    # Another process may have upgraded the store while this one waited for the lock.
    version = version_of(transaction)
    if version == HEAD:
        return
    missing = STEPS
    if version is not None:
        revisions = [step.revision for step in STEPS]
        if version not in revisions:
            raise NewerStore(version)
        missing = STEPS[revisions.index(version) + 1 :]
    elif transaction.has_table("schema_version"):
        # Stores older than these steps hold just the tables of the first one, under a version of their own.
        transaction.execute("DROP TABLE schema_version")
        missing = STEPS[1:]
    for step in missing:
        for statement in step.statements:
            transaction.execute(statement.format(double=types.double, blob=types.blob))
    if not transaction.has_table(VERSION_TABLE):
        transaction.execute(_VERSIONS)
    transaction.execute(f"DELETE FROM {VERSION_TABLE}")  # noqa: S608 - a constant
    transaction.insert(VERSION_TABLE, [{"version_num": HEAD}])
