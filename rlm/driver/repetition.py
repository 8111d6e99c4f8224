"""Notices a root that writes the same block again and again."""

from __future__ import annotations

__all__ = ["BlockHistory"]


class BlockHistory:
    """The last two blocks of a root and what they put out."""

    def __init__(self) -> None:
        self._last: tuple[str, str] | None = None
        self._is_repeated = False

    def add(self, code: str, output: str) -> bool:
        """Add a block that was run. Return whether it is the one before it, with the same output."""
        self._is_repeated = (code.strip(), output) == self._last
        self._last = (code.strip(), output)
        return self._is_repeated

    def is_stuck(self, code: str) -> bool:
        """Return whether `code` is the last block, and the one before it, too."""
        return self._is_repeated and self._last is not None and self._last[0] == code.strip()
