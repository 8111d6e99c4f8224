"""The text of a body that is a user's own file, which may change at any time."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["WatchedFile"]


class WatchedFile(Protocol):
    """Reads like bytes. Every read raises the host's error if the file is no longer what was indexed.

    The driver must not read such a file through a mapping: a mapping of a file that was cut off kills the
    process that reads it.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, at: Any) -> Any: ...

    def find(self, wanted: bytes, start: int = 0, end: int | None = None) -> int: ...

    def rfind(self, wanted: bytes, start: int = 0, end: int | None = None) -> int: ...

    def check(self) -> None:
        """Raise the host's error if the file changed."""

    @property
    def has_grown_or_moved(self) -> bool:
        """Whether the file was written, renamed or removed, while the indexed text is still the same."""
