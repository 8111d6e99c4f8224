"""The statements of one transaction: plain SQL with `:name` parameters, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["Row", "RowConflict", "Transaction"]

Row = Mapping[str, Any]
"""The values of a row by the names of their columns."""


class RowConflict(Exception):
    """A row was refused: its key is taken, or the row that it refers to is missing."""


class Transaction(ABC):
    """An open connection. Names of tables and columns come from this package. Values are parameters."""

    share_lock = ""
    """What a SELECT ends with to keep its rows unchanged until the commit. In SQLite a writer is alone."""

    @abstractmethod
    def execute(self, sql: str, **parameters: Any) -> int:
        """Run a statement and return the number of rows it changed. Raises RowConflict."""

    @abstractmethod
    def rows(self, sql: str, **parameters: Any) -> list[Row]:
        """Return the rows of a query."""

    @abstractmethod
    def has_table(self, name: str) -> bool:
        """Return whether the database has a table of that name."""

    @abstractmethod
    def _execute_many(self, sql: str, rows: Sequence[Row]) -> None: ...

    def scalar(self, sql: str, **parameters: Any) -> Any:
        """Return the first value of the first row; None if there is no row."""
        found = self.rows(sql, **parameters)
        return next(iter(found[0].values())) if found else None

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows that have the same columns. Raises RowConflict."""
        names = list(rows[0])
        values = ", ".join(f":{name}" for name in names)
        sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"  # noqa: S608 - names of ours
        if len(rows) == 1:
            self.execute(sql, **rows[0])
        else:
            self._execute_many(sql, rows)

    def update(self, table: str, values: Row, where: str, **parameters: Any) -> int:
        """Set columns of the rows that `where` chooses, and return how many there were."""
        changes = ", ".join(f"{name} = :new_{name}" for name in values)
        new = {f"new_{name}": value for name, value in values.items()}
        sql = f"UPDATE {table} SET {changes} WHERE {where}"  # noqa: S608 - names of ours
        return self.execute(sql, **new, **parameters)

    def delete_any(self, table: str, column: str, values: Sequence[str]) -> int:
        """Delete the rows whose column has one of the values, and return how many there were."""
        listed, parameters = one_of(values)
        sql = f"DELETE FROM {table} WHERE {column} IN {listed}"  # noqa: S608 - names of ours
        return self.execute(sql, **parameters)


def one_of(values: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the right side of an IN, and its parameters, of which databases allow a few hundred."""
    parameters = {f"value_{number}": value for number, value in enumerate(values)}
    return f"({', '.join(f':{name}' for name in parameters)})", parameters
