"""Reading of the files in a 7z archive, with py7zr (an extra)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rlm.documents.formats.piece import Data, Ended, Fault, Member, Piece
from rlm.version import has_extra, install_command

try:
    import py7zr
    from py7zr import py7zr as implementation
    from py7zr.exceptions import PasswordRequired
    from py7zr.io import BytesIOFactory
except ImportError:
    py7zr = None  # type: ignore[assignment]

__all__ = ["prepare", "read_7z"]

_MAX_BYTES = 512 << 20
"""Bytes that an archive may unpack to: py7zr hands them over only when it has them all."""
_CHUNK = 64 << 20
_UNPACK = "unpack it and name the folder"


def prepare() -> None:
    """Try the library: later nothing can be opened."""
    if not has_extra("7z"):
        return
    # It asks the system for the memory that is left and for places to write, which a confined process cannot,
    # although nothing is written here.
    setattr(implementation, "get_memory_limit", lambda: _CHUNK)  # noqa: B010
    setattr(implementation, "get_sanitized_output_path", lambda name, path: Path(name))  # noqa: B010
    sample = io.BytesIO()
    with py7zr.SevenZipFile(sample, "w") as archive:
        archive.writestr("a", "a.txt")
    sample.seek(0)
    list(read_7z(sample, sample.getbuffer().nbytes))


def read_7z(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the files of a 7z archive. Raises Fault if it is locked or too large, or if the library is not
    installed."""
    if not has_extra("7z"):
        raise Fault("other", remedy=f"{install_command('7z')}, or unpack it")
    written: dict[str, Any] = {}
    try:
        # py7zr opens a file that has a name once more, which is not possible here.
        with py7zr.SevenZipFile(io.BytesIO(file.read())) as archive:
            if archive.needs_password():
                raise Fault("locked", remedy=_UNPACK)
            names = [info.filename for info in archive.list() if not info.is_directory]
            total = sum(info.uncompressed for info in archive.list())
            if total > _MAX_BYTES:
                raise Fault("large", f"{total / 2**20:,.0f} MB", _UNPACK)
            factory = BytesIOFactory(_MAX_BYTES)
            archive.extractall(factory=factory)
            written = factory.products
    except PasswordRequired as error:
        raise Fault("locked", remedy=_UNPACK) from error
    for name in sorted(names):
        yield Member(name)
        if name in written:
            written[name].seek(0)
            yield Data(written.pop(name).read())
    yield Ended()
