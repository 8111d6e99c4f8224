"""Measure children: `python -m benchmarks.children` prints a table, and `--json FILE` writes it.

Each child takes the whole path. A cell in a real kernel asks; the driver assembles the prompt, reserves the
budget, sends over HTTP to a provider on this machine with a fixed latency, journals and answers. The ideal
time is calls / concurrency * latency: the provider never waits.

Each run is the first of its process. The root is scripted, so it makes no provider call. A cell with one call
before the batch does the imports and the connection of a first call; they count in `run_seconds` only.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from benchmarks.children.one_batch import PROTOCOLS, measure_batch


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.children", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--protocol", choices=PROTOCOLS, action="append", help="default: both")
    parser.add_argument("--runs", type=int, default=5, help="runs of each protocol; the table shows medians")
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--latency", type=float, default=0.1, metavar="SECONDS")
    parser.add_argument("--chars", type=int, default=1_000, help="characters of a slice")
    options = parser.parse_args()
    figures = (options.calls, options.concurrency, options.latency, options.chars)
    protocols = options.protocol or PROTOCOLS
    rows: dict[str, list[dict[str, float]]] = {protocol: [] for protocol in protocols}
    for _ in range(options.runs):
        for protocol in protocols:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                rows[protocol].append(fresh.submit(measure_batch, protocol, *figures).result())
    print(f"{'':>20}" + "".join(f"{protocol:>30}" for protocol in protocols))
    for name in rows[protocols[0]][0]:
        line = f"{name:>20}"
        for protocol in protocols:
            values = [row[name] for row in rows[protocol]]
            line += f"{f'{median(values):g}  ({min(values):g} to {max(values):g})':>30}"
        print(line)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
