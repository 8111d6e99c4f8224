"""The result of a query: rows that are tuples with names and know the records that they come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..body.body import Span
from ..context_handle.records import Records, Values

__all__ = ["Sources", "SqlRow", "SqlRows"]

_PRINTED = 30
_CELL = 80


class Sources(NamedTuple):
    """The records that a row was computed from: the places of a few, and how many there are."""

    first: tuple[Span, ...]
    total: int


class SqlRow(Values):
    """A row of a result: `row[0]`, `row["name"]` and `row.name` are the same, and `dict(row)` works.

    `record` is the number of the record of the table that it comes from, from 1, and `span` its place. Both
    are None for a row that was computed from several. `sources` are the first of these and their number, if
    they are known.
    """

    columns: Sequence[str]
    record: int | None
    span: Span | None
    tables: tuple[Span, ...]
    sources: Sources | None

    @classmethod
    def of(
        cls,
        values: Iterable[Any],
        columns: Sequence[str],
        tables: tuple[Span, ...],
        record: int | None = None,
        span: Span | None = None,
        sources: Sources | None = None,
    ) -> SqlRow:
        """Return a row. `tables` are the places of the tables that were read."""
        made = cls(values)
        made.columns, made.tables, made.record, made.span = columns, tables, record, span
        made.sources = sources
        return made

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.columns)

    def items(self) -> list[tuple[str, Any]]:
        """Return names and values."""
        return list(zip(self.columns, self, strict=True))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column."""
        return self[name] if name in self.columns else default

    @property
    def places(self) -> tuple[Span, ...]:
        """The place of its record, or of the tables that it was computed over."""
        return self.tables if self.span is None else (self.span,)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self.columns:
                raise KeyError(f"there is no column {at!r}. The columns are {', '.join(self.columns)}.")
            return tuple.__getitem__(self, list(self.columns).index(at))
        return tuple.__getitem__(self, at)

    def __getattr__(self, name: str) -> Any:
        columns = self.__dict__.get("columns", ())
        if name not in columns:
            raise AttributeError(f"there is no column {name!r}. The columns are {', '.join(columns)}.")
        return self[name]

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value!r}" for name, value in self.items()) + "}"

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
        is_numbered = bool(self) and self[0].record is not None
        return (
            f"{count} (each with .record and .span) of {whole}"
            if is_numbered
            else f"{count}, computed over {whole}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def spans(self) -> Iterator[Span]:
        """Yield the places of the records, each once."""
        yield from dict.fromkeys(place for row in self for place in row.places)


def _cell(value: Any) -> str:
    text = " ".join(str("" if value is None else value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"
