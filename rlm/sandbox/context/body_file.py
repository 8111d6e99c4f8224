"""Counts the characters and lines of a body, and hashes and writes its bytes on a background thread."""

from __future__ import annotations

import codecs
import hashlib
from array import array
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

from rlm.sandbox.text.checkpoints import BLOCK, count_line_ends

__all__ = ["BodyFile"]

_BATCH = 4 << 20
"""Bytes written at a time: each hand-over to the thread has a fixed cost."""
_LARGE_PIECES = 16
"""A batch of more pieces is joined first: each write and hash has a fixed cost."""
_AHEAD = 2
"""Batches that may wait for the thread."""


class BodyFile:
    """The body that is being written. `char_marks` and `line_marks` are its checkpoints.

    Hashes and writes in its own thread, in parallel with the caller. A later call raises its errors. Without
    a file it only hashes: the body stays where it is.
    """

    def __init__(self, file: IO[bytes] | None) -> None:
        self.bytes = self.chars = self.lines = 0
        self.char_marks, self.line_marks = array("Q", [0]), array("Q", [0])
        self.ends_line = True
        self._file = file
        self._digest = hashlib.sha256()
        self._held: list[bytes] = []
        self._size = 0
        self._thread: ThreadPoolExecutor | None = None
        self._in_flight: deque[Future[None]] = deque()

    def write(self, data: bytes, *, final: bool = True) -> int:
        """Add the whole characters of UTF-8 and return how many bytes they have. If `final`, none may be cut.

        Raises UnicodeDecodeError, and then adds nothing. Raises OSError of this or an earlier write.
        """
        view, is_ascii = memoryview(data), data.isascii()
        at, chars, lines = 0, self.chars, self.lines
        marks: list[tuple[int, int]] = []
        # Goes block by block, which stays in the processor's cache.
        for edge in range(BLOCK - self.bytes % BLOCK, len(data) + BLOCK, BLOCK):
            stop = min(edge, len(data))
            if is_ascii:
                size = used = stop - at
            else:
                text, used = codecs.utf_8_decode(view[at:stop], "strict", final and stop == len(data))
                size = len(text)
            chars += size
            lines += count_line_ends(data[at : at + used])
            at += used
            if at == edge or stop < len(data):
                # A character that is cut by the edge counts to the block before it.
                marks.append((chars + (at < edge), lines))
        self.bytes, self.chars, self.lines = self.bytes + at, chars, lines
        self.char_marks.extend(chars for chars, _ in marks)
        self.line_marks.extend(lines for _, lines in marks)
        if at:
            self.ends_line = data[at - 1] == ord("\n")
            self._hand_over(data if at == len(data) else data[:at])
        return at

    def _hand_over(self, data: bytes) -> None:
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
