"""Pictures of pages for models that see: keeps the files of documents, and draws a page of one.

A page is drawn in a confined process (`rlm.documents.formats.picture`). The driver decodes no picture itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple

from rlm.sandbox.launch.confined_worker import ConfinedWorker, WorkerFailed, WorkerTimeout, WorkerUnavailable
from rlm.sandbox.text.body import MANIFEST_NAME

__all__ = ["Original", "Originals", "PagePicture", "PageRenderer", "PictureLimits", "Unrenderable"]

_FOLDER = "originals"
_BLOCK = 1 << 20
_RENDER = "rlm.documents.formats.picture:render"
_MEMORY_MB = 2048
_HEAD_BYTES = 4_096
_MAGIC: Mapping[str, bytes] = MappingProxyType(
    {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
)


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


class Unrenderable(Exception):
    """A page that cannot be drawn. The message follows "is" and ends with the remedy."""


@dataclass(frozen=True, slots=True)
class PictureLimits:
    """The limits of one picture: `side` is the most pixels of its longer side; models read no finer. `bytes`
    limits its file, and `seconds` the time to draw it."""

    side: int = 1_568
    bytes: int = 1_500_000
    seconds: float = 30.0


class PagePicture(NamedTuple):
    """A page as a picture: the bytes of a PNG or JPEG file, and its pixels."""

    media_type: str
    data: bytes
    width: int
    height: int


class PageRenderer:
    """Draws pages, each in a process of its own that holds the document and can open nothing else. It may be
    called from several threads at a time. Close it after use."""

    def __init__(self, limits: PictureLimits | None = None, *, memory_mb: int = _MEMORY_MB) -> None:
        self.limits = limits or PictureLimits()
        self._worker = ConfinedWorker(memory_mb=memory_mb)

    @property
    def pid(self) -> int | None:
        """Return the process whose end ends every drawing, or None if none runs."""
        return self._worker.pid

    def draw(self, path: Path, kind: str, page: int) -> PagePicture:
        """Return a page (from 1) of the document in the file at `path`. `kind` is as in Document.

        Raises Unrenderable, and OSError if the file cannot be opened.
        """
        limits = self.limits
        request = json.dumps({"page": page, "side": limits.side, "most_bytes": limits.bytes}).encode()
        with path.open("rb") as file:
            try:
                answer = self._worker.call(
                    _RENDER,
                    request,
                    kind,
                    seconds=limits.seconds,
                    most_bytes=limits.bytes + _HEAD_BYTES,
                    files=[file.fileno()],
                )
            except WorkerTimeout:
                raise Unrenderable(
                    f"too complex: drawing it takes more than {limits.seconds:g} s. Print it to a new PDF"
                ) from None
            except WorkerUnavailable as error:
                raise Unrenderable(f"not drawn, because {error}. Run rlm on Linux 5.13 or newer") from None
            except WorkerFailed as error:
                raise Unrenderable(f"not drawn ({error}). Save it again as PNG or PDF") from None
        return _parsed(answer, limits)

    def close(self) -> None:
        """End the processes. The next page starts a new one."""
        self._worker.close()


def _parsed(answer: bytes, limits: PictureLimits) -> PagePicture:
    """Return what the process sent. It may have been taken over: every field is checked."""
    line, _, data = answer.partition(b"\n")
    try:
        head: Any = json.loads(line[:_HEAD_BYTES]) if line else None
        if isinstance(head, dict) and "refused" in head:
            raise Unrenderable(f"{_one_line(head['refused'])}: {_one_line(head.get('remedy', ''))}")
        media_type, width, height = head["media_type"], head["width"], head["height"]
        is_sound = (
            data.startswith(_MAGIC[media_type])
            and type(width) is int
            and type(height) is int
            and min(width, height) >= 1
            and max(width, height) <= limits.side + 1
        )
    except (ValueError, KeyError, TypeError):
        is_sound = False
    if not is_sound:
        raise Unrenderable(
            "a page that crashed its reader (damaged, or malicious): save it again as PNG or PDF"
        )
    return PagePicture(media_type, data, width, height)


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:300]
