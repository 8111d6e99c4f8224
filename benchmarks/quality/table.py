"""Writes the logs of several arms and suites as one table.

    python -m benchmarks.quality.table LOG… [--json FILE]

A log is what `inspect eval` wrote for one arm of one suite. `--json` keeps the scores and figures of every
run, without texts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.quality.intervals import interval_of, paired

__all__ = ["main", "quality_table", "results_of"]

_REFERENCES = ("direct", "truncated")
"""The arms to compare with: the second one where the texts of every question are too long for the first."""
_KEPT = (*("status", "rounds", "calls", "input_tokens", "output_tokens", "seconds", "citations", "verified"),)
_SHARED = ("model", "seed", "chars", "rlm")


def results_of(logs: Sequence[Path]) -> dict[str, Any]:
    """Return what the logs hold, as a JSON-safe mapping. Raises ValueError if they differ in model, seed or
    length of the texts, or if a sample failed."""
    # Inspect is an extra, and the table of kept results needs none.
    from inspect_ai.log import read_eval_log

    shared: dict[str, Any] = {}
    suites: dict[str, None] = {}
    rows = []
    for path in logs:
        log = read_eval_log(str(path))
        facts = log.eval.metadata or {}
        suites[facts["suite"]] = None
        for name in _SHARED:
            if shared.setdefault(name, facts[name]) != facts[name]:
                raise ValueError(
                    f"{path} was made with another {name}: {facts[name]!r}, not {shared[name]!r}"
                )
        for sample in log.samples or ():
            if sample.error is not None or not sample.scores:
                raise ValueError(f"{path}: {sample.id} has no score: inspect eval-retry asks it again")
            (score,) = sample.scores.values()
            figures = {name: (score.metadata or {})[name] for name in _KEPT}
            row = {"suite": facts["suite"], "item": sample.id, "arm": facts["arm"], "repeat": sample.epoch}
            rows.append({**row, "score": score.value, **figures})
    return {**shared, "suites": list(suites), "rows": rows}


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
        retried = sum(row.get("asked_again", False) for row in own)
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
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = results_of(options.logs)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(quality_table(results), end="")


if __name__ == "__main__":
    main()
