"""The part that shows what runtimes stand: arms in turn, repetition by repetition."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.overhead.dialects import ARMS
from benchmarks.overhead.hazards import CELL_SECONDS, KEY, POISON, SECRET, Hazard, Outcome, Place, hazards
from benchmarks.overhead.memory import PeakMemory
from benchmarks.overhead.order import Arm, Order, Server, printed_by
from benchmarks.overhead.processes import Process, end, started_by, still_alive

__all__ = ["hazards_of", "robustness"]

_TIMEOUT = 60.0
_INTERRUPTED = 20.0


def hazards_of(words: Sequence[str]) -> list[Hazard]:
    """Return the rows whose name holds one of the words."""
    return [hazard for hazard in hazards() if any(word in hazard.name for word in words)]


def robustness(
    rows: Sequence[Hazard], arms: Sequence[Arm], server: Server, folder: Path, *, repeat: int
) -> Iterator[dict[str, Any]]:
    """Yield one mapping a row of the table: for each arm in how many runs it held, and why it did not."""
    text = folder / "poisoned.txt"
    lines = ["the yard serves a request".ljust(99) + "\n" for _ in range(400)]
    lines[7] = f"{POISON} is here".ljust(99) + "\n"
    text.write_text("".join(lines))
    for hazard in rows:
        cells = {arm.name: {"held": 0, "runs": 0, "reason": ""} for arm in arms}
        for repetition in range(repeat):
            for arm in arms:
                print(f"{hazard.name}: {arm.name}, {repetition + 1} of {repeat}", file=sys.stderr)
                reason = hazard.judge(run_hazard(hazard, arm, server, text))
                cell: dict[str, Any] = cells[arm.name]
                cell["runs"] += 1
                cell["held"] += not reason
                cell["reason"] = reason or cell["reason"]
        yield {"name": hazard.name, "wanted": hazard.wanted, "arms": cells}


def run_hazard(hazard: Hazard, arm: Arm, server: Server, text: Path) -> Outcome:
    """Make one run while something goes wrong, and return what became of it."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as users:
        folder, home = Path(name), Path(users)
        secret, written = home / "secret.txt", home / "written.txt"
        secret.write_text(SECRET)
        url = urlsplit(server.url)
        place = Place(str(secret), str(written), str(url.hostname), int(url.port or 0))
        server.play(hazard.script(ARMS[arm.name], place))
        order = Order(
            arm.name,
            server.url,
            str(text),
            str(home / "rlm.db"),
            cell_seconds=CELL_SECONDS,
            run="robust" if hazard.act == "kill" else "",
        )
        started: set[Process] = set()
        try:
            if hazard.act == "kill":
                return _killed(order, arm, home, folder, server, started)
            if hazard.act == "interrupt":
                return _interrupted(order, arm, home, folder, server, started)
            return _finished(order, arm, home, folder, server, written, started)
        finally:
            end(started)


def _finished(
    order: Order,
    arm: Arm,
    home: Path,
    folder: Path,
    server: Server,
    written: Path,
    started: set[Process],
) -> Outcome:
    process = order.start(arm, home, folder, KEY)
    with PeakMemory(process.pid) as memory:
        answer, error = _end_of(process, started)
    return Outcome(answer, error, server.seen(), memory.mb, written.exists())


def _killed(
    order: Order, arm: Arm, home: Path, folder: Path, server: Server, started: set[Process]
) -> Outcome:
    """Kill the process once all children are paid, start it again, and count those that are paid twice."""
    process = order.start(arm, home, folder, KEY)
    until = time.monotonic() + _TIMEOUT
    while not server.seen().held and time.monotonic() < until and process.poll() is None:
        time.sleep(0.1)
    before = server.seen()
    started |= started_by(process.pid)
    process.kill()
    _, error = process.communicate()
    if not before.held:
        return Outcome(None, f"before it was killed: {_last(error)}", before)
    again = replace(order, resume=arm.name == "ours")
    answer, error = _end_of(again.start(arm, home, folder, KEY), started)
    seen = server.seen()
    return Outcome(answer, error, seen, paid_twice=seen.answered - before.answered)


def _interrupted(
    order: Order, arm: Arm, home: Path, folder: Path, server: Server, started: set[Process]
) -> Outcome:
    """Interrupt the process while a cell loops, and count what is left of it."""
    process = order.start(arm, home, folder, KEY)
    until = time.monotonic() + _TIMEOUT
    while server.seen().turns < 2 and time.monotonic() < until and process.poll() is None:
        time.sleep(0.1)
    time.sleep(1)
    started |= started_by(process.pid)
    process.send_signal(signal.SIGINT)
    until = time.monotonic() + _INTERRUPTED
    while still_alive(started) and time.monotonic() < until:
        process.poll()
        time.sleep(0.1)
    left = len(still_alive(started))
    end(started)
    out, error = process.communicate()
    printed = printed_by(out)
    return Outcome(str(printed["answer"]) if printed else None, _last(error), server.seen(), left=left)


def _end_of(process: subprocess.Popen[str], started: set[Process]) -> tuple[str | None, str]:
    """Wait for the end of a process. Return its answer and the last line of its errors."""
    until = time.monotonic() + _TIMEOUT
    while True:
        started |= started_by(process.pid)
        try:
            out, error = process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            if time.monotonic() < until:
                continue
            end(started)
            process.communicate()
            return None, f"no end within {_TIMEOUT:g} s"
        printed = printed_by(out)
        return (str(printed["answer"]), "") if printed else (None, _last(error))


def _last(error: str) -> str:
    return (error.strip().splitlines() or ["it printed nothing"])[-1][:200]
