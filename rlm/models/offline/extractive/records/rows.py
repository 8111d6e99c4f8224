"""Read the rows of tables and the lines of logs as records."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from rlm.models.offline.extractive.records.fields import Record, flatten, log_record, norm

__all__ = [
    "Place",
    "Row",
    "Rows",
    "TooSlow",
    "alike",
    "base_name",
    "log_rows",
    "named_tables",
    "table_rows",
    "timed",
]

Place = tuple[int, int]
Row = tuple[Place, Record, str]
"""The place, the fields and, of a log, the line."""
Rows = Callable[[], Iterable[Row]]
"""Reads the rows from the start."""

_LOG_HEAD = 40


class TooSlow(Exception):
    """The records are too many to look at each in the time of a cell."""


def timed(rows: Rows, limit: float) -> Iterator[Row]:
    """Yield the rows. Raises TooSlow when the clock (`time.monotonic`) passes `limit`."""
    for number, row in enumerate(rows()):
        if number % 1_000 == 0 and time.monotonic() > limit:
            raise TooSlow
        yield row


def named_tables(question: str, names: Iterable[str]) -> frozenset[str]:
    """Return the documents whose own name (`users` of `app.sqlite/users`) that a question has, if not all."""
    known = dict.fromkeys(names)
    words = {word for part in question.split() for word in norm(part)}
    stems = {name: norm(base_name(name)) for name in known}
    named = frozenset(name for name, stem in stems.items() if stem and words.issuperset(stem))
    return named if len(named) < len(known) else frozenset()


def base_name(document: str) -> str:
    """Return the own name of a table: `users` of `app.sqlite/users` and of `data/users.csv`."""
    return document.rsplit("/", 1)[-1].split(".", 1)[0]


def alike(columns: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Return the tables in groups, in which the columns are mostly the same: the months of one table."""
    groups: list[tuple[set[str], list[str]]] = []
    for name, own in columns.items():
        group = next((one for one in groups if 2 * len(one[0] & set(own)) > len(one[0] | set(own))), None)
        if group is None:
            groups.append((set(own), [name]))
        else:
            group[1].append(name)
    return [names for _, names in groups]


def table_rows(*tables: Iterable[Any]) -> Rows:
    """Return the reader of rows from `read_records`, one table after the other. Rows that could not be read
    are left out."""

    def read() -> Iterator[tuple[Place, Record, str]]:
        for row in chain.from_iterable(tables):
            record = flatten(row.value)
            if record:
                yield (row.start, row.end), record, ""

    return read


def log_rows(lines: Callable[[], Iterable[Any]]) -> Rows | None:
    """Return the reader of a log's lines from `read_lines`, or None if the text is no log."""
    seen = known = 0
    for line in lines():
        text = line.text
        seen, known = seen + bool(text.strip()), known + (log_record(text) is not None)
        if seen >= _LOG_HEAD:
            break
    if known < 3 or known < 0.6 * seen:
        return None

    def read() -> Iterator[tuple[Place, Record, str]]:
        for line in lines():
            record = log_record(line.text)
            if record:
                yield (line.start, line.end), record, line.text.strip()

    return read
