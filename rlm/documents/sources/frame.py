"""DataFrames and Series of pandas as sources. pandas itself is never imported here."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rlm.documents.formats.csv_lines import csv_line, shown
from rlm.errors import UsageError

__all__ = ["FRAME_NAME", "FrameLike", "FrameSource", "SeriesLike", "frame_source", "is_frame"]

FRAME_NAME = "DataFrame"
"""The name of the document that a frame becomes, and the start of its places: `DataFrame, row 7`."""


class FrameLike(Protocol):
    """A DataFrame of pandas."""

    @property
    def columns(self) -> Any: ...

    @property
    def index(self) -> Any: ...

    def itertuples(self, index: bool = ..., name: str | None = ...) -> Iterable[tuple[Any, ...]]: ...


class SeriesLike(Protocol):
    """A Series of pandas."""

    @property
    def index(self) -> Any: ...

    def to_frame(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class FrameSource:
    """A table in memory. Its rows are written when it is read, each on a line of its own."""

    name: str
    frame: FrameLike

    def lines(self) -> Iterator[str]:
        """Yield the header, then the rows, as CSV. An index that only counts the rows is no column."""
        frame = self.frame
        has_index = type(frame.index).__name__ != "RangeIndex"
        names = [_label(name) or "index" for name in frame.index.names] if has_index else []
        yield csv_line([*names, *map(_label, frame.columns)], is_head=True)
        for row in frame.itertuples(index=has_index, name=None):
            cells = (*row[0], *row[1:]) if has_index and len(names) > 1 else row
            yield csv_line(map(_cell, cells))


def is_frame(value: object) -> bool:
    """Return whether a value is a DataFrame or a Series of pandas, without importing pandas."""
    return any(
        one.__name__ in ("DataFrame", "Series") and one.__module__.partition(".")[0] == "pandas"
        for one in type(value).__mro__
    )


def frame_source(value: Any) -> FrameSource:
    """Return the source of a DataFrame or a Series, which is a table of one column. Raises UsageError for
    one without rows."""
    if not len(value.index):
        raise UsageError(f"the {type(value).__name__} has no rows: give one that has, or no context at all")
    return FrameSource(FRAME_NAME, value if hasattr(value, "columns") else value.to_frame())


def _label(name: Any) -> str:
    """Return the name of a column. The names of several levels are joined."""
    if name is None:
        return ""
    return " / ".join(map(shown, name)) if isinstance(name, tuple) else shown(name)


def _cell(value: Any) -> str:
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return shown(value)
