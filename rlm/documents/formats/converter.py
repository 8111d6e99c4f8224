"""The client of the worker process. One process reads all files of a `load`; it is killed if it hangs, and
restarted if it dies."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from rlm.documents.formats.frames import FrameError, read_piece
from rlm.documents.formats.piece import Ended, Piece, Text, Unreadable
from rlm.documents.formats.registry import format_of

__all__ = ["Converter"]

_MEMORY = 2 << 30
_CPU_SECONDS = 300
_SILENCE_SECONDS = 60.0
_TICK_SECONDS = 0.1
_MIN_TEXT = 64 << 20
_MAX_GROWTH = 200


class Converter:
    """Reads documents that are not plain text. A context manager: its process ends with it.

    The limits of a document are 300 s of CPU, 60 s without output, 2 GB of memory, and text of 200 times its
    size (at least 64 MB).
    """

    def __init__(
        self, *, memory: int = _MEMORY, cpu_seconds: int = _CPU_SECONDS, silence: float = _SILENCE_SECONDS
    ) -> None:
        self._memory = memory
        self._cpu_seconds = cpu_seconds
        self._silence = silence
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def pieces(self, file: int, size: int, kind: str, tick: Callable[[], None]) -> Iterator[Piece]:
        """Yield the pieces of the document open at descriptor `file`; the last one is Ended.

        `tick` is called every 0.1 s of waiting, and may raise. Raises Unreadable, possibly after some pieces.
        """
        row = format_of(kind)
        room = max(_MIN_TEXT, _MAX_GROWTH * size)
        finished = False
        try:
            channel = self._start()
            socket.send_fds(channel, [row.reader.encode()], [file])
            while not finished:
                piece = read_piece(lambda count: self._receive(channel, count, tick))
                if isinstance(piece, Unreadable):
                    finished = True
                    raise piece
                if isinstance(piece, Text):
                    room -= len(piece.text)
                    if room < 0:
                        raise Unreadable(
                            f"{row.article} that grows beyond {_MAX_GROWTH} times its size (a bomb?)",
                            "save it as text yourself if you trust it",
                        )
                finished = isinstance(piece, Ended)
                yield piece
        except (FrameError, EOFError, OSError) as error:
            raise Unreadable(
                f"{row.article} that crashed its reader (damaged, or malicious)",
                "open it in its program and save it again, or as text",
            ) from error
        finally:
            # The rest of an unfinished answer would be read as the next document's.
            if not finished:
                self.close()

    def close(self) -> None:
        """End the process. The next document starts a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> socket.socket:
        if self._channel is not None:
            return self._channel
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "rlm.documents.formats.worker",
                    str(theirs.fileno()),
                    str(self._memory),
                    str(self._cpu_seconds),
                ],
                # Of the environment only the path of the code: parsers must not reach keys.
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
            )
        self._channel = ours
        return ours

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
