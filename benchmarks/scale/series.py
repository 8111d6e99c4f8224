"""What grows: the context of a look-up, a context that is read whole, and a batch of children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.overhead.order import TASK, Server
from benchmarks.overhead.server import Script
from benchmarks.overhead.works import write_text

__all__ = ["MEASURES", "SERIES", "PointFailed", "Series", "measure_point"]

SLICE = 50_000
"""Characters of a child's slice when all of a context is read."""

_SMALL = 100
"""Characters of a child's slice in a batch."""

_TIMEOUT = 3_600

MEASURES = {
    "root_tokens": "tokens of the root's prompts",
    "calls": "child calls",
    "cost": "dollars at 1 $ per million input tokens",
    "megabytes": "MB of private memory, driver and kernels",
    "seconds": "seconds",
}
"""What is measured at each point. The tokens of children are taken as their characters divided by four."""


class PointFailed(Exception):
    """A run gave no answer. The text says why, in a line."""


@dataclass(frozen=True, slots=True)
class Series:
    """One thing that grows. `cell` makes the block of a size, `chars` the characters of its text,
    `calls` the fewest children that it asks. `expected` is the exponent that each measure should have."""

    name: str
    title: str
    axis: str
    sizes: Sequence[int]
    cell: Callable[[int], str]
    chars: Callable[[int], int]
    calls: Callable[[int], int]
    expected: dict[str, float]


SERIES = (
    Series(
        "look-up",
        "One fact is searched for",
        "characters of the context",
        [10**power for power in range(4, 10)],
        lambda _: "hits = search('NEEDLE')\nprint(hits[0].line_text)\nprint(sub_query('Who?', hits[0]))",
        lambda size: size,
        lambda _: 1,
        {"root_tokens": 0, "calls": 0, "cost": 0, "megabytes": 0},
    ),
    Series(
        "read-all",
        "Children read all of the context",
        "characters of the context",
        [10**power for power in range(4, 10)],
        lambda _: f"said = sub_query_batch('Who?', chunk(max_chars={SLICE}))\nprint(len(said))",
        lambda size: size,
        lambda size: -(-size // SLICE),
        {"root_tokens": 0, "calls": 1, "cost": 1, "megabytes": 0, "seconds": 1},
    ),
    Series(
        "batch",
        "A batch of children over short slices",
        "children of the batch",
        [10**power for power in range(6)],
        lambda size: (
            # Identical calls are made once: no two slices are the same.
            f"starts = [(i % 99_000, {_SMALL} + i // 99_000) for i in range({size})]\n"
            "said = sub_query_batch('q', [(at, at + chars) for at, chars in starts])\nprint(len(said))"
        ),
        lambda _: 1_000 * _SMALL,
        lambda size: size,
        {"root_tokens": 0, "calls": 1, "cost": 1, "megabytes": 0, "seconds": 1},
    ),
)


def measure_point(series: Series, size: int, server: Server, folder: Path) -> dict[str, float]:
    """Make one run of that size in a new process. Return its measures. Raises PointFailed."""
    text = write_text(folder, series.chars(size))
    cells = [series.cell(size), "peek(0, 1)\nfinalize('done')"]
    server.play(Script([f"```repl\n{cell}\n```" for cell in cells]))
    with tempfile.TemporaryDirectory(dir=folder) as name:
        order = Path(name) / "order.json"
        store = str(Path(name) / "rlm.db")
        order.write_text(json.dumps({"url": server.url, "text": str(text), "store": store, "task": TASK}))
        variables = {
            "HOME": name,
            "XDG_CACHE_HOME": name,
            "RLM_OPENAI_COMPATIBLE_KEY": "key",
            "RLM_OPENAI_COMPATIBLE_KEY_HOST": "127.0.0.1",
        }
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "benchmarks.scale.point", order],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                check=False,
                env={**os.environ, **variables},
                cwd=Path(__file__).parents[2],
            )
        except subprocess.TimeoutExpired:
            raise PointFailed(f"no answer within {_TIMEOUT} s") from None
    if ended.returncode:
        raise PointFailed((ended.stderr.strip().splitlines() or ["it printed nothing"])[-1][:200])
    printed: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    if printed["calls"] < series.calls(size):
        raise PointFailed(f"{printed['calls']:g} of {series.calls(size)} children were asked")
    seen = server.seen()
    roots = sum(one["tokens"] for one in server.calls() if one["role"] == "root")
    cost = (roots + seen.child_chars / 4) / 1e6
    return {"root_tokens": roots, "cost": cost, **printed}
