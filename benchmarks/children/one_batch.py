"""Measure one batch of children."""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from pathlib import Path

from benchmarks.provider import provider
from rlm import RLM, Limits, Settings
from rlm.cli import COLLECT_AT
from rlm.events import CellRun, Event
from rlm.testing import ScriptedModel

__all__ = ["PROTOCOLS", "measure_batch"]

PROTOCOLS = ("openai", "anthropic")
_FIRST_CALL = """```repl
sub_query("What does it say?", peek(0, 100))
```"""
"""Imports the provider's SDK, like the first call of a root that is a language model."""
_ROOT = """```repl
answers = sub_query_batch("What does it say?", list(chunk(max_chars={chars})))
finalize(sum(answer.ok for answer in answers))
```"""


async def measure(
    protocol: str, calls: int, concurrency: int, latency: float, chars: int
) -> dict[str, float]:
    """Run one batch and return its times, the ratio to the ideal time, and the memory of the driver."""
    body = "".join(f"{n:09d}\n" + "x" * (chars - 11) + "\n" for n in range(calls))
    marks: dict[str, float] = {}

    def observe(event: Event) -> None:
        if isinstance(event, CellRun) and event.status == "running":
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
            marks.update(began=time.perf_counter(), cpu_began=time.process_time(), memory=_resident())
        elif isinstance(event, CellRun):
            marks.update(ended=time.perf_counter(), cpu_ended=time.process_time())

    with provider(latency) as url, tempfile.TemporaryDirectory() as folder:
        rlm = RLM(
            ScriptedModel.of(root=[_FIRST_CALL, _ROOT.format(chars=chars)]),
            sub_model=_child(protocol, url),
            limits=Limits(
                max_calls=calls + 1,
                max_total_tokens=calls * 20_000,
                max_cost=calls,
                concurrency=concurrency,
            ),
            settings=Settings(strategy="rlm", store=Path(folder) / "rlm.db"),
            observe=observe,
        )
        began = time.perf_counter()
        result = await rlm.run("How many?", body)
        run_seconds = time.perf_counter() - began
        await rlm.aclose()
    assert result.answer == calls, result
    ideal = -(-calls // concurrency) * latency
    seconds = marks["ended"] - marks["began"]
    return {
        "ratio": round(seconds / ideal, 3),
        "seconds": round(seconds, 3),
        "ideal": round(ideal, 3),
        "ms_a_call_over": round(1000 * (seconds - ideal) / calls, 3),
        "driver_cpu_ms_a_call": round(1000 * (marks["cpu_ended"] - marks["cpu_began"]) / calls, 3),
        "driver_growth_mb": round((_peak() - marks["memory"]) / 1e6, 1),
        "run_seconds": round(run_seconds, 3),
    }


def _child(protocol: str, url: str) -> str:
    """Return the name of a model at `url`. Anthropic's has a known price."""
    if protocol == "openai":
        return f"openai:m@{url}/v1"
    os.environ.update(ANTHROPIC_API_KEY="measuring", ANTHROPIC_BASE_URL=url)
    return "anthropic:claude-haiku-4-5"


def _resident() -> float:
    return _status("VmRSS:")


def _peak() -> float:
    return _status("VmHWM:")


def _status(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1]) * 1024
    raise LookupError(field)


def measure_batch(
    protocol: str, calls: int, concurrency: int, latency: float, chars: int
) -> dict[str, float]:
    """Return the figures of `measure`, in a process that is set up like the command line."""
    gc.set_threshold(*COLLECT_AT)
    return asyncio.run(measure(protocol, calls, concurrency, latency, chars))
