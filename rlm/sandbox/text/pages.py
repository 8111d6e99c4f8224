"""Releases the pages of a mapped file behind the reader, so that this process holds few of them.

The system's page cache keeps the data for all processes. Without the release, a process that has read a
gigabyte would count as using a gigabyte, and could be killed for it.
"""

from __future__ import annotations

import mmap

__all__ = ["Pages"]

_MOST = 8 << 20
"""Bytes read after which the pages are released."""
_LEAST = 64 << 10  # reading a single byte maps this much


class Pages:
    """Counts the bytes read of one mapping. Safe to use from several threads: pages return when read."""

    __slots__ = ("_file", "_passed")

    def __init__(self, file: mmap.mmap | bytes) -> None:
        self._file: mmap.mmap | None = None
        # A small file has nothing to gain.
        if isinstance(file, mmap.mmap) and len(file) > _MOST and hasattr(mmap, "MADV_DONTNEED"):
            self._file = file
        self._passed = 0

    def passed(self, size: int) -> None:
        """Record that `size` bytes in a row were read."""
        if self._file is None:
            return
        self._passed += max(size, _LEAST)
        if self._passed > _MOST:
            self._passed = 0
            self._file.madvise(mmap.MADV_DONTNEED)
