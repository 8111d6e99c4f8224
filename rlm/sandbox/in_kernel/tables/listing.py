"""Lists tables for a cell: records whose rows and columns are looked up on access."""

from __future__ import annotations

from typing import Any

from ..context_handle.records import LazyRecord, Record, Records, shown
from .table import Table

__all__ = ["TableFields", "TableList", "table_record"]

_MOST_LISTED = 20
_MOST_COLUMNS = 40
_SAMPLE = 40
_RESERVED = """
add all and as between by case check column commit create default delete distinct drop else end escape except
exists foreign from group having in index insert intersect into is join limit not null on or order primary
references select set table then to transaction union unique update using values when where
"""
_KEYWORDS = frozenset(_RESERVED.split())
"""Words of SQLite that name a column only in double quotes."""


class TableFields:
    """Computes rows and columns of a table on access."""

    KEYS = ("rows", "columns")

    def __init__(self, table: Table) -> None:
        self._table = table

    def value(self, record: LazyRecord, key: str) -> Any:
        """Return the number of rows, or the columns as records (name, type, sample)."""
        if key == "rows":
            return self._table.rows
        types = self._table.types
        return Columns(
            Record(name=name, type=types.by_name[name], sample=types.samples.get(name))
            for name in types.by_name
        )

    def shown(self, record: LazyRecord, key: str) -> str:
        """Return the field for printing."""
        return self._table.rows_shown if key == "rows" else repr(self.value(record, key))


class Columns(Records):
    """The columns of a table. Prints each with its type and a sample."""

    __slots__ = ()

    def __repr__(self) -> str:
        printed = [
            f"{_in_query(one.name)} {one.type}{_sample(one.sample)}"
            for one in list.__getitem__(self, slice(_MOST_COLUMNS))
        ]
        more = len(self) - len(printed)
        return ", ".join(printed) + (f" and {more:,} more" if more else "")


def _in_query(name: str) -> str:
    """Return a name as a query writes it: `order id` is `"order id"`."""
    if name.isidentifier() and name.casefold() not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _sample(value: Any) -> str:
    if value is None:
        return ""
    text = shown(value)
    return f" ({text})" if len(text) <= _SAMPLE else f" ({text[: _SAMPLE - 1]}…)"


class TableList(Records):
    """Tables. Prints a line for each of the first few."""

    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        found = list.__getitem__(self, at)
        return TableList(found) if isinstance(at, slice) else found

    def __repr__(self) -> str:
        if not self:
            return "no table: no document holds CSV, JSON, a chat or a table drawn with |"
        lines = [_line(one) for one in list.__getitem__(self, slice(_MOST_LISTED))]
        if len(self) > len(lines):
            lines.append(f"  … and {len(self) - len(lines):,} more in this list")
        return "\n".join([f"{len(self):,} table{'' if len(self) == 1 else 's'}", *lines])


def _line(one: LazyRecord) -> str:
    fields = one._source
    return f"  {one.name} ({one.document}): {fields.shown(one, 'rows')} rows; {fields.shown(one, 'columns')}"


def table_record(table: Table) -> LazyRecord:
    """Return name, document, start, end, rows and columns of a table."""
    held = {
        "name": table.name,
        "document": table.document.name,
        "start": table.span.start,
        "end": table.span.end,
    }
    return LazyRecord(held, TableFields.KEYS, TableFields(table))
