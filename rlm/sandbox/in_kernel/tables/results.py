"""The result of a query: rows that are tuples with names, and know where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...text.body import Span
from ..context_handle.records import Records, Values

__all__ = ["SqlRow", "SqlRows", "place_of_row", "places_of_row"]

_PRINTED = 30
_CELL = 80


class SqlRow(Values):
    """A row of a result: `row[0]`, `row["name"]` and `row.name` are the same, and `dict(row)` works.

    A column wins over what every row has: `record`, the number of the record of the table that it comes
    from, from 1, and `span`, its place. Both are None for a row that was computed from several.
    """

    _columns: Sequence[str]
    _source: tuple[int | None, Span | None, tuple[Span, ...]]

    @classmethod
    def of(
        cls,
        values: Iterable[Any],
        columns: Sequence[str],
        tables: tuple[Span, ...],
        record: int | None = None,
        span: Span | None = None,
    ) -> SqlRow:
        """Return a row. `tables` are the places of the tables that were read."""
        made = cls(values)
        made._columns, made._source = columns, (record, span, tables)
        return made

    @property
    def record(self) -> int | None:
        """The number of its record."""
        return self._source[0]

    @property
    def span(self) -> Span | None:
        """The place of its record."""
        return self._source[1]

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def items(self) -> list[tuple[str, Any]]:
        """Return names and values."""
        return list(zip(self._columns, self, strict=True))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column."""
        return self[name] if name in self._columns else default

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self._columns:
                raise KeyError(f"there is no column {at!r}. The columns are {', '.join(self._columns)}.")
            return tuple.__getitem__(self, list(self._columns).index(at))
        return tuple.__getitem__(self, at)

    def __getattribute__(self, name: str) -> Any:
        # First the columns, so that `count(*) count` is no method of a tuple.
        if not name.startswith("_"):
            columns = object.__getattribute__(self, "__dict__").get("_columns", ())
            if name in columns:
                return self[name]
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no column {name!r}. The columns are {', '.join(self._columns)}.")

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value!r}" for name, value in SqlRow.items(self)) + "}"

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (list(self),)


class SqlRows(Records):
    """Rows in order. `columns` are their names, and `records` is how many records the tables that were read
    hold. `truncated` is whether the query gave more rows than are kept."""

    __slots__ = ("columns", "records", "source", "truncated")

    def __init__(
        self, rows: Iterable[SqlRow], columns: Sequence[str], *, records: int, source: str, truncated: bool
    ) -> None:
        super().__init__(rows)
        self.columns = list(columns)
        self.records = records
        self.source = source
        self.truncated = truncated

    def __repr__(self) -> str:
        first = list.__getitem__(self, slice(_PRINTED))
        lines = [self._heading(), " | ".join(self.columns)]
        lines += [" | ".join(map(_cell, row)) for row in first]
        if len(self) > len(first):
            lines.append(f"… and {len(self) - len(first):,} more in this list")
        return "\n".join(lines)

    def _heading(self) -> str:
        count = f"{len(self):,} row{'' if len(self) == 1 else 's'}"
        if self.truncated:
            count = f"the first {count} (there are more: aggregate, or add LIMIT)"
        if not self.source:
            return count
        whole = f"{self.records:,} records of {self.source}"
        is_numbered = bool(self) and place_of_row(self[0]) is not None
        return (
            f"{count} (each with .record and .span) of {whole}"
            if is_numbered
            else f"{count}, computed over {whole}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def spans(self) -> Iterator[Span]:
        """Yield the places of the records, each once."""
        yield from dict.fromkeys(place for row in self for place in places_of_row(row))


def place_of_row(row: SqlRow) -> Span | None:
    """Return the place of the record that a row comes from. A column may hide `row.span`."""
    return row._source[1]


def places_of_row(row: SqlRow) -> tuple[Span, ...]:
    """Return the place of the record of a row, or the tables that it was computed over."""
    _, span, tables = row._source
    return tables if span is None else (span,)


def _cell(value: Any) -> str:
    text = " ".join(str("" if value is None else value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
