"""A store in a PostgreSQL database, reached by psycopg (extra `postgres`)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from rlm.database.store import Schema, Store, Transaction

__all__ = ["PostgresStore"]

_OPTIONS = {
    "connect_timeout": 10,
    # With these, a server that vanished is detected within half a minute.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_OPENERS = 0x524C4D
"""The key of an advisory lock that no other program is likely to use."""
_PASSWORD = re.compile(r"(?<=:)[^:@/]*(?=@)|(?<=password=)[^&]*")


class PostgresStore(Store):
    """The store at `postgresql://` and `address`. Raises ValueError for an address that cannot be read."""

    lock = " FOR UPDATE"
    conflicts = psycopg.IntegrityError
    _errors = (psycopg.Error, OSError)
    # Not to_regclass, which may answer from a cache that is older than the lock of the openers.
    table_query = "SELECT 1 FROM pg_catalog.pg_class WHERE relname = :name AND pg_table_is_visible(oid)"

    def __init__(self, schema: Schema, address: str) -> None:
        self._address = f"postgresql://{address}"
        try:
            given = conninfo_to_dict(self._address)
        except psycopg.Error as error:
            raise ValueError("the address cannot be read") from error
        super().__init__(schema, _PASSWORD.sub("***", self._address))
        self._options: dict[str, Any] = {name: value for name, value in _OPTIONS.items() if name not in given}

    def to_sql(self, sql: str) -> str:
        return _to_format(sql)

    def _connect(self, *, is_writer: bool) -> psycopg.Connection[Any]:
        # Poolers between us and the server may not know prepared statements.
        return psycopg.connect(self._address, autocommit=True, prepare_threshold=None, **self._options)

    def _prepare(self) -> None:
        transaction = Transaction(self, self._connection(), is_repeated=False)
        if not self._is_made(transaction):
            self._commit(transaction, self._make_tables)

    def _make_tables(self, transaction: Transaction) -> None:
        transaction.rows("SELECT pg_advisory_xact_lock(:key)", key=_OPENERS)
        super()._make_tables(transaction)

    def _is_away(self, error: Exception) -> bool:
        if not self._is_open or not isinstance(error, psycopg.OperationalError):
            return False
        connection = getattr(self._own, "connection", None)
        # The class 57P: the server is shutting down or starting.
        return connection is None or connection.closed or (error.sqlstate or "").startswith("57P")

    def _size(self) -> str:
        # The sum of the rows and not of the tables' files, which shrink only at their end.
        sizes = (f"(SELECT coalesce(sum(pg_column_size(data)), 0) FROM {name})" for name in self.schema.bulk)  # noqa: S608
        return f"SELECT {' + '.join(sizes)}"

    def _size_on_disk(self) -> str:
        return "SELECT " + " + ".join(f"pg_total_relation_size('{name}')" for name in self.schema.bulk)

    def _shrink(self, connection: Any) -> None:
        connection.execute(f"VACUUM {', '.join(self.schema.bulk)}")

    def _remedy(self, reason: str) -> str:
        return "check its URL, its password and that its server runs"


@lru_cache(maxsize=256)
def _to_format(sql: str) -> str:
    return re.sub(r":(\w+)", r"%(\1)s", sql)
