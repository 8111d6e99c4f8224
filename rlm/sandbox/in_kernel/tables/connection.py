"""Opens the database in memory, with its limits, and takes the rows of a query from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .sql_functions import add_functions

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MAX_RESULT_CHARS", "MAX_ROWS", "fetch", "open_connection"]

MAX_ROWS = 100_000
MAX_RESULT_CHARS = 50_000_000
"""Characters and bytes of the values of one result."""
_MAX_PAGES = 200_000  # of 4,096 bytes
_MAX_VALUE_BYTES = 100_000_000
_MAX_QUERY_BYTES = 1_000_000
_MAX_HEAP_BYTES = 1_200_000_000
_STEPS = 50_000
"""Steps of SQLite's machine after which Python may handle an interrupt."""


def open_connection() -> tuple[sqlite3.Connection, list[BaseException]]:
    """Return a database in memory, and the list that gets what Python's functions raise in it."""
    import sqlite3

    connection = sqlite3.connect(
        ":memory:", isolation_level=None, check_same_thread=False, cached_statements=0
    )
    connection.execute("PRAGMA temp_store=MEMORY")
    connection.execute(f"PRAGMA max_page_count={_MAX_PAGES}")
    connection.execute(f"PRAGMA hard_heap_limit={_MAX_HEAP_BYTES}")
    connection.execute("PRAGMA journal_mode=OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MAX_QUERY_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    # The callback does nothing: Python handles an interrupt when it is called.
    connection.set_progress_handler(lambda: 0, _STEPS)
    raised = add_functions(connection)
    # SQLite makes these tables at their first use, which the authorizer would refuse.
    connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')")
    return connection, raised


def fetch(cursor: sqlite3.Cursor) -> tuple[list[Any], bool]:
    """Return the first rows, and whether there are more. Raises ValueError for too many characters."""
    rows: list[Any] = []
    size = 0
    for row in cursor:
        if len(rows) == MAX_ROWS:
            return rows, True
        size += _size(row)
        if size > MAX_RESULT_CHARS:
            raise ValueError(
                f"the result has more than {MAX_RESULT_CHARS:,} characters after {len(rows):,} rows: select "
                "fewer columns, aggregate, or add LIMIT"
            )
        rows.append(row)
    return rows, False


def _size(row: Sequence[Any]) -> int:
    return sum(len(value) for value in row if isinstance(value, (str, bytes)))
