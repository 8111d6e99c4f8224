"""Check the sizes that keep the house readable: `make check` runs this.

A folder of the package or of the tests holds at most 16 Python files. No Python file has more than 500 lines,
nor has a script or style of the page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 16
MAX_LINES = 500


def violations(root: Path) -> Iterator[str]:
    """Yield one line for each folder with too many files and each file with too many lines."""
    for folder in sorted({file.parent for top in ("rlm", "tests") for file in (root / top).rglob("*.py")}):
        count = len(list(folder.glob("*.py")))
        if count > MAX_FILES:
            name = folder.relative_to(root).as_posix()
            yield f"{name}/ holds {count} Python files, at most {MAX_FILES} are allowed: split it by noun"
    for top in ("rlm", "tests", "benchmarks", "examples"):
        for file in sorted(file for kind in ("*.py", "*.js", "*.css") for file in (root / top).rglob(kind)):
            count = len(file.read_text(encoding="utf-8").splitlines())
            if count > MAX_LINES:
                name = file.relative_to(root).as_posix()
                yield f"{name} has {count} lines, at most {MAX_LINES} are allowed: split it by noun"


if __name__ == "__main__":
    found = list(violations(Path(__file__).parents[1]))
    print("\n".join(found) or "House rules: kept.")
    sys.exit(bool(found))
