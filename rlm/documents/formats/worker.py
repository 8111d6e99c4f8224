"""Reads one document in a confined process: the pieces of an open file go over a socket.

Parsers written in C process untrusted bytes here. The process can open nothing, so `prepare` imports all that
a reader may need before.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import BinaryIO, NoReturn

from rlm.documents.formats.frames import packed
from rlm.documents.formats.piece import Piece, Text, Unreadable

__all__ = ["convert", "prepare"]

_BUFFER = 256 * 1024


def prepare(reader: str) -> None:
    """Import the module of `reader` (`module:function`), and let its own `prepare()` import the rest."""
    prepare_reader = getattr(_module(reader), "prepare", None)
    if prepare_reader is not None:
        prepare_reader()


def convert(reader: str, channel: socket.socket, files: list[int]) -> None:
    """Send the pieces of the document that is open as the first of `files`."""
    signal.signal(signal.SIGXCPU, _refuse)
    with os.fdopen(files[0], "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        _answer(channel, reader, file, size)


def _refuse(*_: object) -> NoReturn:
    raise Unreadable(
        "too complex for its size: it takes too long to read",
        "open it in its program and save it as text",
    )


def _module(reader: str) -> ModuleType:
    return importlib.import_module(reader.partition(":")[0])


def _answer(channel: socket.socket, reader: str, file: BinaryIO, size: int) -> None:
    read: Callable[..., Iterator[Piece]] = getattr(_module(reader), reader.partition(":")[2])
    sender = _Sender(channel)
    try:
        for piece in read(file, size):
            sender.add(piece)
    except Unreadable as unreadable:
        sender.add(unreadable)
    except MemoryError:
        sender.add(Unreadable("too large to be read in the memory allowed", "split it, or save it as text"))
    except BrokenPipeError:
        return
    except Exception as error:
        # The boundary: a library that fails on a malformed file must be reported, not end the process.
        fault = f"not readable ({type(error).__name__})"
        sender.add(Unreadable(fault, "open it in its program and save it again"))
    sender.flush()


class _Sender:
    """Sends pieces in blocks of about 256 kB. Texts that follow each other, such as the rows of a table, are
    sent as one."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._texts: list[str] = []
        self._chars = 0
        self._frames = bytearray()

    def add(self, piece: Piece | Unreadable) -> None:
        if isinstance(piece, Text):
            self._texts.append(piece.text)
            self._chars += len(piece.text)
        else:
            self._pack_texts()
            self._frames += packed(piece)
        if self._chars + len(self._frames) >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        self._pack_texts()
        self._channel.sendall(self._frames)
        self._frames.clear()

    def _pack_texts(self) -> None:
        if self._texts:
            self._frames += packed(Text("".join(self._texts)))
            self._texts.clear()
            self._chars = 0
