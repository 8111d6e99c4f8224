"""Hashes the bytes of a body, and writes them, on a background thread."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

__all__ = ["BodyFile"]

_BATCH = 4 << 20
"""Bytes written at a time: each hand-over to the thread has a fixed cost."""
_LARGE_PIECES = 16
"""A batch of more pieces is joined first: each write and hash has a fixed cost."""
_AHEAD = 2
"""Batches that may wait for the thread."""


class BodyFile:
    """Works in its own thread, in parallel with the caller. A later call raises its errors.

    Without a file it only hashes: the body stays where it is.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._held: list[bytes] = []
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None
        self._in_flight: deque[Future[None]] = deque()

    def write(self, data: bytes) -> None:
        """Add bytes. Raises OSError of this or an earlier write."""
        self._held.append(data)
        self._size += len(data)
        if self._size < _BATCH:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "rlm-body")
        self._in_flight.append(self._thread.submit(self._put, self._held))
        self._held, self._size = [], 0
        # Bounded: only a few batches wait for a slow disk.
        while len(self._in_flight) > _AHEAD or (self._in_flight and self._in_flight[0].done()):
            self._in_flight.popleft().result()

    def finish(self) -> str:
        """Finish the rest, close the file and return the SHA-256 of all bytes."""
        while self._in_flight:
            self._in_flight.popleft().result()
        self._put(self._held)
        self._held = []
        self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """Stop the thread and close the file; pending batches are dropped. Raises OSError on a full disk."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
        self._in_flight.clear()
        if self._file is not None:
            self._file.close()

    def _put(self, pieces: list[bytes]) -> None:
        # Large pieces are not copied once more.
        batch = [b"".join(pieces)] if len(pieces) > _LARGE_PIECES else pieces
        for piece in batch:
            self._digest.update(piece)
            if self._file is not None:
                self._file.write(piece)
