"""Fuzz a driver with hostile cells, kernels, brokers and model servers, and watch it from outside.

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
from dataclasses import dataclass, field
from pathlib import Path

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


@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("signum", [signal.SIGTERM])
def test_nothing_hangs_swells_or_fills_the_driver(providers, tmp_path, monkeypatch, signum) -> None:
    """It answers every signal in time, stays small, and ends in the middle of a run when it is told to."""
    text = tmp_path / "text.txt"
    text.write_text("The grass is green.\n" * 250_000)
    folder = tmp_path / "driver"
    for name in ("tmp", "home"):
        (folder / name).mkdir(parents=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("RLM_", "XDG_"))},
        **{"TMPDIR": str(folder / "tmp"), "HOME": str(folder / "home"), "RLM_OPENAI_COMPATIBLE_KEY": "key"},
    }
    rng, turn = random.Random(SEED), threading.Lock()

    def answer(request: object) -> object:
        with turn:
            is_root = "repl" in request.system
            if rng.random() < (0.1 if is_root else 0.3):
                honest = providers.Answer("green " * 20)
                return hostile_words.reply(rng, providers.openai_events, providers.Raw, honest)
            return f"```repl\n{hostile_words.cell(rng)}\n```" if is_root else '{"a": "green"}'

    reading, writing = os.pipe()
    with providers.ProviderServer(answer) as server:
        command = [sys.executable, str(Path(__file__).with_name("hostile_driver.py"))]
        arguments = [str(folder), str(text), f"openai:m@{server.url}/v1", str(SEED), str(writing)]
        with (tmp_path / "log").open("w+") as log:
            process = subprocess.Popen(
                [*command, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=[writing],
                env=environment,
            )
            try:
                lines: list[str] = []
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True).start()
                observer = Observer(process.pid, reading, folder)
                deadline = time.monotonic() + SECONDS
                while time.monotonic() < deadline and process.poll() is None:
                    if len(lines) < 2:
                        observer.idle = resident(process.pid)
                    observer.look()
                    time.sleep(0.1)
                log.seek(0)
                assert process.poll() is None, f"the driver ended by itself: {log.read()[-5_000:]}"
                began = time.monotonic()
                process.send_signal(signum)
                process.wait(20)
                seconds = time.monotonic() - began
            finally:
                process.kill()
    log_text = (tmp_path / "log").read_text()
    print(
        f"\nseed {SEED}: {len(lines)} runs, {observer.answers} signals answered, at most after "
        f"{observer.silence:.2f} s; memory {observer.memory} MB (idle {observer.idle}); disk {observer.disk} MB; "
        f"ended {seconds:.2f} s after {signal.Signals(signum).name}"
    )
    print("".join(lines[-400:]))
    assert len(lines) >= 1
    assert observer.faults == []
    assert observer.memory - observer.idle < MAX_GROWTH
    assert observer.disk < MAX_DISK + 2 * text.stat().st_size // MB
    assert seconds < MAX_END
    assert process.returncode in (130, 128 + signum)
    assert "Traceback" not in log_text, log_text[-5_000:]
