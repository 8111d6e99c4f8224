"""Writes the micro benchmarks as a table.

    python -m benchmarks.micro.table build/benchmarks.json [--json FILE]

It reads what `make bench` left. `--json` keeps the figures alone, without what names the machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["figures_of", "main", "micro_table"]

_UNITS = ((1.0, "s"), (1e-3, "ms"), (0.0, "µs"))


def figures_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a report of pytest-benchmark: for each benchmark its median, spread and rounds in
    seconds with the facts beside them, or the facts alone of one that measures with no clock of its own."""
    rows = []
    for one in sorted(
        report["benchmarks"], key=lambda one: (str(one["fullname"]).split("::")[0], one["name"])
    ):
        stats, facts = one["stats"], dict(one["extra_info"])
        told = facts.pop("told", None)
        timed = {name: float(f"{stats[name]:.6g}") for name in ("median", "min", "max")}
        figures = {"facts": told} if told else {**timed, "rounds": stats["rounds"], "facts": facts}
        rows.append({"name": one["name"], "file": Path(one["fullname"].split("::")[0]).stem, **figures})
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
    """Return the figures as Markdown: a table of times for each file, and below it what else it tells."""
    machine = figures["machine"]
    parts = [f"{machine['cores']} cores, Python {machine['python']}, {machine['date']}.\n"]
    for file, rows in itertools.groupby(figures["rows"], key=lambda row: row["file"]):
        timed, told = [], []
        for row in rows:
            facts = ", ".join(f"{fact.replace('_', ' ')} {value}" for fact, value in row["facts"].items())
            if "median" in row:
                times = " | ".join(_time(row[kind]) for kind in ("median", "min", "max"))
                name = f"{_name(row['name'])}: {facts}" if facts else _name(row["name"])
                timed.append(f"| {name} | {times} | {row['rounds']:,} |\n")
            else:
                told.append(f"- {_name(row['name'])}: {facts}.\n")
        parts.append(f"\n`benchmarks/micro/{file}.py`:\n\n")
        if timed:
            parts.append("| what | median | min | max | rounds |\n| --- | ---: | ---: | ---: | ---: |\n")
        parts += [*timed, "\n" if timed and told else "", *told]
    return "".join(parts)


def _name(name: str) -> str:
    """Return a test's name as words. Its parameters are code, since patterns are among them."""
    words, bracket, given = name.removeprefix("test_").partition("[")
    plain = words.replace("_", " ")
    # Pytest doubles the backslash of a pattern, and a bar would end the cell.
    code = given.removesuffix("]").replace("\\\\", "\\").replace("|", "\\|")
    return f"{plain} `{code}`" if bracket else plain


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
