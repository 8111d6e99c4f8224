"""Makes one run of one arm, and measures it."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gigabyte.memory import descendants
from benchmarks.overhead.environments import ARM_PROGRAMS
from benchmarks.overhead.works import ARMS, TASK, Run, Work

__all__ = ["Measured", "RunFailed", "measure", "scripted_server"]

_TIMEOUT = 300
_TICK = os.sysconf("SC_CLK_TCK")


class RunFailed(Exception):
    """A run gave no answer. The text says why, in a line."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure, and whether others used the machine meanwhile."""

    value: float
    is_noisy: bool


@contextmanager
def scripted_server() -> Iterator[tuple[str, int]]:
    """Start the server in a process of its own. Yield its address and its process number."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.overhead.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}", process.pid
    finally:
        process.stdin.close()
        process.wait(10)


def measure(
    work: Work, arm: str, python: Path, server: tuple[str, int], text: Path, *, noise: float
) -> Measured:
    """Make one run. It is noisy if others used more than the share `noise` of the machine's time. Raises
    RunFailed if it gives no answer."""
    url, server_process = server
    dialect = ARMS[arm]
    script = {
        "root": list(work.root(dialect)),
        "inner": [dialect.deep],
        # Some arms ask the model of their children for the root of a sub-RLM, and do not show it its task.
        "child": dialect.deep if work.depth > 1 else "The slice says nothing of note.",
        "latency": work.latency,
    }
    _request(url + "/script", script)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # A warm run finds what the run before it has left: the cache of documents and the journal.
        home = text.parent / "warm" if work.as_file else folder
        home.mkdir(exist_ok=True)
        if work.as_file and not work.warm:
            _empty(home)
        order = folder / "order.json"
        order.write_text(
            json.dumps(
                {
                    "url": url,
                    "text": str(text),
                    "as_file": work.as_file,
                    "task": TASK,
                    "concurrency": work.concurrency,
                    "depth": work.depth,
                    "store": str(home / "rlm.db"),
                }
            )
        )
        busy, own = _busy_seconds(), _own_seconds(server_process)
        spawned = time.monotonic()
        process = subprocess.Popen(
            [python, ARM_PROGRAMS[arm].program, order],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={
                **os.environ,
                "HOME": str(home),
                "XDG_CACHE_HOME": str(home),
                "OPENAI_API_KEY": "key",
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            }
            | {"RLM_OPENAI_COMPATIBLE_KEY": "key", "RLM_OPENAI_COMPATIBLE_KEY_HOST": "127.0.0.1"},
        )
        with _PeakMemory(process.pid, active="memory" in work.name) as memory:
            try:
                out, err = process.communicate(timeout=_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise RunFailed(f"no answer within {_TIMEOUT} s") from None
        exited = time.monotonic()
        others = _busy_seconds() - busy - (_own_seconds(server_process) - own)
    try:
        printed = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        raise RunFailed((err.strip().splitlines() or ["it printed nothing"])[-1][:200]) from None
    calls = json.loads(_request(url + "/calls"))
    roots = [one for one in calls if one["role"] == "root"]
    if len(roots) < len(script["root"]):
        raise RunFailed(
            f"{len(roots)} of {len(script['root'])} turns, answer {str(printed['answer'])[:100]!r}"
        )
    seen = Run(spawned, printed["began"], printed["ended"], exited, roots, calls, memory.mb)
    cores = os.cpu_count() or 1
    return Measured(work.measure(seen), others > noise * cores * (exited - spawned))


def _request(url: str, body: dict[str, Any] | None = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method="GET" if data is None else "PUT")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()  # type: ignore[no-any-return]


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


class _PeakMemory:
    """Samples the memory (PSS) of a process and its descendants while it is open, if it is active."""

    def __init__(self, process: int, *, active: bool) -> None:
        self.mb = 0.0
        self._process = process
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True) if active else None

    def __enter__(self) -> _PeakMemory:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(0.02):
            together = sum(_pss(one) for one in [self._process, *descendants(self._process)])
            self.mb = max(self.mb, together / (1 << 20))


def _pss(process: int) -> int:
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
