"""A window of mapped bytes that behaves as bytes, without a copy."""

from __future__ import annotations

import mmap
from typing import Any

from .watched_file import WatchedFile

__all__ = ["BodyWindow"]


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
