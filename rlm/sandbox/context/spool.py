"""Buffers rows of numbers for the index of a context."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from array import array
from pathlib import Path
from typing import IO

__all__ = ["Spool", "little_endian"]

_HELD = 1 << 20
"""Bytes that are kept in memory before they go to the file."""


class Spool:
    """Rows of numbers, kept in a file until the index is written. There may be millions."""

    def __init__(self, path: Path, columns: int) -> None:
        self._path = path
        self._columns = columns
        self._held = array("Q")
        self._file: IO[bytes] | None = None
        self._numbers = 0

    def __len__(self) -> int:
        return self._numbers // self._columns

    @property
    def size(self) -> int:
        """Return the size of all rows in bytes."""
        return 8 * self._numbers

    def append(self, *row: int) -> None:
        """Add one row."""
        self._held.extend(row)
        self._numbers += self._columns
        if len(self._held) >= _HELD // 8:
            self._spill()

    def move_to(self, index: IO[bytes]) -> None:
        """Write all rows to `index` and drop them."""
        if self._file is None:
            index.write(little_endian(self._held))
            return
        self._spill()
        self._file.seek(0)
        shutil.copyfileobj(self._file, index, _HELD)
        self.remove()

    def remove(self) -> None:
        """Drop the rows that are in the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _spill(self) -> None:
        if self._file is None:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._path.unlink()  # only the descriptor keeps the file: nothing is left behind after a crash
            self._file = os.fdopen(descriptor, "w+b", buffering=0)
        self._file.write(little_endian(self._held))
        self._held = array("Q")


def little_endian(numbers: array[int]) -> array[int]:
    """Return `numbers` in the byte order of the index."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
