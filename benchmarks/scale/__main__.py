"""Measure how cost, calls, tokens, memory and time grow with the context and with a batch of children.

python -m benchmarks.scale --json benchmarks/scale/results/growth.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from benchmarks.overhead.order import scripted_server
from benchmarks.scale.series import MEASURES, SERIES, PointFailed, measure_point
from benchmarks.scale.table import growth_table

__all__ = ["main"]

_QUICK = {"look-up": 10**8, "read-all": 10**7, "batch": 10**4}


def main() -> None:
    """Make the runs, size by size, print the table, and write the figures."""
    options = _parser().parse_args()
    found = []
    with (
        scripted_server() as server,
        tempfile.TemporaryDirectory(dir=options.scratch, prefix="rlm-scale-") as folder,
    ):
        for series in SERIES:
            if series.name not in options.series:
                continue
            last = min(options.to or series.sizes[-1], _QUICK[series.name] if options.quick else 10**12)
            points: dict[str, list[dict[str, float]]] = {}
            failure = ""
            sizes = [size for size in series.sizes if size <= last]
            for size in sizes:
                for repetition in range(1 if options.quick else options.repeat):
                    print(f"{series.name}: {size:,}, {repetition + 1}", file=sys.stderr)
                    try:
                        one = measure_point(series, size, server, Path(folder))
                    except PointFailed as error:
                        failure = f"{size:,}: {error}"
                        break
                    points.setdefault(str(size), []).append(one)
                if failure:
                    break
            found.append({"name": series.name, "points": _medians(points), "failure": failure})
    facts: dict[str, Any] = {
        "repeat": 1 if options.quick else options.repeat,
        "machine": describe_machine(),
        "series": found,
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    print(growth_table(facts))


def _medians(points: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the median of each measure at each size. Six digits are kept."""
    return {
        size: {name: float(f"{statistics.median(one[name] for one in runs):.6g}") for name in MEASURES}
        for size, runs in points.items()
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    names = [series.name for series in SERIES]
    parser.add_argument("--series", nargs="+", choices=names, default=names)
    parser.add_argument("--to", type=int, help="the largest size")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one repetition, and smaller sizes")
    parser.add_argument("--scratch", type=Path, help="a folder for texts, with room for 3 GB")
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    main()
