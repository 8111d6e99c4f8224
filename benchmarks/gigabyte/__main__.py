"""Measure a gigabyte in the handle. Prints a table and writes JSON.

On a busy machine, the ratios to ripgrep in the same run are more reliable than the seconds.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gigabyte import coverage, evidence, handle, whole_run
from benchmarks.gigabyte.corpus import write_corpus
from benchmarks.gigabyte.row import Row
from rlm.documents import load
from rlm.documents.in_place import SETTLED_SECONDS


def main() -> int:
    """Make the text, measure, print and write. Return 1 if a figure is over its limit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gigabyte", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the text (1024)")
    parser.add_argument("--out", type=Path, default=Path("build/gigabyte.json"), help="where the JSON goes")
    parser.add_argument(
        "--folder", type=Path, help="where the text goes (a temporary folder; 1.2 GB are needed)"
    )
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="rlm-gigabyte-", dir=options.folder))
    done: list[Row] = []
    try:
        for row in _rows(folder, options.megabytes << 20):
            print(row, flush=True)
            done.append(row)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report = {
        "megabytes": options.megabytes,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "ripgrep": shutil.which("rg") is not None,
        "rows": [row.to_json() for row in done],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", "utf-8")
    over = [row.what for row in done if row.verdict == "OVER"]
    print(f"{len(done)} measured, {len(over)} over the limit; written to {options.out}")
    return 1 if over else 0


def _rows(folder: Path, size: int) -> Iterator[Row]:
    path = folder / "corpus.txt"
    began = time.perf_counter()
    written = write_corpus(path, size)
    print(f"{written:,} bytes of text made in {time.perf_counter() - began:.1f} s", flush=True)
    # A file that was written a moment ago is copied. A user's file is older.
    time.sleep(SETTLED_SECONDS)
    yield from whole_run.rows(path, folder / "rlm.db")
    context = load([path], folder / "context").context
    with context.open() as body:
        yield from handle.rows(body, path)
        yield from evidence.rows(body)
    yield from coverage.rows()


if __name__ == "__main__":
    sys.exit(main())
