"""What comes out of a loading."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlm.sandbox.context.writer import ContextFile

__all__ = ["Guessed", "Lease", "Loaded", "Skipped"]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was left out, and why; what helps, if it is a document that could not be read."""

    path: str
    reason: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Guessed:
    """A document that is no UTF-8 and does not say what it is; `encoding` is what it most likely is in, by
    Python's name for it."""

    document: str
    encoding: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A context in the cache, in use: nobody removes it until `close`. `folder` is removed then, if one is
    given: it is this run's own."""

    descriptor: int
    folder: Path | None = None

    def close(self) -> None:
        """Give it up. Once only."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.close(self.descriptor)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A finished context. `skipped` lists what was left out of folders and globs; `replaced` counts the
    U+FFFD marks that stand for what could not be decoded; `guessed` lists what was decoded on a guess;
    `notes` says in one line each what is amiss with documents that were read all the same. `lease` is to be
    closed when the context is no longer wanted, if it is one of the cache's."""

    context: ContextFile
    skipped: tuple[Skipped, ...] = ()
    replaced: int = 0
    guessed: tuple[Guessed, ...] = ()
    notes: tuple[str, ...] = ()
    lease: Lease | None = None
