"""Measure a whole run with a scripted model: load, search, a loop over all chunks, finalize."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.gigabyte.corpus import CHINESE_NEEDLE, NEEDLE
from benchmarks.gigabyte.memory import MemoryWatch
from benchmarks.gigabyte.row import Row
from rlm import RLM, Limits, Settings
from rlm.events import ContextLoaded, Event
from rlm.models.offline.scripted import ScriptedModel, ScriptedReply

_CELLS = (
    f"hits = search({NEEDLE!r})\nprint(hits)\nprint(count({CHINESE_NEEDLE!r}), count('(?i)zanzibar'))",
    "chars = 0\nfor piece in chunk(max_chars=20000):\n    chars += len(piece.text)\nprint(chars)",
    "answers = sub_query_batch('Which number opens it?', [hits[0]])\nprint(answers, evaluate_progress())",
    "finalize('7481920 [1]', confidence='high', evidence=[hits[0]])",
)


def rows(path: Path, store: Path) -> Iterator[Row]:
    """Run once. Measure the time to the first request, the whole time, and the memory."""
    seen: dict[str, float] = {}
    cells = [f"```repl\n{cell}\n```" for cell in _CELLS]
    began = time.perf_counter()

    def first(_request: object) -> str:
        seen.setdefault("request", time.perf_counter() - began)
        return cells[0]

    def observe(event: Event) -> None:
        if isinstance(event, ContextLoaded):
            seen["load"] = event.seconds

    model = ScriptedModel(
        [
            ScriptedReply("root", first),
            *(ScriptedReply("root", cell) for cell in cells[1:]),
            ScriptedReply("child", "7481920"),
        ]
    )
    settings = Settings(store=store, strategy="rlm")
    rlm = RLM(model, limits=Limits(cell_seconds=600), settings=settings, observe=observe)
    with MemoryWatch() as watch:
        result = rlm.run_sync("Which number opens the vault of Zanzibar?", path)
    (citation,) = result.citations
    assert result.answer == "7481920 [1]", result
    assert citation.verified
    assert result.coverage.complete
    yield Row("load", seen["load"], "s", 5.0, "cold: the index is written")
    yield Row("from the call to the first root request", seen["request"], "s", 5.0, "cold")
    yield Row("the whole run", result.seconds, "s", None, f"{result.rounds} rounds, all chunks read in one")
    yield Row(
        "memory: largest kernel process + driver growth",
        watch.largest + watch.driver_growth,
        "MB",
        128.0,
        f"driver {watch.driver_growth:.0f}, kernel {watch.largest:.0f}, every process together "
        f"{watch.together:.0f}; {watch.samples} samples",
    )
