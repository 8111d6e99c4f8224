"""The results of loading a context, and the names of its documents."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rlm.documents.folder_cache import Lease
from rlm.documents.formats.piece import Kind, Problem
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.text.body import Body

__all__ = ["Loaded", "UniqueNames", "count_reasons", "shortest_names"]

_SHOWN_OTHERS = 3


@dataclass(frozen=True, slots=True)
class Loaded:
    """A finished context.

    `problems` are what was not read, or is to be known of what was, in the order of the documents. `replaced`
    counts the U+FFFD characters put in for bytes that could not be decoded. `lease` belongs to a cached
    context; close it when the context is no longer needed.
    """

    context: ContextFile
    problems: tuple[Problem, ...] = ()
    replaced: int = 0
    lease: Lease | None = None

    @contextmanager
    def opened(self) -> Iterator[Body]:
        """Yield the body, open. Release the context afterwards."""
        try:
            with self.context.open() as body:
                yield body
        finally:
            if self.lease is not None:
                self.lease.close()

    def of(self, *kinds: Kind) -> list[Problem]:
        """Return the problems of these kinds."""
        return [problem for problem in self.problems if problem.kind in kinds]

    @property
    def unread(self) -> tuple[str, ...]:
        """The names of the documents that were not read, or only in part. More than three files that are no
        documents are one entry: `12 binary files (a.bin, b.npy, …)`."""
        missing = (problem.document for problem in self.of("missing"))
        cut = (f"{problem.document} (in part)" for problem in self.of("partial"))
        others = [problem.document for problem in self.of("other")]
        if len(others) > _SHOWN_OTHERS:
            others = [f"{len(others):,} binary files ({', '.join(others[:2])}, …)"]
        return tuple(dict.fromkeys((*missing, *cut, *others)))


def count_reasons(problems: Sequence[Problem]) -> str:
    """Return counts by reason, such as `3 binary, 1 empty`."""
    reasons = Counter(problem.what for problem in problems)
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
