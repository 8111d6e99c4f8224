"""Reading of packed files (gzip, bzip2, xz, zstd), as a stream. A packed tar archive is read as its files."""

from __future__ import annotations

import bz2
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Protocol

from rlm.documents.formats.containers.tar import TAR_HEAD, is_tar, members_of_tar
from rlm.documents.formats.piece import Data, Ended, Member, Note, Piece, Unreadable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["read_bzip2", "read_gzip", "read_xz", "read_zstd"]

_BLOCK = 1 << 20
_INPUT = 128 * 1024
_MAGIC_BYTES = 6
_ERRORS = (zlib.error, OSError, EOFError, ValueError, MemoryError, lzma.LZMAError, zstd.ZstdError)


class _Decompressor(Protocol):
    """Unpacks one part of a packed file, a bounded piece at a time."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """A decompressor of gzip, which checks length and checksum."""

    def __init__(self) -> None:
        self._unpack = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._unpack.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpack.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        unpacked = self._unpack.decompress(self._unpack.unconsumed_tail + data, max_length)
        # A full piece may leave more in the buffer of zlib.
        self.needs_input = not self._unpack.unconsumed_tail and len(unpacked) < max_length
        return unpacked


def read_gzip(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what a gzip file holds. Raises Unreadable where it is damaged."""
    return _read(_Unpacked(file, "a gzip file", _Gzip, re.compile(rb"\x1f\x8b")))


def read_bzip2(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what a bzip2 file holds. Raises Unreadable where it is damaged."""
    return _read(_Unpacked(file, "a bzip2 file", bz2.BZ2Decompressor, re.compile(rb"BZh")))


def read_xz(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what an xz or lzma file holds. Raises Unreadable where it is damaged."""
    return _read(_Unpacked(file, "an xz file", lzma.LZMADecompressor, re.compile(rb"\xfd7zXZ\0")))


def read_zstd(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield what a zstd file holds. Raises Unreadable where it is damaged."""
    magic = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
    return _read(_Unpacked(file, "a zstd file", zstd.ZstdDecompressor, magic))


def _read(stream: _Unpacked) -> Iterator[Piece]:
    head = stream.peek(TAR_HEAD)
    if is_tar(head):
        yield from members_of_tar(stream, stream.what)
    else:
        yield Member("")
        while data := stream.read(_BLOCK):
            yield Data(data)
    if stream.is_followed:
        yield Note("what follows its end was not read, because it is not packed: unpack it yourself")
    yield Ended()


class _Unpacked:
    """The content of a packed file, read in order. `is_followed` says that foreign bytes follow its last
    part."""

    def __init__(
        self, file: BinaryIO, what: str, new: Callable[[], _Decompressor], magic: re.Pattern[bytes]
    ) -> None:
        self.what = what
        self.is_followed = False
        self._file = file
        self._new = new
        self._magic = magic
        self._blocks = self._unpack()
        self._waiting = bytearray()
        self._fault: Unreadable | None = None

    def peek(self, size: int) -> bytes:
        """Return the first `size` bytes that the next `read` gives."""
        self._fill(size)
        return bytes(self._waiting[:size])

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, and fewer at the end only. Raises Unreadable once what precedes the
        damage was given."""
        self._fill(size)
        data = bytes(self._waiting[:size])
        del self._waiting[:size]
        return data

    def _fill(self, size: int) -> None:
        while len(self._waiting) < size and self._fault is None:
            try:
                block = next(self._blocks, None)
            except _ERRORS as error:
                self._fault = self._describe(error)
                break
            if block is None:
                return
            self._waiting += block
        if self._fault is not None and not self._waiting:
            raise self._fault

    def _describe(self, error: Exception) -> Unreadable:
        if isinstance(error, EOFError):
            return Unreadable(f"{self.what} that ends early (truncated)", "get it again")
        if isinstance(error, MemoryError):
            return Unreadable(f"{self.what} that takes too much memory to unpack", "unpack it yourself")
        return Unreadable(f"{self.what} that is damaged", "get it again")

    def _unpack(self) -> Iterator[bytes]:
        data = self._file.read(_INPUT)
        while data:
            part = self._new()
            while not part.eof:
                if part.needs_input and not data:
                    data = self._file.read(_INPUT)
                    if not data:
                        raise EOFError
                unpacked = part.decompress(data, _BLOCK)
                data = b""
                if unpacked:
                    yield unpacked
            data = part.unused_data.lstrip(b"\0")
            while len(data) < _MAGIC_BYTES and (more := self._file.read(_INPUT)):
                data = (data + more).lstrip(b"\0")  # tapes are padded
            if data and not self._magic.match(data):
                self.is_followed = True
                return
