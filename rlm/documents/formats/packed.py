"""Reading of packed files (gzip, bzip2, xz, zstd), as a stream. A packed tar archive is read as its files."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any, BinaryIO

from rlm.documents.formats.archives import is_tar, members_of_tar
from rlm.documents.formats.piece import Data, Ended, Fault, Member, Piece

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["read_bzip2", "read_gzip", "read_xz", "read_zstd"]

_BLOCK = 1 << 20
_INPUT = 128 * 1024


def read_gzip(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what a gzip file holds."""
    return _read(_unpacked(file, _GzipPart))


def read_bzip2(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what a bzip2 file holds."""
    return _read(_unpacked(file, bz2.BZ2Decompressor))


def read_xz(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what an xz or lzma file holds."""
    return _read(_unpacked(file, lzma.LZMADecompressor))


def read_zstd(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what a zstd file holds."""
    return _read(_unpacked(file, zstd.ZstdDecompressor))


def _read(blocks: Iterator[bytes]) -> Iterator[Piece]:
    try:
        head = next(blocks, b"")
        blocks = chain([head], blocks)
        if is_tar(head):
            yield from members_of_tar(SimpleNamespace(read=lambda _: next(blocks, b"")))
        else:
            yield Member("")
            yield from map(Data, blocks)
    except EOFError as error:
        raise Fault("damaged", "it ends early", "get it again") from error
    yield Ended()


class _GzipPart:
    """A decompressor of gzip with the methods of the others. GzipFile gives blocks of a few kilobytes."""

    def __init__(self) -> None:
        self._part = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self.needs_input = True

    def decompress(self, data: bytes, most: int) -> bytes:
        block = self._part.decompress(self._part.unconsumed_tail + data, most)
        # After a full block there may be more, also without any input.
        self.needs_input = len(block) < most and not self._part.unconsumed_tail
        return block

    @property
    def eof(self) -> bool:
        return self._part.eof

    @property
    def unused_data(self) -> bytes:
        return self._part.unused_data


def _unpacked(file: BinaryIO, new: Callable[[], Any]) -> Iterator[bytes]:
    """Yield the content of one part after the other, in blocks of bounded size. The streams of the standard
    library skip silently what follows the last part."""
    data = file.read(_INPUT)
    while data:
        part = new()
        while not part.eof:
            if part.needs_input and not data and not (data := file.read(_INPUT)):
                raise EOFError
            if block := part.decompress(data, _BLOCK):
                yield block
            data = b""
        data = part.unused_data.lstrip(b"\0")  # tapes are padded
        while not data and (more := file.read(_INPUT)):
            data = more.lstrip(b"\0")
