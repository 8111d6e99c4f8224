"""Which files a client may have read: those below the folders of `--root`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.documents import PathSource
from rlm.errors import UsageError

__all__ = ["Permission"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Permission:
    """The files and folders that may be read, with everything below them. Symbolic links are followed before
    a path is judged."""

    allowed: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Permission:
        """Allow these paths. One that does not exist allows nothing."""
        allowed: list[Path] = []
        for path in paths:
            try:
                real = path.resolve(strict=True)
            except (OSError, ValueError, RuntimeError):
                continue
            if real not in allowed:
                allowed.append(real)
        return cls(tuple(allowed))

    def allows(self, path: Path) -> bool:
        """Return whether the file behind `path` may be read. It need not exist."""
        try:
            real = path.resolve()
        except (OSError, ValueError, RuntimeError):
            return False
        return any(real.is_relative_to(one) for one in self.allowed)

    def allows_run(self, facts: Mapping[str, Any]) -> bool:
        """Return whether all sources of a stored run may be read. Texts that were not files may not."""
        sources: Sequence[Mapping[str, Any]] = facts.get("sources", ())
        return bool(sources) and all("path" in one and self.allows(Path(one["path"])) for one in sources)

    def source(self, path: str) -> PathSource:
        """Return the source of a path as a client gives it. A relative one is below the first folder.

        Raises UsageError for a path that may not be read, before it is touched, and for one that is neither a
        file nor a folder."""
        if not self.allowed:
            raise UsageError(
                "nothing may be read: rlm mcp was started without --root; start it as rlm mcp --root FOLDER"
            )
        if _SCHEME.match(path):
            raise UsageError(f"{path[:200]!r} is a URL, and only files may be read here: save it as a file")
        try:
            # Outside and missing get the same answer, so that no one can ask which files exist.
            real = (self.allowed[0] / path).resolve()
            if not self.allows(real):
                raise UsageError(f"{path[:200]!r} is outside of what may be read: {self.describe()}")
            if real.is_file() or real.is_dir():
                return PathSource(real)
            reason = "neither a file nor a folder" if real.exists() else "not there"
        except (OSError, ValueError, RuntimeError):
            reason = "no path"
        raise UsageError(f"{path[:200]!r} is {reason}: check the path; it may be below {self.describe()}")

    def describe(self) -> str:
        """Return the first of the folders, for a message."""
        shown = ", ".join(str(one) for one in self.allowed[:_SHOWN])
        return f"{shown}, …" if len(self.allowed) > _SHOWN else shown
