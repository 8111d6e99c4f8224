"""The part that measures times, memory and tokens: arms in turn, repetition by repetition."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.overhead.measure import RunFailed, measure
from benchmarks.overhead.order import Arm, Server
from benchmarks.overhead.works import Work, works, write_text

__all__ = ["rows_of", "times"]

_FAILURES = 2
"""An arm that failed so often at a kind of run is not asked for it again."""


def rows_of(words: Sequence[str]) -> list[Work]:
    """Return the kinds of runs with a row whose name holds one of the words."""
    return [work for work in works() if any(word in name for name in work.columns for word in words)]


def times(
    rows: Sequence[Work], arms: Sequence[Arm], server: Server, folder: Path, *, repeat: int, noise: float
) -> Iterator[dict[str, Any]]:
    """Yield one mapping a row of the table. A noisy repetition is made again, once."""
    for work in rows:
        text = write_text(folder, work.chars)
        cells = {name: {arm.name: _empty_cell(work, arm) for arm in arms} for name in work.columns}
        first = next(iter(cells.values()))
        for repetition in range(repeat):
            for arm in arms:
                if arm.name in work.not_for or len(first[arm.name]["failures"]) >= _FAILURES:
                    continue
                print(f"{next(iter(cells))}: {arm.name}, {repetition + 1} of {repeat}", file=sys.stderr)
                try:
                    for _ in range(2):
                        one = measure(work, arm, server, text, noise=noise)
                        for name, value in one.figures.items():
                            kind = "noisy" if one.is_noisy else "values"
                            cells[name][arm.name][kind].append(round(value, 6))
                        if not one.is_noisy:
                            break
                except (RunFailed, ValueError, IndexError) as error:
                    for row in cells.values():
                        row[arm.name]["failures"].append(str(error))
        for name, row in cells.items():
            unit, _ = work.columns[name]
            yield {"name": name, "unit": unit, "goal": work.goals.get(name), "arms": row}


def _empty_cell(work: Work, arm: Arm) -> dict[str, Any]:
    if arm.name in work.not_for:
        return {"not_for": work.not_for[arm.name]}
    return {"values": [], "noisy": [], "failures": []}
