"""The bytes of a body: mapped, a window of a mapping, or a user's own file that may change at any time."""

from __future__ import annotations

import mmap
from typing import Any, Protocol

__all__ = ["BodyWindow", "Pages", "WatchedFile"]

_MOST = 8 << 20
"""Bytes read after which the pages are released."""
_LEAST = 64 << 10  # reading a single byte maps this much


class Pages:
    """Releases the pages of a mapped file behind the reader, so that this process holds few of them.

    The system's page cache keeps the data for all processes. Without the release, a process that has read a
    gigabyte would count as using a gigabyte, and could be killed for it. Safe to use from several threads:
    pages return when read.
    """

    __slots__ = ("_file", "_passed")

    def __init__(self, file: mmap.mmap | bytes) -> None:
        self._file: mmap.mmap | None = None
        # A small file has nothing to gain.
        if isinstance(file, mmap.mmap) and len(file) > _MOST:
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


class WatchedFile(Protocol):
    """Reads like bytes. Every read raises the host's error if the file is no longer what was indexed.

    The driver must not read such a file through a mapping: a mapping of a file that was cut off kills the
    process that reads it.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any) -> Any: ...

    def find(self, wanted: bytes, start: int = 0, end: int | None = None) -> int: ...

    def rfind(self, wanted: bytes, start: int = 0, end: int | None = None) -> int: ...

    def check(self) -> None:
        """Raise the host's error if the file changed."""

    @property
    def has_grown_or_moved(self) -> bool:
        """Whether the file was written, renamed or removed, while the indexed text is still the same."""


class BodyWindow:
    """The bytes from `start` to `end` of a file. Its offsets count from its own start.

    `view` holds the same bytes for engines that need a buffer. Release it before the mapping is closed.
    """

    __slots__ = ("_end", "_file", "_start", "view")

    def __init__(
        self, file: mmap.mmap | bytes | WatchedFile, mapped: mmap.mmap | bytes, start: int, end: int
    ) -> None:
        self._file = file
        self._start = start
        self._end = end
        self.view = memoryview(mapped)[start:end]

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            place = at + len(self) if at < 0 else at
            if not 0 <= place < len(self):
                raise IndexError(at)
            return self._file[self._start + place]
        start, stop, step = at.indices(len(self))
        return self._file[self._start + start : self._start + max(start, stop) : step]

    def find(self, wanted: bytes, start: int = 0, end: int | None = None) -> int:
        """Search as `bytes.find` does."""
        return self._relative(self._file.find(wanted, *self._bounds(start, end)))

    def rfind(self, wanted: bytes, start: int = 0, end: int | None = None) -> int:
        """Search as `bytes.rfind` does."""
        return self._relative(self._file.rfind(wanted, *self._bounds(start, end)))

    def release(self) -> None:
        """Release the mapping."""
        self.view.release()

    def _bounds(self, start: int, end: int | None) -> tuple[int, int]:
        low, high, _ = slice(start, end).indices(len(self))
        # Beyond the end, `find` must find nothing, not even an empty text.
        low = max(low, start) if start > len(self) else low
        return self._start + low, self._start + high

    def _relative(self, found: int) -> int:
        return found if found < 0 else found - self._start
