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
from rlm.documents.formats.piece import Piece, Unreadable

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
    waiting = bytearray()
    try:
        for piece in read(file, size):
            waiting += packed(piece)
            if len(waiting) >= _BUFFER:
                channel.sendall(waiting)
                waiting.clear()
    except Unreadable as unreadable:
        waiting += packed(unreadable)
    except MemoryError:
        waiting += packed(
            Unreadable("too large to be read in the memory allowed", "split it, or save it as text")
        )
    except BrokenPipeError:
        return
    except Exception as error:
        # The boundary: a library that fails on a malformed file must be reported, not end the process.
        waiting += packed(
            Unreadable(f"not readable ({type(error).__name__})", "open it in its program and save it again")
        )
    channel.sendall(waiting)
