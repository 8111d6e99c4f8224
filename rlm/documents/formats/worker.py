"""The process that reads documents. Run as a program, it serves one open file after another until its socket
closes.

Parsers written in C process untrusted bytes here, so the process has no keys, little memory, and no files to
write.
"""

from __future__ import annotations

import importlib
import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from rlm.documents.formats.frames import packed
from rlm.documents.formats.piece import Piece, Unreadable
from rlm.sandbox import confine_parser

__all__ = ["serve"]

_BUFFER = 256 * 1024
_LONGEST_NAME = 256


def serve(channel: socket.socket, cpu_seconds: int) -> None:
    """Answer each request (a reader, with an open file) with the pieces of that file.

    The reader, `module:function`, is imported here, within the confinement. `cpu_seconds` is per file.
    """
    while True:
        reader, descriptors, _, _ = socket.recv_fds(channel, _LONGEST_NAME, 1)
        if not reader or not descriptors:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        with os.fdopen(descriptors[0], "rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            _answer(channel, reader.decode(), file, size)


def _load(reader: str) -> Callable[[BinaryIO, int], Iterator[Piece]]:
    module, _, function = reader.partition(":")
    loaded: Callable[[BinaryIO, int], Iterator[Piece]] = getattr(importlib.import_module(module), function)
    return loaded


def _answer(channel: socket.socket, reader: str, file: BinaryIO, size: int) -> None:
    waiting = bytearray()
    try:
        for piece in _load(reader)(file, size):
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
        # The boundary: a library that fails on a malformed file must not end the process.
        waiting += packed(
            Unreadable(f"not readable ({type(error).__name__})", "open it in its program and save it again")
        )
    channel.sendall(waiting)


def main() -> None:
    """Serve a socket. The arguments are its descriptor, the limit of memory in bytes, and of CPU in
    seconds."""
    number, memory, cpu_seconds = (int(argument) for argument in sys.argv[1:4])
    for kind, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        _, hard = resource.getrlimit(kind)
        held = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (held, held))
    confine_parser()
    with socket.socket(fileno=number) as channel:
        serve(channel, cpu_seconds)


if __name__ == "__main__":
    main()
