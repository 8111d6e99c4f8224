"""Buffers rows of numbers for the index of a context."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from array import array
from pathlib import Path
from typing import IO

__all__ = ["Spool"]

_HELD = 1 << 20
"""Bytes that are kept in memory before they go to the file."""


class Spool:
    """Rows of numbers, kept in a file in `folder` until the index is written. There may be millions."""

    def __init__(self, folder: Path, columns: int) -> None:
        self._folder = folder
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
            index.write(self._held)
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
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - see remove
        self._file.write(self._held)
        self._held = array("Q")
