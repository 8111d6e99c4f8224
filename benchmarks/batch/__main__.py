"""Measure many short tasks: `python -m benchmarks.batch` prints a table, and `--json FILE` writes it.

`rlm batch` runs in its own process. Each task is a whole run: one root round, a block in its own kernel, a
child and an answer. The calls go over HTTP to a provider on this machine with a fixed latency. The memory is
that of the process, after a tenth of the lines and at its peak. The ideal time is calls / jobs * latency: the
provider never waits.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.provider import provider

_BLOCK = """```repl
import builtins, os
left = [name for name in globals() if name.startswith("planted")] + list(vars(builtins).get("seen", []))
left += [name for name in os.listdir(".") if name.startswith("planted")]
planted = builtins.seen = ["planted"]
try:
    open("planted", "w").write("x")
except OSError:
    pass
reply = sub_query("What does it say?", (0, min(200, context_meta()["chars"])))
finalize({"left": left, "reply": str(reply), "first": peek(0, 20)})
```"""
"""The root's reply. It looks for traces of an earlier task, leaves some itself, and asks a child."""


def measure(tasks: int, jobs: int, latency: float, strategy: str, workers: int = 0) -> dict[str, Any]:
    """Run one batch and return its times, memory in MB, and the number of leaks between tasks."""
    with provider(latency, _BLOCK) as url, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "tasks.jsonl").open("w") as file:
            for number in range(tasks):
                text = f"Note {number:05d}. " + "Nothing else is written. " * 20
                line = {"id": f"t{number}", "task": "What does it say?", "context": [{"text": text}]}
                file.write(json.dumps(line) + "\n")
        out = folder / "results.jsonl"
        command = [sys.executable, "-m", "rlm", "batch", str(folder / "tasks.jsonl"), "--out", str(out)]
        command += ["--model", f"openai:m@{url}/v1", "--strategy", strategy, "--jobs", str(jobs), "--quiet"]
        command += ["--store", str(folder / "rlm.db"), "--concurrency", str(jobs)]
        if workers:
            command += ["--engine", "ray", "--workers", str(workers)]
        began = time.perf_counter()
        process = subprocess.Popen(command)
        memory: list[tuple[int, float]] = []
        first = 0.0
        while process.poll() is None:
            lines = out.read_bytes().count(b"\n") if out.exists() else 0
            memory.append((lines, _resident(process.pid)))
            first = first if first or not lines else time.perf_counter()
            time.sleep(0.1)
        seconds, working = time.perf_counter() - began, time.perf_counter() - first
        lines = [json.loads(line) for line in out.read_text().splitlines()]
    calls = sum(usage["calls"] for line in lines for usage in line["usage"])
    early = max(size for count, size in memory if count <= max(tasks // 10, memory[0][0]))
    late = max(size for count, size in memory)
    at_once = jobs * max(1, workers)
    return {
        "tasks": tasks,
        "ray_workers": workers,
        "jobs": jobs,
        "strategy": strategy,
        "lines": len(lines),
        "ids": len({line["id"] for line in lines}),
        "answered": sum(line["answer"] is not None for line in lines),
        "leaks": sum(bool((line["answer"] or {}).get("left")) for line in lines if strategy == "rlm"),
        "calls": calls,
        "seconds": round(seconds, 2),
        "ideal": round(calls * latency / at_once, 2),
        "from_first_line": round(working, 2),
        "tasks_a_second": round(tasks / working, 1),
        "mb_after_a_tenth": round(early / 1e6, 1),
        "mb_at_most": round(late / 1e6, 1),
    }


def _resident(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) * 1024
    except OSError:
        pass
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batch", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--latency", type=float, default=0.05, metavar="SECONDS")
    parser.add_argument("--strategy", choices=("rlm", "auto"), default="rlm")
    parser.add_argument(
        "--ray-workers", type=int, default=0, help="use a local Ray cluster with this number of workers"
    )
    options = parser.parse_args()
    row = measure(options.tasks, options.jobs, options.latency, options.strategy, options.ray_workers)
    for name, value in row.items():
        print(f"{name:>18}  {value}")
    if options.json:
        options.json.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
