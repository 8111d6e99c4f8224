"""The file of a body while it is being written."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

__all__ = ["BodyFile"]

_BATCH = 4 << 20
"""Bytes written at a time: each of the thread's steps waits for its turn, however small it is."""
_AHEAD = 2
"""Batches that may wait to be written."""


class BodyFile:
    """Writes and digests on a thread of its own: half of the work of a large body, beside the other half.
    What fails there is raised by a later call."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._held: list[bytes] = []
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[None]] = deque()

    def write(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        if self._size < _BATCH:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "rlm-body")
        self._under_way.append(self._thread.submit(self._put, self._held))
        self._held, self._size = [], 0
        # Bounded: no more than a few pieces wait for a slow disk.
        while len(self._under_way) > _AHEAD or (self._under_way and self._under_way[0].done()):
            self._under_way.popleft().result()

    def finish(self) -> str:
        """Write the rest and close; the digest of all."""
        while self._under_way:
            self._under_way.popleft().result()
        self._put(self._held)
        self._held = []
        self._file.close()
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """End the thread and close the file, whatever is unwritten. Raises OSError on a full disk."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
        self._under_way.clear()
        self._file.close()

    def _put(self, pieces: list[bytes]) -> None:
        batch = b"".join(pieces)
        self._digest.update(batch)
        self._file.write(batch)
