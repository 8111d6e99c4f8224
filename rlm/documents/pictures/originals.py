"""Keeps the files of documents that have pages, so that a page can be drawn later."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from rlm.lazy_dataclass import dataclass
from rlm.sandbox.in_kernel.body.body import MANIFEST_NAME

__all__ = ["Original", "Originals"]

_FOLDER = "originals"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Original:
    """The file of a document. `sha256` is that of its bytes, in hexadecimal digits. The file itself is gone
    where the context was restored from a journal, which keeps only the hash."""

    path: Path
    sha256: str


class Originals:
    """The files of a context's documents, in the context's folder. Its manifest holds their hashes."""

    def __init__(self, context: Path) -> None:
        self._context = context
        self._folder = context / _FOLDER

    def keep(self, document: int, file: BinaryIO) -> str:
        """Copy the file of the document with this index, and return its hash. Raises OSError."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        digest = hashlib.sha256()
        descriptor = os.open(
            self._folder / str(document), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        at = 0
        with os.fdopen(descriptor, "wb", buffering=0) as copy:
            # Not by the file's position, which belongs to the reader of the document.
            while block := os.pread(file.fileno(), _BLOCK, at):
                digest.update(block)
                copy.write(block)
                at += len(block)
        return digest.hexdigest()

    @property
    def is_empty(self) -> bool:
        """Return whether no document of the context has a file."""
        return not self._hashes

    def find(self, document: int) -> Original | None:
        """Return the file of the document with this index, or None if it has none."""
        sha256 = self._hashes.get(str(document))
        return None if sha256 is None else Original(self._folder / str(document), sha256)

    def remove(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @cached_property
    def _hashes(self) -> dict[str, str]:
        hashes: dict[str, str] = json.loads((self._context / MANIFEST_NAME).read_bytes()).get("originals", {})
        return hashes
