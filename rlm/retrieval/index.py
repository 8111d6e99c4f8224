"""What a ranked index can do, whichever engine keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from rlm.errors import RLMError
from rlm.retrieval.words import SearchTerms

__all__ = ["EngineName", "IndexEngine", "QueryStopped", "RankedIndex", "RetrievalError", "Stop"]

EngineName = Literal["fts5", "tantivy"]

Stop = Callable[[], bool]
"""Asked now and then while a query runs, on its thread: true ends it with QueryStopped."""


class RankedIndex(Protocol):
    """An index over passages, opened for reading. For one thread at a time."""

    def top(self, query: SearchTerms, limit: int, stop: Stop) -> list[tuple[int, float]]:
        """(passage, score) of the best by BM25: score descending, then passage ascending."""

    def frequency(self, word: str) -> int:
        """How many passages hold a word, in any form of the same stem."""

    def close(self) -> None: ...


class IndexEngine(Protocol):
    """Builds and opens indexes of one kind. `version` changes when what it builds does."""

    @property
    def name(self) -> EngineName: ...

    @property
    def version(self) -> int: ...

    def build(self, folder: Path | None, batches: Iterable[tuple[int, Sequence[str]]]) -> RankedIndex:
        """Index batches (number of the first passage, its text and those after it) in `folder`, or in memory.
        What the batches raise ends it and comes out of it; OSError when the disk does not take it."""

    def open(self, folder: Path) -> RankedIndex:
        """One that was built before. OSError when it is damaged."""


class RetrievalError(RLMError):
    """The ranked index can't be built or read."""


class QueryStopped(Exception):
    """Whoever asked no longer waits."""
