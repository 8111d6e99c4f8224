"""Writes the micro benchmarks as a table.

    python -m benchmarks.micro.table build/benchmarks.json [--json FILE]

It reads what `make bench` left. `--json` keeps the figures alone, without what names the machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["figures_of", "main", "micro_table"]

_UNITS = ((1.0, "s"), (1e-3, "ms"), (0.0, "µs"))


def figures_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a report of pytest-benchmark: for each benchmark its median, spread and rounds in
    seconds, or the facts that it told."""
    rows = []
    for one in sorted(report["benchmarks"], key=lambda one: str(one["fullname"])):
        stats, facts = one["stats"], one["extra_info"]
        timed = {name: float(f"{stats[name]:.6g}") for name in ("median", "min", "max")}
        # A benchmark that tells facts times nothing of its own.
        figures = {"facts": facts} if facts else {**timed, "rounds": stats["rounds"]}
        rows.append({"name": one["name"], "file": Path(one["fullname"].split("::")[0]).name, **figures})
    machine = report["machine_info"]
    return {
        "machine": {
            "cores": machine.get("cpu", {}).get("count"),
            "python": machine["python_version"],
            "date": report["datetime"][:10],
        },
        "rows": rows,
    }


def micro_table(figures: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    machine = figures["machine"]
    lines = [
        f"{machine['cores']} cores, Python {machine['python']}, {machine['date']}.\n\n",
        "| what | median | min | max | rounds |\n| --- | ---: | ---: | ---: | ---: |\n",
    ]
    for row in figures["rows"]:
        name = f"`{row['file'].removesuffix('.py')}`: {row['name'].removeprefix('test_').replace('_', ' ')}"
        if "facts" in row:
            told = ", ".join(f"{fact.replace('_', ' ')} {value}" for fact, value in row["facts"].items())
            lines.append(f"| {name} | {told} | | | |\n")
            continue
        times = " | ".join(_time(row[kind]) for kind in ("median", "min", "max"))
        lines.append(f"| {name} | {times} | {row['rounds']} |\n")
    return "".join(line.replace("[", "(").replace("]", ")") for line in lines)


def _time(seconds: float) -> str:
    factor, unit = next((factor, unit) for factor, unit in _UNITS if seconds >= factor)
    return f"{seconds / (factor or 1e-6):.3g} {unit}"


def main() -> None:
    """Print the table, and keep the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("report", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = figures_of(json.loads(options.report.read_text("utf-8")))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(micro_table(figures), end="")


if __name__ == "__main__":
    main()
