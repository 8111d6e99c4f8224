"""The client of the worker that reads documents. Each document has a process of its own."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from rlm.documents.formats.frames import FrameError, read_piece
from rlm.documents.formats.piece import Ended, Piece, Text, Unreadable
from rlm.documents.formats.registry import DocumentFormat, format_of
from rlm.sandbox import ConfinedWorker, WorkerFailed, WorkerUnavailable

__all__ = ["Converter"]

_MEMORY_MB = 2048
_CONVERT = "rlm.documents.formats.worker:convert"
_CPU_SECONDS = 15.0
_CPU_SECONDS_PER_MB = 30.0
_MAX_CPU_SECONDS = 300
_SILENCE_SECONDS = 60.0
_TICK_SECONDS = 0.1
_UNCONFINED = (
    "PDF, DOCX, EPUB and HTML files were parsed without confinement: this machine gives no {layers}. "
    "Read only documents that you trust, or run rlm on Linux 5.13 or newer"
)
_MIN_TEXT = 64 << 20
_MAX_GROWTH = 200


class Converter:
    """Reads documents that are not plain text. A context manager: its processes end with it.

    A document's process is confined as `rlm.sandbox.ConfinedWorker` tells: it holds the open document and the
    socket of its pieces, and can open nothing else. The limits of a document are 15 s of CPU (`cpu_seconds`)
    and 30 s more for each MB, at most 300 s; 60 s without output; 2 GB of memory; and text of 200 times its
    size (at least 64 MB). With `pictures`, pages without text are pages too, because a model can look at
    them.
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

    def pieces(self, file: int, size: int, kind: str, tick: Callable[[], None]) -> Iterator[Piece]:
        """Yield the pieces of the document open at descriptor `file`; the last one is Ended.

        `tick` is called every 0.1 s of waiting, and may raise. Raises Unreadable, possibly after some pieces.
        """
        row = format_of(kind)
        cpu = int(min(self._cpu_seconds + size / (1 << 20) * _CPU_SECONDS_PER_MB, _MAX_CPU_SECONDS))
        room = max(_MIN_TEXT, _MAX_GROWTH * size)
        try:
            reader = (row.page_reader if self._pictures else "") or row.reader
            channel = self._worker.begin(_CONVERT, reader, files=[file], cpu_seconds=cpu)
        except WorkerUnavailable as error:
            raise Unreadable(f"{row.article}, but {error}", "save it as text yourself") from error
        except WorkerFailed as error:
            raise Unreadable(f"not readable ({error})", "save it as text yourself") from error
        if self._worker.level == 0:
            self.warning = _UNCONFINED.format(layers=", ".join(self._worker.refused))
        # Closing the channel kills a process that has not finished.
        with channel:
            yield from self._read(channel, row, room, tick)

    def _read(
        self, channel: socket.socket, row: DocumentFormat, room: int, tick: Callable[[], None]
    ) -> Iterator[Piece]:
        try:
            while True:
                piece = read_piece(lambda count: self._receive(channel, count, tick))
                if isinstance(piece, Unreadable):
                    raise piece
                if isinstance(piece, Text):
                    room -= len(piece.text)
                    if room < 0:
                        raise Unreadable(
                            f"{row.article} that grows beyond {_MAX_GROWTH} times its size (a bomb?)",
                            "save it as text yourself if you trust it",
                        )
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
