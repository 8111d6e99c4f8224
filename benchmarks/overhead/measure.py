"""Makes one run of one arm, and measures it."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.overhead.dialects import ARMS, NOTE
from benchmarks.overhead.memory import PeakMemory
from benchmarks.overhead.order import Arm, Order, Server, printed_by
from benchmarks.overhead.processes import counting_orphans, end, started_by
from benchmarks.overhead.server import Script
from benchmarks.overhead.works import Run, Work

__all__ = ["Measured", "RunFailed", "measure"]

_TIMEOUT = 300
_TICK = os.sysconf("SC_CLK_TCK")


class RunFailed(Exception):
    """A run gave no answer. The text says why, in a line."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of a run, by their columns, and whether others used the machine meanwhile."""

    figures: dict[str, float]
    is_noisy: bool


def measure(work: Work, arm: Arm, server: Server, text: Path, *, noise: float) -> Measured:
    """Make one run. It is noisy if others used more than the share `noise` of the machine's time. Raises
    RunFailed if it gives no answer."""
    dialect = ARMS[arm.name]
    root = list(work.root(dialect))
    # Some arms ask the model of their children for the root of a sub-RLM, and do not show it its task.
    child = dialect.deep if work.depth > 1 else dialect.child(NOTE)
    server.play(Script(root, inner=[dialect.deep], child=child, latency=work.latency))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A warm run finds what the run before it has left: the cache of documents and the journal.
        home = text.parent / "warm" if work.as_file else folder
        home.mkdir(exist_ok=True)
        if work.as_file and not work.warm:
            _empty(home)
        order = Order(
            arm.name,
            server.url,
            str(text),
            str(home / "rlm.db"),
            as_file=work.as_file,
            concurrency=work.concurrency,
            depth=work.depth,
        )
        busy, own = _busy_seconds(), _own_seconds(server.process)
        spawned = time.monotonic()
        with counting_orphans():
            process = order.start(arm, home, folder)
            with PeakMemory(process.pid, is_active=work.watches_memory) as memory:
                try:
                    out, err = process.communicate(timeout=_TIMEOUT)
                except subprocess.TimeoutExpired:
                    end(started_by(process.pid))
                    process.communicate()
                    raise RunFailed(f"no answer within {_TIMEOUT} s") from None
            exited = time.monotonic()
        others = _busy_seconds() - busy - (_own_seconds(server.process) - own)
    printed = printed_by(out)
    if printed is None:
        raise RunFailed((err.strip().splitlines() or ["it printed nothing"])[-1][:200])
    calls = server.calls()
    roots = [one for one in calls if one["role"] == "root"]
    if len(roots) < len(root):
        raise RunFailed(f"{len(roots)} of {len(root)} turns, answer {str(printed['answer'])[:100]!r}")
    seen = Run(spawned, printed["began"], printed["ended"], exited, roots, calls, memory.mb)
    cores = os.cpu_count() or 1
    figures = {name: figure(seen) for name, (_, figure) in work.columns.items()}
    return Measured(figures, others > noise * cores * (exited - spawned))


def _empty(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def _busy_seconds() -> float:
    """Return the seconds that all processes have used since the machine started."""
    user, nice, system, *_ = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:])
    return (user + nice + system) / _TICK


def _own_seconds(server: int) -> float:
    """Return the seconds that this process, its ended children and the server have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    fields = Path(f"/proc/{server}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(one.ru_utime + one.ru_stime for one in used) + (int(fields[11]) + int(fields[12])) / _TICK
