"""Fuzz a driver with hostile cells, kernels and model servers, and watch it from outside.

`make fuzz` runs it for ten minutes with a new seed. RLM_FUZZ_SECONDS and RLM_FUZZ_SEED change both.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import hostile_words
import pytest

SECONDS = float(os.environ.get("RLM_FUZZ_SECONDS", "20"))
SEED = int(os.environ.get("RLM_FUZZ_SEED", "1"))
MB = 2**20

MAX_GROWTH = 200
"""Megabytes of memory beyond those of the idle driver, which has everything imported."""
MAX_DISK = 200
"""Megabytes on the disk beyond the input, which is copied once and cached once."""
MAX_SILENCE = 2.0
"""Seconds until the event loop answers a signal."""
MAX_END = 2.0 + 2.0
"""Seconds from SIGTERM to the end: the signal, and the cleanup of kernels and folders."""


@dataclass
class Observer:
    """Watches a process: its memory, its folders, and how fast its event loop answers SIGUSR1."""

    pid: int
    acknowledged: int
    folder: Path
    idle: int = 0
    memory: int = 0
    disk: int = 0
    silence: float = 0.0
    answers: int = 0
    faults: list[str] = field(default_factory=list)

    def look(self) -> None:
        self.memory = max(self.memory, resident(self.pid))
        self.disk = max(self.disk, used(self.folder))
        began = time.monotonic()
        os.kill(self.pid, signal.SIGUSR1)
        ready, _, _ = select.select([self.acknowledged], [], [], 3 * MAX_SILENCE)
        seconds = time.monotonic() - began
        if ready:
            os.read(self.acknowledged, 1_000)
            self.answers += 1
        self.silence = max(self.silence, seconds)
        if seconds > MAX_SILENCE:
            self.faults.append(f"silent for {seconds:.1f} s")


def resident(pid: int) -> int:
    """Return the resident memory of a process in megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def used(folder: Path) -> int:
    """Return the megabytes that the files of a folder take on the disk."""
    total = 0
    for where, _, files in os.walk(folder):
        for name in files:
            try:
                total += os.lstat(Path(where, name)).st_blocks * 512
            except OSError:
                continue
    return total // MB


class Server:
    """Answers for a model server: hostile cells to roots, and replies of which some are hostile."""

    def __init__(self, providers: ModuleType, rng: random.Random) -> None:
        self._providers = providers
        self._rng = rng
        self._turn = threading.Lock()

    def __call__(self, request: Any) -> Any:
        providers, rng = self._providers, self._rng
        with self._turn:
            is_root = "repl" in request.system
            if rng.random() < (0.1 if is_root else 0.3):
                honest = providers.Answer("green " * 20)
                return hostile_words.reply(rng, providers.openai_events, providers.Raw, honest)
            return f"```repl\n{hostile_words.cell(rng)}\n```" if is_root else '{"a": "green"}'


@contextmanager
def driver(folder: Path, text: Path, url: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a driver that is ready, and the descriptor on which its event loop answers SIGUSR1."""
    for name in ("tmp", "home"):
        (folder / name).mkdir(parents=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RLM_", "XDG_"))},
        **{"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home")},
    }
    reading, writing = os.pipe()
    program = str(Path(__file__).with_name("hostile_driver.py"))
    arguments = [str(folder), str(text), f"openai:m@{url}/v1", str(writing)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, program, *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            pass_fds=[writing],
            env=environment,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", (folder / "log").read_text()
            yield process, reading
        finally:
            process.kill()
            os.close(reading)
            os.close(writing)


@pytest.mark.timeout(SECONDS + 120)
def test_nothing_hangs_swells_or_fills_the_driver(providers, tmp_path) -> None:
    """It answers every signal in time, stays small, and ends in the middle of a run when it is told to."""
    text, folder = tmp_path / "text.txt", tmp_path / "driver"
    text.write_text("The grass is green.\n" * 250_000)
    lines: list[str] = []
    with (
        providers.ProviderServer(Server(providers, random.Random(SEED))) as server,
        driver(folder, text, server.url) as (process, reading),
    ):
        reader = threading.Thread(target=lambda: lines.extend(process.stdout or ()))
        reader.start()
        observer = Observer(process.pid, reading, folder, idle=resident(process.pid))
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            observer.look()
            time.sleep(0.1)
        has_ended = process.poll() is not None
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        seconds = time.monotonic() - began
        reader.join()
    log = (folder / "log").read_text()
    print(
        f"\nseed {SEED}: {len(lines)} runs, {observer.answers} signals answered, the slowest after "
        f"{observer.silence:.2f} s; memory {observer.memory} MB (idle {observer.idle} MB); disk "
        f"{observer.disk} MB; ended {seconds:.2f} s after SIGTERM\n{''.join(lines[-300:])}"
    )
    assert not has_ended, log[-5_000:]
    assert len(lines) >= 1
    assert observer.faults == []
    assert observer.memory - observer.idle < MAX_GROWTH
    assert observer.disk < MAX_DISK + 2 * text.stat().st_size // MB
    assert seconds < MAX_END
    assert process.returncode in (130, 143)
    assert "Traceback" not in log, log[-5_000:]
