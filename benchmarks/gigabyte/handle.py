"""Measure the handle in this process: peek, search and count (against ripgrep), chunk."""

from __future__ import annotations

import random
import re
import resource
import shutil
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.gigabyte.corpus import CHINESE_NEEDLE, NEEDLE, RUSSIAN_NEEDLE
from benchmarks.gigabyte.row import Row
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Body

LITERALS = {
    "English, once": NEEDLE,
    "a rare word": "Zanzibar",
    "Chinese, once": CHINESE_NEEDLE,
    "Russian, once": RUSSIAN_NEEDLE,
    "emoji, not found": "👩‍👩‍👧 Zan",
    "common letters, not found": "notation",
}
REGEXES = (
    r"id=\d{12}",
    r"\bZanzibar\b",
    r"\w+zibar",
    r"[A-Z]{6}_XYZ",
    r"(vault|number)\s+\d{7}x",
    r"^The end\.$",
    r"第.扇门",
    r"(?i)янтарн\w+",
    r"(a+)+$",
    r"(?<=vault of )Zanzibar",
)
COUNTED = ("kernel", "合同", "договор", r"id=\d+7 ")
_ROUNDS = 3


def rows(body: Body, path: Path) -> Iterator[Row]:
    """Measure each method of the handle over `body`, whose text is the file at `path`."""
    handle = Handle(body)
    yield from _peeks(handle, body)
    yield from _literals(handle, path)
    for pattern in REGEXES:
        seconds, hits = best(lambda pattern=pattern: handle.search(pattern))
        per_gb = seconds * (1 << 30) / body.bytes
        yield Row(f"search {pattern}", per_gb, "s/GB", 2.0, f"{len(hits)} hits")
    yield from _counts(handle, path)
    yield from _chunks(handle)


def best(action: Callable[[], Any], rounds: int = _ROUNDS) -> tuple[float, Any]:
    """Return the least processor seconds of a few rounds, and the value of the last round.

    The seconds include child processes. They equal the elapsed time on an idle machine.
    """
    least, value = float("inf"), None
    for _ in range(rounds):
        began = _processor_seconds()
        value = action()
        least = min(least, _processor_seconds() - began)
    return least, value


def _processor_seconds() -> float:
    both = (resource.getrusage(processes) for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def _peeks(handle: Handle, body: Body) -> Iterator[Row]:
    chooser = random.Random(4)
    places = [chooser.randrange(body.chars) for _ in range(5_000)]

    def peek() -> None:
        for place in places:
            handle.peek(place, place + 2_000)

    seconds, _ = best(peek)
    yield Row("peek of 2,000 characters, 5,000 places", seconds / len(places) * 1_000, "ms", 0.2)


def _literals(handle: Handle, path: Path) -> Iterator[Row]:
    for name, literal in LITERALS.items():
        for fold in (False, True):
            pattern = ("(?i)" if fold else "") + re.escape(literal)
            seconds, hits = best(lambda pattern=pattern: handle.search(pattern))
            what = f"search {name}{', any case' if fold else ''}"
            arguments = ["-o", "-b", "-F", *(["-i"] if fold else []), literal]
            yield _against_ripgrep(what, seconds, arguments, path, len(hits))


def _counts(handle: Handle, path: Path) -> Iterator[Row]:
    for pattern in COUNTED:
        for fold in (False, True):
            seconds, found = best(lambda asked=("(?i)" if fold else "") + pattern: handle.count(asked), 1)
            what = f"count {pattern}{', any case' if fold else ''}"
            arguments = ["--count-matches", *(["-i"] if fold else []), pattern]
            yield _against_ripgrep(what, seconds, arguments, path, found, limit=None)


def _against_ripgrep(
    what: str, seconds: float, arguments: list[str], path: Path, found: int, limit: float | None = 2.0
) -> Row:
    if shutil.which("rg") is None:
        return Row(what, seconds, "s", None, f"{found:,} hits; ripgrep is absent: apt install ripgrep")
    theirs, output = best(lambda: subprocess.run(["rg", *arguments, path], capture_output=True, check=False))
    agreed = found == (int(output.stdout or 0) if limit is None else output.stdout.count(b"\n"))
    note = f"{seconds:.3f} s against {theirs:.3f} s, {found:,} hits"
    return Row(what, seconds / theirs, "x ripgrep", limit, note if agreed else f"{note}; RIPGREP DISAGREES")


def _chunks(handle: Handle) -> Iterator[Row]:
    for by in (None, "lines"):
        tracemalloc.start()
        began = time.perf_counter()
        chunks = handle.chunk(20_000, by=by)
        read = sum(len(chunk.text) for chunk in chunks)
        seconds = time.perf_counter() - began
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        note = f"{len(chunks):,} chunks, {read:,} characters read in {seconds:.1f} s (traced)"
        yield Row(f"chunk(by={by!r}), all texts, memory", peak / (1 << 20), "MB", 50.0, note)
