"""Provide runs in processes that can be killed at any moment, and read their store afterwards."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.sandbox.launch.forkserver import shared_forkserver

Events = list[tuple[str, dict[str, Any]]]
"""Kind and data of each event, in order."""


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process."""
    with suppress(OSError):
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    return []


def kernel_watchers() -> list[int]:
    """Return the watchers of kernels below the forkserver of this process, not those of workers."""

    def is_of_worker(pid: int) -> bool:
        with suppress(OSError):
            if b"launch.jobs" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
        return any(map(is_of_worker, children_of(pid)))

    server = shared_forkserver().pid
    return [pid for pid in children_of(server) if not is_of_worker(pid)] if server else []


@contextmanager
def forking_driver() -> Iterator[subprocess.Popen[str]]:
    """Start tests/forking_driver.py."""
    script = Path(__file__).with_name("forking_driver.py")
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@dataclass
class Drivers:
    """Starts processes one after the other, forked by `parent`. Each begins or resumes what `order`
    describes.
    """

    parent: subprocess.Popen[str]
    folder: Path
    order: dict[str, Any]

    def begin(self, **more: str) -> int:
        assert self.parent.stdin is not None
        assert self.parent.stdout is not None
        order = {**self.order, "out": str(self._out), **more}
        self.parent.stdin.write(json.dumps(order) + "\n")
        self.parent.stdin.flush()
        return int(self.parent.stdout.readline())

    def end(self) -> int:
        assert self.parent.stdout is not None
        return int(self.parent.stdout.readline())

    def outcome(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._out.read_text())
        return found

    def kill_at(self, count: int, pause: float = 0.0, **more: str) -> Events:
        """Start a process, kill it with SIGKILL `pause` seconds after the store has so many events, and
        return the events.
        """
        pid = self.begin(**more)
        while len(self._rows("SELECT 1 FROM events")) < count:
            time.sleep(0.002)
        time.sleep(pause)
        os.kill(pid, signal.SIGKILL)
        self.end()
        return self.events()

    def events(self) -> Events:
        found = self._rows("SELECT kind, data FROM events ORDER BY seq")
        return [(kind, json.loads(data)) for kind, data in found]

    @property
    def run_id(self) -> str:
        """Return the name of the only run in the store."""
        ((name,),) = self._rows("SELECT run_id FROM runs")
        return str(name)

    def forget(self) -> None:
        """Remove the store and the results."""
        for path in (*self.folder.glob("rlm.db*"), self._out):
            path.unlink()

    @property
    def _out(self) -> Path:
        return self.folder / "out.json"

    def _rows(self, query: str) -> list[Any]:
        store = Path(self.order["store"])
        if not store.exists():
            return []
        database = sqlite3.connect(store)
        try:
            return database.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []  # the store is being made
        finally:
            database.close()
