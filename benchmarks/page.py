"""Writes the tables of RESULTS.md, and the pictures, from the committed results.

    python -m benchmarks.page [--check]

`--check` writes nothing, and fails if the page or a picture is not what the results give. A table without
results says that it is not measured yet. Needs no model, no network and no other machine.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.micro.table import micro_table
from benchmarks.overhead.table import robustness_table, times_table
from benchmarks.quality.table import quality_table
from benchmarks.scale.table import growth_pictures, growth_table

__all__ = ["DETAILS", "TABLES", "main", "page_of", "pictures_of"]

ROOT = Path(__file__).parents[1]
DETAILS = ROOT / "benchmarks" / "RESULTS.md"
PICTURES = ROOT / "benchmarks" / "scale" / "results" / "growth"
NOT_MEASURED = "Not measured yet.\n"


def _growth(facts: Mapping[str, Any]) -> str:
    """Return the tables with their pictures."""
    pictures = "".join(f"![{name}](scale/results/growth/{name})\n" for name in growth_pictures(facts))
    return f"{growth_table(facts)}\n{pictures}"


_Table = Callable[[Mapping[str, Any]], str]


def _table_of(written: _Table) -> _Table:
    """Return the table alone, without the lists below it."""
    return lambda facts: written(facts).partition("\n\n")[0].rstrip("\n") + "\n"


def _details_of(written: _Table) -> _Table:
    """Return the lists below a table."""
    return lambda facts: written(facts).partition("\n\n")[2]


_TIMES, _ROBUSTNESS = "overhead/results/times.json", "overhead/results/robustness.json"
_GROWTH = "scale/results/growth.json"
TABLES: Mapping[Path, Mapping[str, tuple[str, _Table]]] = {
    DETAILS: {
        "times": (_TIMES, _table_of(times_table)),
        "robustness": (_ROBUSTNESS, _table_of(robustness_table)),
        "quality-short": ("quality/results/short.json", quality_table),
        "quality-long": ("quality/results/long.json", quality_table),
        "times-details": (_TIMES, _details_of(times_table)),
        "robustness-details": (_ROBUSTNESS, _details_of(robustness_table)),
        "growth": (_GROWTH, _growth),
        "micro": ("micro/results/micro.json", micro_table),
    },
}
"""The tables of each page: the results, and what writes them."""


def page_of(path: Path, text: str, benchmarks: Path) -> str:
    """Return the text of a page with each table between its marks. Raises ValueError if a mark is missing."""
    for name, (file, table) in TABLES[path].items():
        begin, end = f"<!-- {name}: written by benchmarks/page.py -->\n", f"<!-- end of {name} -->\n"
        before, has_begin, rest = text.partition(begin)
        _, has_end, after = rest.partition(end)
        if not (has_begin and has_end):
            raise ValueError(f"the page has no marks for {name}: {begin.strip()} and {end.strip()}")
        facts = _facts(benchmarks / file)
        text = f"{before}{begin}{NOT_MEASURED if facts is None else table(facts)}{end}{after}"
    return text


def pictures_of(benchmarks: Path) -> dict[str, str]:
    """Return the pictures by the names of their files."""
    facts = _facts(benchmarks / _GROWTH)
    return {} if facts is None else growth_pictures(facts)


def _facts(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    facts: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return facts


def main() -> None:
    """Write the page and the pictures, or check them."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = {path: page_of(path, path.read_text("utf-8"), ROOT / "benchmarks") for path in TABLES}
    wanted |= {PICTURES / name: picture for name, picture in pictures_of(ROOT / "benchmarks").items()}
    stale = [path for path in PICTURES.glob("*.svg") if path not in wanted]
    changed = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    if options.check:
        for path in [*changed, *stale]:
            print(f"{path.relative_to(ROOT)} is not what the results give: run python -m benchmarks.page")
        sys.exit(bool(changed or stale))
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], "utf-8")
    for path in stale:
        path.unlink()


if __name__ == "__main__":
    main()
