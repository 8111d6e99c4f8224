"""The results of loading a context."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path

from rlm.documents.folder_cache import Lease
from rlm.lazy_dataclass import dataclass
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.text.body import Body

__all__ = [
    "GuessedEncoding",
    "Loaded",
    "Skip",
    "SkipReason",
    "Skipped",
    "UniqueNames",
    "count_reasons",
    "shortest_names",
]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A skipped file and the reason. A document that could not be read has a remedy. `document` is the name
    that a member of a file (an archive, a mail) would have."""

    path: str
    reason: str
    remedy: str = ""
    document: str = ""


_UNREAD = ("binary", "unreadable", "cannot be read", "a submodule")
"""Reasons of files without a remedy that may hold an answer. Others miss no text: empty, linked, repeated."""
_SHOWN_OTHERS = 3


class SkipReason(Enum):
    """Why a file is skipped."""

    EMPTY = auto()
    REPEATED = auto()
    """It was read under another name."""
    BROKEN = auto()
    """It is a document that could not be read: damaged, or in a format without a reader."""
    NOT_TEXT = auto()
    """It is not a readable text."""


class Skip(Exception):
    """Raised to skip one file. The message follows "is". The remedy is for a file that the user named."""

    def __init__(
        self,
        message: str,
        remedy: str = "name a file that holds text",
        reason: SkipReason = SkipReason.NOT_TEXT,
    ) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.reason = reason

    @property
    def told_remedy(self) -> str:
        """The remedy of a document that could not be read; "" for a file that is no document."""
        return self.remedy if self.reason is SkipReason.BROKEN else ""

    def to_skipped(self, path: str, document: str = "") -> Skipped:
        """Return the record of a file that is skipped."""
        return Skipped(path, str(self), self.told_remedy, document)


def count_reasons(skipped: Sequence[Skipped]) -> str:
    """Return counts by reason, such as `3 binary, 1 empty`."""
    reasons: dict[str, int] = {}
    for one in skipped:
        reasons[one.reason] = reasons.get(one.reason, 0) + 1
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


class UniqueNames:
    """The names of documents so far."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def add(self, name: str) -> str:
        """Take a name and return it; one that is taken gets a number."""
        free, number = name, 1
        while free in self._taken:
            number += 1
            free = f"{name} ({number})"
        self._taken.add(free)
        return free


def shortest_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Return a name for each path: as many of its last parts as tell it from the others, so that two files
    `contract.txt` are `north/contract.txt` and `south/contract.txt`."""
    whole = {path: Path(os.path.abspath(path)).parts for path in paths}  # noqa: PTH100
    sizes = dict.fromkeys(whole, 1)

    def same() -> list[list[Path]]:
        by_name: dict[tuple[str, ...], list[Path]] = {}
        for path, parts in whole.items():
            by_name.setdefault(parts[-sizes[path] :], []).append(path)
        return [alike for alike in by_name.values() if len({whole[path] for path in alike}) > 1]

    # First within the paths as they were given: `a.txt` and `sub/a.txt` need no folder above.
    for is_given in (True, False):
        while growing := [
            path
            for alike in same()
            for path in alike
            if sizes[path] < len(whole[path]) and (not is_given or sizes[path] < len(path.parts))
        ]:
            for path in growing:
                sizes[path] += 1
    return {path: "/".join(parts[-sizes[path] :]).replace("//", "/") for path, parts in whole.items()}


@dataclass(frozen=True, slots=True)
class GuessedEncoding:
    """A document that is not UTF-8 and has no byte order mark. `encoding` is the most likely one, by its
    Python name."""

    document: str
    encoding: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A finished context.

    `skipped` lists the skipped files of folders and globs. `replaced` counts the U+FFFD characters put in for
    bytes that could not be decoded. `guessed` lists documents whose encoding was guessed. `notes` describe
    what was not read of documents, `remarks` what else is to be known of them, one line each. `in_part` are
    the names of the documents with notes. `lease` belongs to a cached context; close it when the context is
    no longer needed.
    """

    context: ContextFile
    skipped: tuple[Skipped, ...] = ()
    replaced: int = 0
    guessed: tuple[GuessedEncoding, ...] = ()
    notes: tuple[str, ...] = ()
    lease: Lease | None = None
    remarks: tuple[str, ...] = ()
    in_part: tuple[str, ...] = ()

    @contextmanager
    def opened(self) -> Iterator[Body]:
        """Yield the body, open. Release the context afterwards."""
        try:
            with self.context.open() as body:
                yield body
        finally:
            if self.lease is not None:
                self.lease.close()

    @property
    def unread(self) -> tuple[str, ...]:
        """The names of the documents that were not read, or only in part. More than three files that are no
        documents, such as programs, are one entry: `12 binary files (a.so, b.pyc, …)`."""
        missing = (_name_of(one) for one in self.skipped if one.remedy)
        cut = (f"{name} (in part)" for name in self.in_part)
        others = [_name_of(one) for one in self.skipped if not one.remedy and one.reason.startswith(_UNREAD)]
        if len(others) > _SHOWN_OTHERS:
            others = [f"{len(others):,} binary files ({', '.join(others[:2])}, …)"]
        return tuple(dict.fromkeys((*missing, *cut, *others)))


def _name_of(skipped: Skipped) -> str:
    return skipped.document or Path(skipped.path).name
