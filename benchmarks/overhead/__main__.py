"""Measure what runtimes cost apart from their model: see README.md in this folder."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.overhead.environments import ARM_PROGRAMS, make_environment
from benchmarks.overhead.measure import RunFailed, measure, scripted_server
from benchmarks.overhead.works import ARMS, Work, works, write_text

__all__ = ["main"]


def main() -> None:
    """Run the arms in turn, print the table, and write the figures."""
    options = _parser().parse_args()
    rows = [work for work in works() if any(word in work.name for word in options.rows)]
    options.environments.mkdir(parents=True, exist_ok=True)
    pythons = {arm: make_environment(arm, options.environments) for arm in options.arms}
    figures: dict[str, dict[str, list[float]]] = {
        work.name: {arm: [] for arm in options.arms} for work in rows
    }
    dropped: dict[str, int] = dict.fromkeys(options.arms, 0)
    failures: dict[str, dict[str, str]] = {work.name: {} for work in rows}
    with scripted_server() as server, tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for work in rows:
            text = write_text(Path(folder), work.chars)
            for repetition in range(options.repeat):
                for arm in options.arms:
                    if arm not in work.arms or arm in failures[work.name]:
                        continue
                    print(f"{work.name}: {arm}, {repetition + 1} of {options.repeat}", file=sys.stderr)
                    try:
                        one = measure(work, arm, pythons[arm], server, text, noise=options.noise)
                    except RunFailed as error:
                        failures[work.name][arm] = str(error)
                        continue
                    if one.is_noisy:
                        dropped[arm] += 1
                    else:
                        figures[work.name][arm].append(one.value)
    print(_table(rows, options.arms, figures, failures))
    print(f"\nDropped as noisy: {', '.join(f'{arm} {count}' for arm, count in dropped.items())}.")
    if options.json:
        facts: dict[str, Any] = {
            "arms": {
                arm: ARM_PROGRAMS[arm].requirement if arm != "ours" else "this tree" for arm in options.arms
            },
            "machine": {"python": platform.python_version(), "system": platform.platform()},
            "repeat": options.repeat,
            "dropped": dropped,
            "failures": failures,
            "figures": figures,
        }
        options.json.write_text(json.dumps(facts, indent=1))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rows", nargs="+", default=[""], help="words of the rows' names")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--noise", type=float, default=0.1, help="share of the machine that others may use")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "rlm-overhead")
    parser.add_argument("--scratch", type=Path, help="a folder for texts, with room for 2 GB")
    parser.add_argument("--json", type=Path)
    return parser


def _table(
    rows: list[Work],
    arms: list[str],
    figures: dict[str, dict[str, list[float]]],
    failures: dict[str, dict[str, str]],
) -> str:
    """Return the medians as Markdown, with the spread and the number of repetitions."""
    lines = [f"| work | {' | '.join(arms)} |", f"| --- | {' | '.join('---:' for _ in arms)} |"]
    for work in rows:
        cells = []
        for arm in arms:
            values = figures[work.name][arm]
            if arm in failures[work.name]:
                cells.append(f"failed: {failures[work.name][arm]}")
            elif values:
                low, high = min(values), max(values)
                cells.append(f"{statistics.median(values):,.4g} ({low:,.4g}–{high:,.4g}, n {len(values)})")
            else:
                cells.append("–" if arm not in work.arms else "all noisy")
        lines.append(f"| {work.name}, {work.unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
