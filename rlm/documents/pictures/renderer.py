"""The driver's end of drawing: one confined process a page. The driver decodes no picture itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rlm.lazy_dataclass import dataclass
from rlm.sandbox import ConfinedWorker, WorkerFailed, WorkerTimeout, WorkerUnavailable

__all__ = ["PagePicture", "PageRenderer", "PictureLimits", "Unrenderable"]

_RENDER = "rlm.documents.pictures.worker:render"
_MEMORY_MB = 2048
_HEAD_BYTES = 4_096
_MAGIC: Mapping[str, bytes] = MappingProxyType(
    {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
)


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
