"""The database of a journal: a SQLite file or a PostgreSQL server, with the same SQL for both.

SQLite is reached by the standard library. SQLAlchemy is imported for PostgreSQL only: it is heavy, and most
stores are files.
"""

from __future__ import annotations

from rlm.journal.database.database import Database
from rlm.journal.database.location import database_at
from rlm.journal.database.transaction import Row, RowConflict, Transaction

__all__ = ["Database", "Row", "RowConflict", "Transaction", "database_at"]
