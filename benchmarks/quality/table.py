"""Writes the results of several benches as one table.

    python -m benchmarks.quality.table FOLDER… [--json FILE]

A folder is what a bench made. `--json` keeps the scores and figures of every run, without texts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.quality.bench import BenchFolder
from benchmarks.quality.bench.scoring import interval_of, paired

__all__ = ["main", "quality_table", "results_of"]

_REFERENCES = ("direct", "truncated")
"""The arms to compare with: the second one where the texts of every question are too long for the first."""
_KEPT = (
    *("item", "arm", "repeat", "status", "score", "rounds", "calls", "input_tokens", "output_tokens"),
    *("seconds", "citations", "verified"),
)
_SHARED = ("model", "sub_model", "seed", "chars", "rlm")


def results_of(folders: Sequence[BenchFolder]) -> dict[str, Any]:
    """Return what the folders hold, as a JSON-safe mapping. Raises ValueError if they differ in models, seed
    or length of the texts, or if a run has no score yet."""
    shared = {name: folders[0].facts[name] for name in _SHARED}
    rows = []
    for folder in folders:
        suite = folder.facts["suite"]
        for name, value in shared.items():
            if folder.facts[name] != value:
                raise ValueError(
                    f"{suite} was made with another {name}: {folder.facts[name]!r}, not {value!r}"
                )
        for _, row in sorted(folder.rows.items()):
            if row.score is None:
                raise ValueError(f"{suite}: {row.item} of {row.arm} has no score yet")
            figures = {name: getattr(row, name) for name in _KEPT}
            rows.append({"suite": suite, **figures, "asked_again": row.key in folder.asked_again})
    return {**shared, "suites": [folder.facts["suite"] for folder in folders], "rows": rows}


def quality_table(results: Mapping[str, Any]) -> str:
    """Return the scores of each arm as Markdown: over all questions, paired with the reference, by suite."""
    rows, suites = results["rows"], results["suites"]
    arms = list(dict.fromkeys(row["arm"] for row in rows))
    able = {row["arm"] for row in rows if row["status"] != "too long"}
    reference = next((arm for arm in _REFERENCES if arm in able), arms[0])
    base = _scores(rows, reference)
    head = ["arm", "score (95 %)", f"to {reference} (95 %)", *suites, "tokens", "calls", "answered"]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for arm in sorted(arms, key=lambda arm: -_mean(_scores(rows, arm))):
        own = [row for row in rows if row["arm"] == arm]
        scores = _scores(rows, arm)
        interval, difference = interval_of(scores), paired(scores, base)
        assert interval is not None, "an arm has a row"
        by_suite = [
            f"{fmean(found):.2f}"
            if (found := [row["score"] for row in own if row["suite"] == suite])
            else "–"
            for suite in suites
        ]
        told = (
            "–"
            if difference is None or arm == reference
            else f"{difference.mean:+.2f} ({difference.low:+.2f} to {difference.high:+.2f})"
        )
        retried = sum(row["asked_again"] for row in own)
        again = f", {retried} after a failure" if retried else ""
        lines.append([
            arm,
            f"{interval.mean:.2f} ({interval.low:.2f} to {interval.high:.2f})",
            told,
            *by_suite,
            f"{median(row['input_tokens'] + row['output_tokens'] for row in own):,.0f}",
            f"{fmean(row['calls'] for row in own):.1f}",
            f"{sum(row['status'] == 'answered' for row in own)} of {len(own)}{again}",
        ])  # fmt: skip
    count = len({(row["suite"], row["item"]) for row in rows})
    about = f"{count} questions over texts of {results['chars']:,} characters, seed {results['seed']}."
    return f"{about}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _scores(rows: Sequence[Mapping[str, Any]], arm: str) -> dict[str, list[float]]:
    """Return the scores of an arm by suite and item."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["arm"] == arm:
            found.setdefault(f"{row['suite']}/{row['item']}", []).append(row["score"])
    return found


def _mean(scores: Mapping[str, Sequence[float]]) -> float:
    return fmean(fmean(one) for one in scores.values())


def main() -> None:
    """Print the table, and keep the results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.quality.table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = results_of([BenchFolder.read(folder) for folder in options.folders])
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(quality_table(results), end="")


if __name__ == "__main__":
    main()
