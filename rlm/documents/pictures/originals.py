"""Keeps the files of documents that have pages, so that a page can be drawn later."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["Original", "OriginalGone", "Originals"]

_FOLDER = "originals"
_BLOCK = 1 << 20


class OriginalGone(Exception):
    """The file of a document is not in the context folder."""


@dataclass(frozen=True, slots=True)
class Original:
    """The file of a document. `sha256` is that of its bytes, in hexadecimal digits."""

    path: Path
    sha256: str


class Originals:
    """The files of a context's documents, in the context's folder. A file is named for the index of its
    document and its hash."""

    def __init__(self, context: Path) -> None:
        self._folder = context / _FOLDER

    @property
    def is_empty(self) -> bool:
        """Return whether no document has its file here."""
        return not self._folder.is_dir() or not any(self._folder.iterdir())

    def keep(self, document: int, file: BinaryIO) -> None:
        """Copy the file of a document, which is open at any position. Raises OSError."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        part = self._folder / f"{document}.part"
        digest = hashlib.sha256()
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        at = 0
        with os.fdopen(descriptor, "wb", buffering=0) as copy:
            # Not by the file's position, which belongs to the reader of the document.
            while block := os.pread(file.fileno(), _BLOCK, at):
                digest.update(block)
                copy.write(block)
                at += len(block)
        part.rename(self._folder / f"{document}-{digest.hexdigest()}")

    def find(self, document: int) -> Original:
        """Return the file of the document with this index. Raises OriginalGone."""
        for path in self._folder.glob(f"{document}-*"):
            return Original(path, path.name.partition("-")[2])
        raise OriginalGone

    def remove(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._folder, ignore_errors=True)
