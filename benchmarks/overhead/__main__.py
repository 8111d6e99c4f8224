"""Measure what runtimes cost apart from their model, and what they stand: see README.md in this folder."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from benchmarks.overhead.dialects import ARMS
from benchmarks.overhead.environments import ARM_PROGRAMS, EnvironmentFailed, make_environment
from benchmarks.overhead.order import Arm, scripted_server
from benchmarks.overhead.robustness import hazards_of, robustness
from benchmarks.overhead.table import robustness_table, times_table
from benchmarks.overhead.times import rows_of, times

__all__ = ["main"]


def main() -> None:
    """Run the arms in turn, print the table, and write the figures."""
    options = _parser().parse_args()
    options.environments.mkdir(parents=True, exist_ok=True)
    arms, missing = [], {}
    for name in options.arms:
        try:
            python = make_environment(name, options.environments.resolve())
        except EnvironmentFailed as error:
            missing[name] = str(error)
            continue
        arms.append(Arm(name, python, options.environments.resolve()))
    is_times = options.part == "times"
    full, quick = (5, 2) if is_times else (3, 1)
    repeat = options.repeat or (quick if options.quick else full)
    facts: dict[str, Any] = {
        "part": options.part,
        "quick": options.quick,
        "repeat": repeat,
        "noise": options.noise,
        "arms": {arm.name: _told(arm.name) for arm in arms},
        "missing": missing,
        "machine": describe_machine(),
        "rows": [],
    }
    with scripted_server() as server, tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        if is_times:
            works = [work for work in rows_of(options.rows) if not options.quick or work.chars < 10**9]
            rows = times(works, arms, server, Path(folder), repeat=repeat, noise=options.noise)
        else:
            rows = robustness(hazards_of(options.rows), arms, server, Path(folder), repeat=repeat)
        for row in rows:
            facts["rows"].append(row)
            if options.json:
                # After each row: who stops it keeps what was measured.
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    print(times_table(facts) if is_times else robustness_table(facts))
    sys.exit(0 if arms else 1)


def _told(arm: str) -> dict[str, str]:
    program = ARM_PROGRAMS[arm]
    requirement = "this tree" if arm == "ours" else " ".join(program.requirements)
    return {"requirement": requirement, "note": program.note}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("--part", choices=["times", "robustness"], default="times")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rows", nargs="+", default=[""], help="words of the rows' names")
    parser.add_argument("--repeat", type=int, help="times: 5, robustness: 3; with --quick 2 and 1")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, no text of a gigabyte")
    parser.add_argument("--noise", type=float, default=0.1, help="share of the machine that others may use")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "rlm-overhead")
    parser.add_argument("--scratch", type=Path, help="a folder for texts, with room for 2 GB")
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    main()
