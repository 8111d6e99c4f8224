"""Reads the rows of a data set from a file or folder: JSON Lines, JSON, Parquet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlm.errors import ConfigurationError, UsageError
from rlm.prompts.json_input import parse_json

__all__ = ["Row", "list_field", "rows_of", "text_field"]

Row = Mapping[str, Any]
_KINDS = (".jsonl", ".json", ".parquet")


def rows_of(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield each row with its place, for errors: `file, row 3`. A folder is read with what is below it, in
    the order of names. Raises UsageError for a file that cannot be read, and ConfigurationError for Parquet
    without its extra."""
    if not path.exists():
        raise UsageError(f"--data {path} does not exist: check the path")
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.suffix in _KINDS)
    if not files:
        raise UsageError(f"--data {path} holds no file of {', '.join(_KINDS)}: give the data set's folder")
    for file in files:
        try:
            yield from _read(file)
        except OSError as error:
            raise UsageError(f"--data {file} cannot be read: {error.strerror or error}") from None


def _read(file: Path) -> Iterator[tuple[str, Row]]:
    if file.suffix == ".parquet":
        for number, row in enumerate(_parquet(file), 1):
            yield f"{file}, row {number}", row
    elif file.suffix == ".jsonl":
        with file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"{file}, line {number}", _object(line, f"{file}, line {number}")
    else:
        found = _parsed(file.read_bytes(), str(file))
        rows = found if isinstance(found, list) else [found]
        for number, row in enumerate(rows, 1):
            if not isinstance(row, dict):
                raise UsageError(f"{file}, row {number} is not a JSON object: check the file")
            yield f"{file}, row {number}", row


def _parquet(file: Path) -> Iterator[Row]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise ConfigurationError(
            f"{file} is Parquet, which needs an extra: pip install -e '.[parquet]'"
        ) from None
    try:
        for batch in ParquetFile(file).iter_batches(batch_size=16):
            yield from batch.to_pylist()
    except ArrowException as error:
        raise UsageError(f"{file} cannot be read as Parquet ({error}): check the file") from None


def _object(line: bytes, place: str) -> Row:
    found = _parsed(line, place)
    if not isinstance(found, dict):
        raise UsageError(f"{place} is not a JSON object: check the file")
    return found


def _parsed(data: bytes, place: str) -> Any:
    try:
        return parse_json(data)
    except ValueError as error:
        raise UsageError(f"{place} is not JSON ({error}): check the file") from None


def text_field(row: Row, place: str, *names: str) -> str:
    """Return the first of the fields that the row has, as text. Raises UsageError if it has none."""
    for name in names:
        value = row.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value)
    raise UsageError(f"{place} has no text in the field {' or '.join(names)}: is this the right data set?")


def list_field(row: Row, place: str, name: str) -> list[Any]:
    """Return a list, also if it is written as a text of JSON or of Python. Raises UsageError."""
    value = row.get(name)
    if isinstance(value, str):
        for text in (value, value.replace("'", '"')):
            try:
                value = json.loads(text)
                break
            except ValueError:
                continue
        value = [value] if not isinstance(value, list) else value
    if isinstance(value, list) and value:
        return value
    raise UsageError(f"{place} has no list in the field {name}: is this the right data set?")
