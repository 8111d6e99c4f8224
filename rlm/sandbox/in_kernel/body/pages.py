"""The pages of a mapped file that this process holds: few, however much of the file it goes through.

The system keeps what was read in memory of its own, where any process finds it again. A process that has gone
through a gigabyte need not have a gigabyte to its name, which is what it is measured and killed by.
"""

from __future__ import annotations

import mmap

__all__ = ["Pages"]

_MOST = 8 << 20
"""Bytes passed after which the pages are let go of."""
_LEAST = 64 << 10  # so much is mapped for a single byte that is read


class Pages:
    """Counts what is read of one mapping. Safe to use from several threads: pages come back when read."""

    __slots__ = ("_file", "_passed")

    def __init__(self, file: mmap.mmap | bytes) -> None:
        self._file: mmap.mmap | None = None
        # A file that is never passed in full has nothing to gain.
        if isinstance(file, mmap.mmap) and len(file) > _MOST and hasattr(mmap, "MADV_DONTNEED"):
            self._file = file
        self._passed = 0

    def passed(self, size: int) -> None:
        """So many bytes in a row have been read."""
        if self._file is None:
            return
        self._passed += max(size, _LEAST)
        if self._passed > _MOST:
            self._passed = 0
            self._file.madvise(mmap.MADV_DONTNEED)
