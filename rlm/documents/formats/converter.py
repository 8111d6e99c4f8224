"""The client of the worker that reads documents. Each document has a process of its own."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from types import TracebackType
from typing import Self

from rlm.documents.formats.frames import FrameError, read_piece
from rlm.documents.formats.piece import Data, Ended, Heading, Member, Page, Piece, Text, Unreadable
from rlm.documents.formats.registry import DocumentFormat, format_of
from rlm.lazy_dataclass import dataclass
from rlm.sandbox.worker.confined_worker import ConfinedWorker, WorkerFailed, WorkerUnavailable
from rlm.version import has_extra

__all__ = ["Converter", "Room"]

_MEMORY_MB = 2048
_CONVERT = "rlm.documents.formats.worker:convert"
_CPU_SECONDS = 15.0
_CPU_SECONDS_PER_MB = 30.0
_MAX_CPU_SECONDS = 300
_OCR_CPU_SECONDS = 3_600
"""Recognizing the words of a page takes seconds."""
_OCR_START_SECONDS = 120.0
_START_SECONDS = 30.0
_SILENCE_SECONDS = 60.0
_TICK_SECONDS = 0.1
_UNCONFINED = (
    "files that are not plain text (PDF, office files, mail, archives, …) were parsed without confinement: "
    "this machine gives no {layers}. "
    "Read only documents that you trust, or run rlm on Linux 5.13 or newer"
)
_MIN_TEXT = 64 << 20
_MIN_UNPACKED = 2 << 30
"""Bytes that a small container may hold: a log of many equal lines is packed to a 500th of its size."""
_MAX_GROWTH = 200
_MAX_MEMBERS = 100_000
_LEAST_PIECE = 16
"""Bytes that a piece without a text takes of its room."""


class Room:
    """What one file may grow to, with all that is in it: 200 times its size, but at least 64 MB of text, and
    2 GB of unpacked files; 100,000 documents. A file within another takes from the room of both."""

    def __init__(self, row: DocumentFormat, size: int, outer: Room | None = None) -> None:
        self._row = row
        self._left = max(_MIN_UNPACKED if row.is_container else _MIN_TEXT, _MAX_GROWTH * size)
        self._members = _MAX_MEMBERS
        self._outer = outer

    def take(self, piece: Piece) -> None:
        """Count a piece. Raises Unreadable if it is too much."""
        if isinstance(piece, Text):
            self._take(len(piece.text), 0)
        elif isinstance(piece, Data):
            self._take(len(piece.data), 0)
        elif isinstance(piece, Member):
            self._take(0, 1)
        else:
            # What a worker that was taken over could send without end.
            self._take(_LEAST_PIECE + (len(piece.title) if isinstance(piece, Heading) else 0), 0)

    def _take(self, size: int, members: int) -> None:
        self._left -= size
        self._members -= members
        if self._left < 0:
            raise Unreadable(
                f"{self._row.article} that grows beyond {_MAX_GROWTH} times its size (a bomb?)",
                "unpack it yourself if you trust it, and name the folder"
                if self._row.is_container
                else "save it as text yourself if you trust it",
            )
        if self._members < 0:
            raise Unreadable(
                f"{self._row.article} of more than {_MAX_MEMBERS:,} files",
                "unpack it and name the folders that matter",
            )
        if self._outer is not None:
            self._outer._take(size, members)


@dataclass(frozen=True, slots=True)
class _Job:
    """A document to be read: its open descriptor, its bytes, and what it may grow to."""

    file: int
    size: int
    row: DocumentFormat
    tick: Callable[[], None]
    room: Room


class Converter:
    """Reads documents that are not plain text. A context manager: its processes end with it.

    A document's process is confined as `ConfinedWorker` tells: it holds the open document and the
    socket of its pieces, and can open nothing else. The limits of a document are 15 s of CPU (`cpu_seconds`)
    and 30 s more for each MB, at most 300 s unless it is a container; 60 s without output; 2 GB of memory;
    and its `Room`. With `pictures`, pages without text are pages too, because a model can look at them.
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
        self.warning = ""
        """What the user must know about the confinement of what was read."""

    def pieces(
        self,
        file: int,
        size: int,
        kind: str,
        tick: Callable[[], None],
        room: Room | None = None,
    ) -> Generator[Piece]:
        """Yield the pieces of the document open at descriptor `file`; the last one is Ended.

        `tick` is called for each piece and every 0.1 s of waiting, and may raise. `room` bounds what comes;
        without it, the document has a room of its own. Raises Unreadable, possibly after some pieces.
        """
        row = format_of(kind)
        room = room or Room(row, size)
        job = _Job(file, size, row, tick, room)
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
        if not job.row.is_picture:
            is_new_page = False
            with closing(self._run(job, job.row.page_reader)) as pieces:
                for piece in pieces:
                    if is_new_page and isinstance(piece, Text) and not piece.text.strip():
                        break
                    if is_new_page:
                        yield Page()
                        done += 1
                    is_new_page = isinstance(piece, Page)
                    if not is_new_page:
                        yield piece
                        done += 1
                else:
                    return
        cpu = _OCR_CPU_SECONDS
        for piece in self._run(job, job.row.ocr_reader, cpu_seconds=cpu, start_seconds=_OCR_START_SECONDS):
            if done:
                done -= 1
            else:
                yield piece

    def _run(
        self, job: _Job, reader: str, *, cpu_seconds: int | None = None, start_seconds: float = _START_SECONDS
    ) -> Generator[Piece]:
        """Yield the pieces of one reader."""
        row = job.row
        if cpu_seconds is None:
            cpu = self._cpu_seconds + job.size / (1 << 20) * _CPU_SECONDS_PER_MB
            # Unpacking takes time by the size alone, which the room bounds.
            cpu_seconds = int(cpu if row.is_container else min(cpu, _MAX_CPU_SECONDS))
        try:
            channel = self._worker.begin(
                _CONVERT, reader, files=[job.file], cpu_seconds=cpu_seconds, seconds=start_seconds
            )
        except WorkerUnavailable as error:
            raise Unreadable(f"{row.article}, but {error}", "save it as text yourself") from error
        except WorkerFailed as error:
            remedy = "save it as text yourself"
            if row.package:
                remedy = f"update the package {row.package}, or install it without --editable"
            raise Unreadable(f"not readable ({error})", remedy) from error
        if self._worker.level == 0:
            self.warning = _UNCONFINED.format(layers=", ".join(self._worker.refused))
        # Closing the channel kills a process that has not finished.
        with channel:
            yield from self._read(channel, row, job.room, job.tick)

    def _read(
        self, channel: socket.socket, row: DocumentFormat, room: Room, tick: Callable[[], None]
    ) -> Iterator[Piece]:
        try:
            while True:
                piece = read_piece(lambda count: self._receive(channel, count, tick))
                if isinstance(piece, Unreadable):
                    raise piece
                room.take(piece)
                tick()
                yield piece
                if isinstance(piece, Ended):
                    return
        except (FrameError, EOFError, OSError) as error:
            raise Unreadable(
                f"{row.article} that crashed its reader (damaged, or malicious)",
                "open it in its program and save it again, or as text",
            ) from error

    @property
    def pid(self) -> int | None:
        """Return the process whose end ends every reader, or None if none runs."""
        return self._worker.pid

    def close(self) -> None:
        """End the processes. The next document starts a new one."""
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _receive(self, channel: socket.socket, count: int, tick: Callable[[], None]) -> bytes:
        data = bytearray()
        waiting = select.poll()
        waiting.register(channel, select.POLLIN)
        until = time.monotonic() + self._silence
        while len(data) < count:
            if not waiting.poll(_TICK_SECONDS * 1000):
                tick()
                if time.monotonic() > until:
                    raise Unreadable(
                        f"a document whose reader gave no output for {self._silence:g} s",
                        "open it in its program and save it again, or as text",
                    )
                continue
            piece = channel.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
            until = time.monotonic() + self._silence
        return bytes(data)
