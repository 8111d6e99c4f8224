"""Reading of Parquet files with pyarrow (the extra `parquet`): a file is one table, each row a line."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from rlm.documents.formats.csv_lines import csv_line, shown
from rlm.documents.formats.piece import Ended, Fault, Member, Piece, Problem, Text
from rlm.version import install_command

try:
    import pyarrow
    from pyarrow import parquet
except ImportError:
    pyarrow = None

__all__ = ["prepare", "read_parquet"]

_ROWS = 2_000
_REMEDY = "get it again, or write it again without encryption"


def prepare() -> None:
    """Read a small file: later nothing can be opened, and no thread can be started."""
    if pyarrow is None:
        return
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    sample = io.BytesIO()
    for compression in ("snappy", "zstd", "gzip"):
        sample = io.BytesIO()
        parquet.write_table(pyarrow.table({"a": [1], "b": ["c"]}), sample, compression=compression)
        list(read_parquet(io.BytesIO(sample.getvalue()), 0))


def read_parquet(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the table as the file's only member, of kind `csv`: a header, then its rows, row n on line n + 1.

    Lists and structs in a cell are JSON. Raises Fault without the extra.
    """
    if pyarrow is None:
        raise Fault("other", remedy=f"{install_command('parquet')}, or convert it to CSV")
    table = parquet.ParquetFile(pyarrow.PythonFile(file, mode="r"), pre_buffer=False)
    names = table.schema_arrow.names
    count = 0

    def lines() -> Iterator[str]:
        nonlocal count
        yield csv_line(map(shown, names), is_head=True)
        for batch in table.iter_batches(_ROWS, use_threads=False):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                count += 1
                yield csv_line(map(_cell, row))

    yield Member("", "csv", "table")
    try:
        yield from map(Text, lines())
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        yield Problem(f"damaged after row {count:,} ({type(error).__name__})", _REMEDY, "missing")
    yield Ended()


def _cell(value: Any) -> str:
    if isinstance(value, list | dict | tuple):
        return shown(json.dumps(value, default=shown, ensure_ascii=False))
    return shown(value)
