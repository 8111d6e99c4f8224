"""The input as tables and as files."""

from __future__ import annotations

from typing import Any

from ..context_handle.handle import Handle
from ..file_view.files import Files
from ..tables.database import Database
from ..tables.listing import TableList, table_record
from ..tables.results import SqlRows

__all__ = ["DataViews"]


class DataViews:
    """The helpers that show the body of a handle as tables and as files."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._database = Database(handle.body, handle.access_log)

    def tables(self) -> TableList:
        """Return the documents of `read_records`, and tables drawn with |: name (for `sql`), document, start,
        end, and on access rows and columns (name, type by the first 1,000 rows, sample)."""
        return TableList(map(table_record, self._current().tables))

    def sql(self, query: str, params: Any = ()) -> SqlRows:
        """Return the rows of one SELECT over the tables, in SQLite, at most 100,000.

        Columns are typed, an empty cell is NULL, lists and objects are JSON. `_rowid_` is the number of the
        record, from 1. Rows that are one record each know its number and place: `.record` and `.span`.
        """
        return self._current().query(query, params)

    def files(self, pattern: str | None = None) -> Files:
        """Return the documents as read-only paths, or those that fit a pattern like '**/*.py'."""
        body = self._handle.body
        every = Files(body, self._handle.access_log, body.documents)
        return every if pattern is None else every.glob(pattern)

    def _current(self) -> Database:
        """Return the database. A new question may cover another part of the body."""
        if self._database.body is not self._handle.body:
            self._database = Database(self._handle.body, self._handle.access_log)
        return self._database
