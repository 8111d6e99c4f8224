"""The asking side: one process for all the files of a loading, killed when it hangs, renewed when it dies."""

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
    """Reads documents that are no plain text. Used as a context manager: its process ends with it.

    A document may take 300 s of computing, 60 s without a word, 2 GB of memory, and grow to 200 times its
    size (64 MB are free).
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
        """The pieces of the document open at descriptor `file`, the last one Ended. `tick` is called every
        0.1 s of waiting, and may raise. Raises Unreadable, perhaps after some pieces have been given."""
        row = format_of(kind)
        room = max(_MIN_TEXT, _MAX_GROWTH * size)
        finished = False
        try:
            channel = self._started()
            socket.send_fds(channel, [row.reader.encode()], [file])
            while not finished:
                piece = read_piece(lambda count: self._exactly(channel, count, tick))
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
                f"{row.article} on which its reader broke down (damaged, or made to do so)",
                "open it in its program and save it anew, or as text",
            ) from error
        finally:
            # In the middle of an answer, what comes next belongs to this document.
            if not finished:
                self.close()

    def close(self) -> None:
        """End the process. It starts again when it is needed."""
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

    def _started(self) -> socket.socket:
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
                # Nothing of the environment but where the code is: no key is in reach of a parser.
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd="/",
            )
        self._channel = ours
        return ours

    def _exactly(self, channel: socket.socket, count: int, tick: Callable[[], None]) -> bytes:
        data = bytearray()
        waiting = select.poll()
        waiting.register(channel, select.POLLIN)
        until = time.monotonic() + self._silence
        while len(data) < count:
            if not waiting.poll(_TICK_SECONDS * 1000):
                tick()
                if time.monotonic() > until:
                    raise Unreadable(
                        f"a document on which its reader was silent for {self._silence:g} s",
                        "open it in its program and save it anew, or as text",
                    )
                continue
            piece = channel.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
            until = time.monotonic() + self._silence
        return bytes(data)
