"""Test that the benchmark of a gigabyte runs, over a text that is just large enough to be read in place."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

from benchmarks.gigabyte.memory import descendants

ROOT = Path(__file__).parents[2]


def test_every_row_is_measured_over_a_small_text(tmp_path: Path) -> None:
    """Its own assertions check the answer, the citations and the quotes. Figures are not judged here."""
    out, texts = tmp_path / "gigabyte.json", tmp_path / "texts"
    texts.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.gigabyte",
            "--megabytes",
            "20",
            "--out",
            out,
            "--folder",
            texts,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr[-2_000:]
    rows = {row["what"] for row in json.loads(out.read_text())["rows"]}
    assert {"load", "the whole run", "evidence: 3 verbatim", "coverage: a report of them"} <= rows
    assert list(texts.iterdir()) == []


def test_descendants_are_listed_while_processes_end() -> None:
    def churn() -> None:
        for _ in range(60):
            subprocess.run(["sh", "-c", "true & true & wait"], check=True)

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        descendants()
