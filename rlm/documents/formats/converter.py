"""The client of the worker that reads documents. Each has a process of its own, but for small ones whose
reader is memory-safe: these are read in one process, one after another."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import NamedTuple, Self

from rlm.documents.formats.frames import ELSEWHERE, FrameError, packed, read_piece
from rlm.documents.formats.members import Nesting
from rlm.documents.formats.piece import Data, Ended, Fault, NotRead, Page, Piece, Text
from rlm.documents.formats.registry import DocumentFormat, format_of
from rlm.sandbox.launch.confined_worker import ConfinedWorker, WorkerFailed, WorkerUnavailable
from rlm.version import has_extra

__all__ = ["Converter"]

_MEMORY_MB = 2048
_CONVERT = "rlm.documents.formats.worker:convert"
_CONVERT_SEVERAL = "rlm.documents.formats.worker:convert_several"
_SMALL = 64 << 10
"""Bytes of a document that may share a process. Starting one takes longer than reading 20 of them."""
_MOST_SHARING = 32
"""Documents of a process: what one of them does to it can change those after it."""
_SHARED_CPU_SECONDS = 2
_MOST_ANSWERED = 1 << 20
"""Bytes of the pieces of a small document, which are held until its end."""
_CPU_SECONDS = 15.0
_CPU_SECONDS_PER_MB = 30.0
_MAX_CPU_SECONDS = 300
_OCR_CPU_SECONDS = 3_600
"""Recognizing the words of a page takes seconds."""
_START_SECONDS, _OCR_START_SECONDS = 30.0, 120.0
_SILENCE_SECONDS = 60.0
_TICK_SECONDS = 0.1
_UNCONFINED = (
    "files that are not plain text (PDF, office files, mail, archives, …) were parsed without confinement: "
    "this machine gives no {layers}. "
    "Read only documents that you trust, or run rlm on Linux 5.13 or newer"
)
_AS_TEXT = "open it in its program and save it again, or as text"


class _Job(NamedTuple):
    """A document to be read: its open descriptor, its bytes, and what it may grow to."""

    file: int
    size: int
    row: DocumentFormat
    tick: Callable[[], None]
    nesting: Nesting


class Converter:
    """Reads documents that are not plain text. A context manager: its processes end with it.

    A document's process is confined as `ConfinedWorker` tells: it holds the open document and the
    socket of its pieces, and can open nothing else. The limits of a document are 15 s of CPU (`cpu_seconds`)
    and 30 s more for each MB, at most 300 s unless it is a container; 60 s without output; 2 GB of memory;
    and its `Nesting`.

    Up to 32 small documents (64 kB) of a format that `shares_process` are read in one process, one after
    another. One that is not read whole there within 2 s is read again in its own, which tells why.

    With `pictures`, pages without text are pages too, because a model can look at them.
    Without, and with the extra `ocr`, the words on pages without text are recognized, in an hour of CPU.
    """

    def __init__(
        self,
        *,
        memory_mb: int = _MEMORY_MB,
        cpu_seconds: float = _CPU_SECONDS,
        silence: float = _SILENCE_SECONDS,
        pictures: bool = False,
    ) -> None:
        self._pictures = pictures
        self._worker = ConfinedWorker(memory_mb=memory_mb)
        self._cpu_seconds = cpu_seconds
        self._silence = silence
        self._shared: dict[str, tuple[socket.socket, int]] = {}
        """By reader: the channel of a process, and how many documents it may still read."""
        self.warning = ""
        """What the user must know about the confinement of what was read."""

    def pieces(
        self, file: int, size: int, kind: str, tick: Callable[[], None], nesting: Nesting | None = None
    ) -> Generator[Piece]:
        """Yield the pieces of the document open at descriptor `file`; the last one is Ended.

        `tick` is called for each piece and every 0.1 s of waiting, and may raise. `nesting` bounds what
        comes. Raises NotRead, possibly after some pieces.
        """
        row = format_of(kind)
        job = _Job(file, size, row, tick, nesting or Nesting(row, size))
        if row.ocr_reader and not self._pictures and has_extra("ocr"):
            yield from self._recognized(job)
        else:
            yield from self._run(job, (row.page_reader if self._pictures else "") or row.reader)

    def _recognized(self, job: _Job) -> Iterator[Piece]:
        """Yield the pieces of a document in whose pages words are recognized.

        The models take seconds to load, so they are loaded at the first page without text. Then the document
        is read once more, and what was read is skipped.
        """
        done = 0
        if job.row.reader:
            page: list[Piece] = []
            with closing(self._run(job, job.row.page_reader)) as pieces:
                for piece in pieces:
                    if page and isinstance(piece, Text) and not piece.text.strip():
                        break
                    yield from page
                    done += len(page)
                    page = [piece] if isinstance(piece, Page) else []
                    if not page:
                        yield piece
                        done += 1
                else:
                    return
        for number, piece in enumerate(self._run(job, job.row.ocr_reader, is_slow=True)):
            if number >= done:
                yield piece

    def _run(self, job: _Job, reader: str, *, is_slow: bool = False) -> Generator[Piece]:
        """Yield the pieces of one reader."""
        row = job.row
        if row.shares_process and job.size <= _SMALL and (pieces := self._read_shared(job, reader)):
            for piece in pieces:
                job.nesting.count(piece)
                job.tick()
                yield piece
            return
        cpu = self._cpu_seconds + job.size / (1 << 20) * _CPU_SECONDS_PER_MB
        # Unpacking takes time by the size alone, which the nesting bounds.
        seconds = int(cpu if row.is_container else min(cpu, _MAX_CPU_SECONDS))
        start = _OCR_START_SECONDS if is_slow else _START_SECONDS
        # Closing the channel kills a process that has not finished.
        with self._begin(
            _CONVERT, reader, row, _OCR_CPU_SECONDS if is_slow else seconds, start, files=[job.file]
        ) as channel:
            yield from self._read(channel, job)

    def _begin(
        self,
        function: str,
        reader: str,
        row: DocumentFormat,
        cpu_seconds: int,
        seconds: float,
        files: Sequence[int] = (),
    ) -> socket.socket:
        """Start a process and return its channel. Raises NotRead."""
        try:
            channel = self._worker.begin(
                function, reader, files=files, cpu_seconds=cpu_seconds, seconds=seconds
            )
        except WorkerUnavailable as error:
            raise NotRead(f"{row.article}, but {error}", "save it as text yourself") from error
        except WorkerFailed as error:
            remedy = "save it as text yourself"
            if row.package:
                remedy = f"update the package {row.package}, or install it without --editable"
            raise NotRead(f"not readable ({error})", remedy) from error
        if self._worker.level == 0:
            self.warning = _UNCONFINED.format(layers=", ".join(self._worker.refused))
        return channel

    def _read_shared(self, job: _Job, reader: str) -> list[Piece]:
        """Return the pieces of a small document, from a process that reads others, too. Returns nothing if it
        is not read to its end: a process of its own then tells why. Raises NotRead if none starts."""
        channel, left = self._shared.pop(reader, (None, _MOST_SHARING))
        if channel is None:
            channel = self._begin(_CONVERT_SEVERAL, reader, job.row, _SHARED_CPU_SECONDS, _START_SECONDS)
        pieces: list[Piece] = []
        rest = _MOST_ANSWERED

        def receive(count: int) -> bytes:
            nonlocal rest
            rest -= count
            if rest < 0:
                raise FrameError
            return self._receive(channel, count, job.tick)

        with ExitStack() as failing:
            failing.enter_context(channel)
            try:
                channel.settimeout(self._silence)
                data = os.pread(job.file, job.size, 0)
                if not data:
                    return []  # cut since it was listed
                channel.sendall(packed(Data(data)))
                while not pieces or not isinstance(pieces[-1], Ended):
                    piece = read_piece(receive)
                    if isinstance(piece, Fault):
                        pieces.clear()
                        if piece.name != ELSEWHERE:
                            return []
                        break
                    pieces.append(piece)
            except (FrameError, EOFError, OSError, NotRead):
                return []
            if left > 1:
                failing.pop_all()
                self._shared[reader] = channel, left - 1
        return pieces

    def _read(self, channel: socket.socket, job: _Job) -> Iterator[Piece]:
        try:
            while True:
                piece = read_piece(lambda count: self._receive(channel, count, job.tick))
                if isinstance(piece, Fault):
                    raise piece.of(job.row.article)
                job.nesting.count(piece)
                job.tick()
                yield piece
                if isinstance(piece, Ended):
                    return
        except (FrameError, EOFError, OSError) as error:
            what = f"{job.row.article} that crashed its reader (damaged, or malicious)"
            raise NotRead(what, _AS_TEXT) from error

    def _receive(self, channel: socket.socket, count: int, tick: Callable[[], None]) -> bytes:
        data = bytearray()
        waiting = select.poll()
        waiting.register(channel, select.POLLIN)
        until = time.monotonic() + self._silence
        while len(data) < count:
            if not waiting.poll(_TICK_SECONDS * 1000):
                tick()
                if time.monotonic() > until:
                    raise NotRead(f"a document whose reader gave no output for {self._silence:g} s", _AS_TEXT)
                continue
            piece = channel.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
            until = time.monotonic() + self._silence
        return bytes(data)

    @property
    def pid(self) -> int | None:
        """Return the process whose end ends every reader, or None if none runs."""
        return self._worker.pid

    def close(self) -> None:
        """End the processes. The next document starts a new one."""
        while self._shared:
            self._shared.popitem()[1][0].close()
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
