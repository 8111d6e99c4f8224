"""A user's file that is read in place, and the facts by which a change of it is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Self

from rlm.sandbox.errors import SourceChanged

__all__ = ["SourceFacts", "SourceFile", "samples"]

_PIECE = 1 << 20
_SAMPLES = 64
_SAMPLE = 4_096
_PAUSE = 10
"""After a whole comparison, the next one waits this many times as long as the comparison took."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts of a file when it was indexed. `samples` is the hash of 64 places of its text.

    A program that changes the text and sets the old modification time again still changes `ctime_ns`. A
    change of the text leaves all facts alone only if the file system does not note it: a write through a
    mapping that was open before, or a wrong clock. The samples find most of those.
    """

    path: str
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    samples: str

    @classmethod
    def of(cls, path: str, descriptor: int) -> Self:
        """Return the facts of an open file. Raises OSError."""
        stamp = _stamp(os.fstat(descriptor))
        return cls(path, *stamp, samples(descriptor, stamp[0]))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return stored facts. Raises ValueError, KeyError or TypeError."""
        return cls(**json.loads(text))

    def to_json(self) -> str:
        """Return the facts for a file."""
        return json.dumps(asdict(self))

    @property
    def stamp(self) -> tuple[int, ...]:
        """Return all facts that the system tells."""
        return self.size, self.mtime_ns, self.ctime_ns, self.inode, self.device

    def hold_for(self, descriptor: int) -> bool:
        """Return whether an open file has these facts and samples. Raises OSError."""
        status = os.fstat(descriptor)
        return _stamp(status) == self.stamp and samples(descriptor, self.size) == self.samples


class SourceFile:
    """The indexed part of an open file, as bytes. Safe to use from several threads.

    Each read is followed by a look at the system's facts of the file. If they changed, the whole indexed part
    is hashed. A file that only grew, or was renamed, removed or touched, is still what was indexed. Any other
    change raises SourceChanged, also in later calls. If a program writes all the time, the hash is taken less
    often, and always by `check`.
    """

    def __init__(self, descriptor: int, facts: SourceFacts, sha256: str) -> None:
        self._facts = facts
        self._sha256 = sha256
        self._size = facts.size
        self._seen = facts.stamp
        self._next = 0.0
        self._lock = threading.Lock()
        self._is_changed = False
        self.check_identity(descriptor, facts)
        self._descriptor = os.dup(descriptor)
        # Not closed earlier: another thread could read a file that got the same number.
        weakref.finalize(self, os.close, self._descriptor)
        self.check()

    def read(self, low: int, high: int) -> bytes:
        """Return bytes of the indexed text. Raises SourceChanged."""
        data = b"".join(_pieces(self._descriptor, low, high))
        if len(data) < high - low:
            raise self._changed("was cut off")
        # After the read: the bytes are right if nothing had changed by now.
        self._compare()
        return data

    @staticmethod
    def check_identity(descriptor: int, facts: SourceFacts) -> None:
        """Raise SourceChanged if an open file is another one than `facts` describe."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or (status.st_ino, status.st_dev) != (facts.inode, facts.device):
            raise SourceChanged(facts.path, "was replaced")

    @property
    def has_grown_or_moved(self) -> bool:
        """Whether the file was written, renamed or removed, while the indexed text is still the same."""
        return self._stamp() != self._facts.stamp

    def check(self) -> None:
        """Raise SourceChanged if the file is no longer what was indexed."""
        self._compare(is_due=True)
        if samples(self._descriptor, self._facts.size) != self._facts.samples and not self._is_same():
            raise self._changed("changed")

    def _compare(self, *, is_due: bool = False) -> None:
        if self._is_changed:
            raise self._changed("changed")
        now = self._stamp()
        if now == self._seen:
            return
        if now[0] < self._size:
            raise self._changed("was cut off")
        with self._lock:
            if now == self._seen or (time.monotonic() < self._next and not is_due):
                return
            began = time.monotonic()
            if not self._is_same():
                raise self._changed("changed")
            self._seen = now
            self._next = time.monotonic() + _PAUSE * (time.monotonic() - began)

    def _is_same(self) -> bool:
        """Return whether the indexed text is the same. Reads all of it."""
        digest = hashlib.sha256()
        for piece in _pieces(self._descriptor, 0, self._size):
            digest.update(piece)
        return digest.hexdigest() == self._sha256

    def _stamp(self) -> tuple[int, ...]:
        return _stamp(os.fstat(self._descriptor))

    def _changed(self, how: str) -> SourceChanged:
        self._is_changed = True
        return SourceChanged(self._facts.path, how)


def _stamp(status: os.stat_result) -> tuple[int, int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev


def samples(descriptor: int, size: int) -> str:
    """Return the hash of the begin, the end and 62 places between of an open file of `size` bytes."""
    digest = hashlib.sha256()
    for number in range(_SAMPLES):
        at = max(0, size - _SAMPLE) * number // (_SAMPLES - 1)
        digest.update(os.pread(descriptor, min(_SAMPLE, size - at), at))
    return digest.hexdigest()


def _pieces(descriptor: int, start: int, stop: int) -> Iterator[bytes]:
    """Yield the bytes from `start` to `stop`, fewer at the end of the file."""
    while start < stop and (piece := os.pread(descriptor, min(_PIECE, stop - start), start)):
        yield piece
        start += len(piece)
