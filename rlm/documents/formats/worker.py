"""The process that reads formats: run as a program, it serves one open file after another until its socket
ends. Parsers written in C see bytes of strangers here: there is no key, little memory, no file to write."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

from rlm.documents.formats.docx import read_docx
from rlm.documents.formats.epub import read_epub
from rlm.documents.formats.frames import packed
from rlm.documents.formats.html import read_html
from rlm.documents.formats.pdf import read_pdf
from rlm.documents.formats.piece import Piece, Unreadable
from rlm.sandbox import confine_parser

__all__ = ["READERS", "serve"]

READERS: dict[str, Callable[[BinaryIO, int], Iterator[Piece]]] = {
    "pdf": read_pdf,
    "docx": read_docx,
    "epub": read_epub,
    "html": read_html,
}

_BUFFER = 256 * 1024


def serve(channel: socket.socket, cpu_seconds: int) -> None:
    """Answer each request (a kind, with an open file) with the pieces of that file."""
    while True:
        kind, descriptors, _, _ = socket.recv_fds(channel, 16, 1)
        if not kind or not descriptors:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + cpu_seconds
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        with os.fdopen(descriptors[0], "rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            _answer(channel, READERS[kind.decode()], file, size)


def _answer(
    channel: socket.socket, reader: Callable[[BinaryIO, int], Iterator[Piece]], file: BinaryIO, size: int
) -> None:
    waiting = bytearray()
    try:
        for piece in reader(file, size):
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
        # The boundary: a library that trips over a strange file must not end the process.
        waiting += packed(
            Unreadable(f"not readable ({type(error).__name__})", "open it in its program and save it anew")
        )
    channel.sendall(waiting)


def main() -> None:
    """Serve the socket whose number is the first argument, with so many bytes of memory and CPU seconds."""
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
