"""Children at speed: `python -m benchmarks.children` prints a table and, with `--json FILE`, writes it.

Every child goes the whole way: a cell in a real kernel asks, the driver assembles, reserves, sends over HTTP
to a provider on this machine that takes a fixed time, journals and answers. The ideal is the time the
provider takes if it is never kept waiting: calls / concurrency * latency.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlm import RLM, Limits, Settings
from rlm.events import CellEnded, CellStarted, Event
from rlm.testing import ScriptedModel

_ROOT = """```repl
answers = sub_query_batch("What does it say?", list(chunk(max_chars={chars})))
finalize(sum(answer.ok for answer in answers))
```"""


@contextmanager
def provider(latency: float) -> Iterator[str]:
    """The base URL of a provider in a process of its own."""
    program = Path(__file__).with_name("provider.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(latency)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.stdin.close()
        process.wait(10)


async def measure(calls: int, concurrency: int, latency: float, chars: int) -> dict[str, Any]:
    """One batch: seconds of its cell, the ideal, their ratio, MB the driver grew by."""
    body = "".join(f"{n:09d}\n" + "x" * (chars - 11) + "\n" for n in range(calls))
    seen: dict[str, float] = {}

    def observe(event: Event) -> None:
        if isinstance(event, CellStarted):
            seen.update(began=time.perf_counter(), cpu_began=time.process_time(), memory=_resident())
        elif isinstance(event, CellEnded):
            seen.update(ended=time.perf_counter(), cpu_ended=time.process_time())

    with provider(latency) as url, tempfile.TemporaryDirectory() as folder:
        rlm = RLM(
            ScriptedModel.of(root=[_ROOT.format(chars=chars)]),
            sub_model=f"openai:m@{url}",
            limits=Limits(sub_calls=calls, concurrency=concurrency),
            settings=Settings(strategy="rlm", store=Path(folder) / "rlm.db"),
            observe=observe,
        )
        if concurrency > 1:
            await _warm(rlm)
        result = await rlm.run("How many?", body)
        await rlm.aclose()
    assert result.answer == calls, result
    ideal = -(-calls // concurrency) * latency
    seconds = seen["ended"] - seen["began"]
    return {
        "calls": calls,
        "concurrency": concurrency,
        "latency": latency,
        "seconds": round(seconds, 3),
        "ideal": round(ideal, 3),
        "ratio": round(seconds / ideal, 3),
        "ms_a_call_over": round(1000 * (seconds - ideal) / calls, 3),
        "driver_cpu_ms_a_call": round(1000 * (seen["cpu_ended"] - seen["cpu_began"]) / calls, 3),
        "driver_growth_mb": round((_peak() - seen["memory"]) / 1e6, 1),
    }


async def _warm(rlm: RLM) -> None:
    """The SDK takes a second to import: not what is measured here."""
    from rlm.models.base import Message, Request

    await rlm.sub_model.generate(Request("child", (Message("user", "hello"),), 10, "hello"))


def _resident() -> float:
    return _status("VmRSS:")


def _peak() -> float:
    return _status("VmHWM:")


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1]) * 1024
    raise LookupError(field)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.children", description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=50)
    parser.add_argument("--latency", type=float, default=0.1, metavar="SECONDS")
    parser.add_argument("--chars", type=int, default=1_000, help="characters of a slice")
    options = parser.parse_args()
    row = asyncio.run(measure(options.calls, options.concurrency, options.latency, options.chars))
    for name, value in row.items():
        print(f"{name:>18}  {value}")
    if options.json:
        options.json.write_text(json.dumps(row, indent=1) + "\n")


if __name__ == "__main__":
    main()
