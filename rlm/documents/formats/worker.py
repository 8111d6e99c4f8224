"""Reads documents in a confined process: the pieces of an open file go over a socket.

Parsers written in C process untrusted bytes here. The process can open nothing, so a reader imports at the
top of its module, and `prepare` has all encodings imported before.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import BinaryIO, NoReturn

from rlm.documents.encoding import prepare_encodings
from rlm.documents.formats.frames import ELSEWHERE, packed, read_piece
from rlm.documents.formats.piece import Data, Fault, Piece, Text

__all__ = ["convert", "convert_several", "prepare"]

_BUFFER = 256 * 1024


class _OutOfTime(BaseException):
    """The limit of CPU time was reached. No `except Exception` of a reader catches it."""


class _PageFound(BaseException):
    """A document that shares its process holds HTML. No `except Exception` of a reader catches it."""


def prepare(reader: str) -> None:
    """Import the module of `reader` (`module:function`). Its own `prepare()` tries what a library loads only
    when it is used."""
    prepare_encodings()
    prepare_reader = getattr(_module(reader), "prepare", None)
    if prepare_reader is not None:
        prepare_reader()


def convert(reader: str, channel: socket.socket, files: list[int]) -> None:
    """Send the pieces of the document that is open as the first of `files`."""
    signal.signal(signal.SIGXCPU, _stop)
    with os.fdopen(files[0], "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        _answer(channel, reader, file, size)


def convert_several(reader: str, channel: socket.socket, files: list[int]) -> None:
    """Send the pieces of each document that comes over the channel, one after another.

    The parser of pages does not run: a flaw of it, which is written in C, would let a document change those
    after it."""
    signal.signal(signal.SIGXCPU, _stop)
    if html := sys.modules.get("rlm.documents.formats.html"):
        vars(html)["parse"] = _refuse_page
    with channel.makefile("rb") as documents:
        while documents.peek(1):
            document = read_piece(documents.read)
            assert isinstance(document, Data)
            _answer(channel, reader, io.BytesIO(document.data), len(document.data))


def _refuse_page(markup: str) -> NoReturn:
    raise _PageFound


def _stop(*_: object) -> NoReturn:
    raise _OutOfTime


def _module(reader: str) -> ModuleType:
    return importlib.import_module(reader.partition(":")[0])


def _answer(channel: socket.socket, reader: str, file: BinaryIO, size: int) -> None:
    read: Callable[..., Iterator[Piece]] = getattr(_module(reader), reader.partition(":")[2])
    sender = _Sender(channel)
    # The boundary: whatever a library raises on a malformed file is told, and does not end the process.
    try:
        for piece in read(file, size):
            sender.add(piece)
    except BrokenPipeError:
        return
    except Fault as fault:
        sender.add(fault)
    except _PageFound:
        sender.add(Fault(ELSEWHERE))
    except _OutOfTime:
        sender.add(Fault("slow"))
    except MemoryError:
        sender.add(Fault("large", "it needs too much memory"))
    except RecursionError:
        sender.add(Fault("deep"))
    except BaseException as error:
        # A library in Rust raises a BaseException when it panics.
        if isinstance(error, SystemExit | KeyboardInterrupt):
            raise
        sender.add(Fault("damaged" if isinstance(error, Exception) else "strange", type(error).__name__))
    sender.flush()


class _Sender:
    """Sends pieces in blocks of about 256 kB. Texts that follow each other, such as the rows of a table, are
    sent as one."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._texts: list[str] = []
        self._chars = 0
        self._frames = bytearray()

    def add(self, piece: Piece | Fault) -> None:
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
