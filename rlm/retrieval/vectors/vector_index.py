"""The vectors of a body's passages: one file of half-precision rows, mapped and searched from end to end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rlm.retrieval.errors import QueryStopped, RetrievalError
from rlm.retrieval.index import Stop
from rlm.retrieval.vectors.embedder import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["VECTORS_VERSION", "VectorIndex"]

VECTORS_VERSION = 1
"""Part of the key of stored vectors. Changes when what `build` writes does."""
MAX_BYTES = 1 << 30
"""Bytes of a body's vectors."""
_FILE, _SHAPE = "vectors", "vectors.json"
_ROWS = 16_384
"""Rows that are compared at once: 16 to 64 MB in single precision."""


class VectorIndex:
    """Unit vectors of passages, by number. Use it from one thread at a time."""

    def __init__(self, rows: NDArray[np.float16]) -> None:
        self._rows = rows

    @classmethod
    def build(cls, folder: Path | None, passages: Iterable[Sequence[str]], embedder: Embedder) -> Self:
        """Compute the vectors of batches of passages: in `folder`, or in memory if it is None. Passes on what
        the batches and the embedder raise. Raises RetrievalError for too many passages, and OSError."""
        import numpy as np

        blocks = _blocks(passages, embedder)
        if folder is None:
            kept = list(blocks)
            return cls(np.concatenate(kept) if kept else np.zeros((0, 0), dtype=np.float16))
        count = size = 0
        with (folder / _FILE).open("wb") as file:
            for rows in blocks:
                count, size = count + len(rows), rows.shape[1]
                file.write(rows.tobytes())
        (folder / _SHAPE).write_text(json.dumps([count, size]), "utf-8")
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Map vectors that were built before. Raises OSError or ValueError when they are damaged."""
        import numpy as np

        count, size = json.loads((folder / _SHAPE).read_text("utf-8"))
        if not count:
            return cls(np.zeros((0, 0), dtype=np.float16))
        if (folder / _FILE).stat().st_size != count * size * 2:
            raise OSError(f"{folder / _FILE} is incomplete")
        return cls(np.memmap(folder / _FILE, dtype=np.float16, mode="r", shape=(count, size)))

    def top(
        self, query: NDArray[np.float32], limit: int, stop: Stop, numbers: range | None = None
    ) -> list[tuple[int, float]]:
        """Return the passages nearest to a query's row, or those of `numbers`, as (number, cosine): cosine
        descending, then number ascending. Raises QueryStopped."""
        import numpy as np

        if not len(self._rows):
            return []
        if query.shape != (1, self._rows.shape[1]):
            raise RetrievalError("the embedder returned a row of another length than before")
        (wanted,) = _normalize(query)
        chosen = range(len(self._rows)) if numbers is None else numbers
        best: list[tuple[int, float]] = []
        for first in range(chosen.start, min(chosen.stop, len(self._rows)), _ROWS):
            if stop():
                raise QueryStopped
            rows = self._rows[first : min(first + _ROWS, chosen.stop)].astype(np.float32)
            cosines = rows @ wanted
            order = np.argsort(-cosines, kind="stable")[:limit]
            best += [(first + int(row), float(cosines[row])) for row in order]
        return sorted(best, key=lambda passage: (-passage[1], passage[0]))[:limit]


def _blocks(passages: Iterable[Sequence[str]], embedder: Embedder) -> Iterator[NDArray[np.float16]]:
    """Yield the vectors of each batch. Raises RetrievalError."""
    import numpy as np

    total, size = 0, None
    for texts in passages:
        rows = _normalize(embedder.embed(texts))
        if len(rows) != len(texts) or size not in (None, rows.shape[1]):
            raise RetrievalError(
                f"the embedder {embedder.identity} returned {rows.shape} for {len(texts)} texts: each text "
                "needs a row of the same length"
            )
        size = rows.shape[1]
        total += rows.size * 2
        if total > MAX_BYTES:
            raise RetrievalError(
                f"the text is too long for embeddings: its vectors take over {MAX_BYTES >> 20:,} MB. Rank it "
                "without them"
            )
        yield rows.astype(np.float16)


def _normalize(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of length 1, or 0 where a text has no known word."""
    import numpy as np

    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return unit
