"""The tables of a body: documents of rows, and tables drawn with pipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice

from ...text.body import Body, Document, Span
from ..context_handle.access_log import AccessLog
from ..context_handle.columns import SAMPLED, ColumnTypes, distinct
from ..context_handle.rows import RawRow, format_of, raw_rows
from .pipe_tables import PipeTable, find_pipe_tables, pipe_rows
from .table_names import table_names

__all__ = ["Table", "find_tables"]

_COUNTED_CHARS = 4_000_000
"""Characters of a table whose rows are counted for printing."""


class Table:
    """One table: `name` (for SQL), `document`, `form` (jsonl, json, csv, chat, card or pipes) and `span`.

    Nothing of it is read before it is asked for. Types and columns are those of its first 1,000 rows. What is
    looked through for them, or counted, is recorded as scanned.
    """

    def __init__(
        self,
        body: Body,
        log: AccessLog,
        name: str,
        document: Document,
        form: str,
        drawn: PipeTable | None = None,
    ) -> None:
        self.unreadable = 0
        self._body = body
        self._log = log
        self._drawn = drawn
        self.name = name
        self.document = document
        self.form = form
        self.span = drawn.span if drawn else Span(document.start, document.end)

    @property
    def from_json(self) -> bool:
        """Whether its values have types of their own. Those of CSV are texts."""
        return self.form not in ("csv", "pipes")

    def raw_rows(self) -> Iterator[RawRow]:
        """Yield start, end, value and error of each row."""
        if self._drawn is None:
            yield from raw_rows(self._body, self.document, self.form)
            return
        for start, end, value in pipe_rows(self._body, self._drawn):
            yield start, end, value, None

    def records(self) -> Iterator[tuple[int, int, Mapping[str, object]]]:
        """Yield start, end and fields of each row that can be read. A row that is no object has one field,
        `value`. At the end, `unreadable` is how many rows cannot be read."""
        unreadable = 0
        for start, end, value, error in self.raw_rows():
            if isinstance(value, Mapping):
                yield start, end, value
            elif value is None and error is not None:
                unreadable += 1
            else:
                yield start, end, {"value": value}
        self.unreadable = unreadable

    @cached_property
    def types(self) -> ColumnTypes:
        """The types of the columns, from the first rows."""
        first = list(islice(self.records(), SAMPLED))
        if first:
            self._log.scanned(first[0][0], first[-1][1])
        return ColumnTypes((fields for _, _, fields in first), from_json=self.from_json)

    @cached_property
    def rows(self) -> int:
        """The number of rows that can be read. Goes through the whole table."""
        count = sum(1 for _ in self.records())
        self._log.scanned(*self.span)
        return count

    @property
    def rows_shown(self) -> str:
        """Return the number of rows for printing, without going through a large table."""
        if "rows" in self.__dict__ or self.span.end - self.span.start <= _COUNTED_CHARS:
            return f"{self.rows:,}"
        return "not counted yet (.rows counts them)"


def find_tables(body: Body, log: AccessLog) -> list[Table]:
    """Return the tables of a body: documents with rows first, then the tables within documents."""
    found: list[tuple[Document, str, PipeTable | None]] = [
        (document, form, None) for document in body.documents if (form := format_of(body, document))
    ]
    names = table_names([document.name for document, _, _ in found])
    drawn = find_pipe_tables(body)
    hosts = {one.document.index: one.document.name for one in drawn}
    stems = dict(zip(hosts, table_names(list(hosts.values())), strict=True))
    numbers = dict.fromkeys(hosts, 0)
    for one in drawn:
        index = one.document.index
        numbers[index] += 1
        names.append(f"{stems[index]}_{numbers[index]}")
        found.append((one.document, "pipes", one))
    return [
        Table(body, log, name, *facts)
        for name, facts in zip(distinct(names, str.casefold), found, strict=True)
    ]
