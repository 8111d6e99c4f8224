"""Test attacks through the command line: `rlm sandbox exec` at auto."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

RLM = Path(sys.executable).with_name("rlm")
MAX_GROWTH_MB = 64
_PR_SET_CHILD_SUBREAPER = 36
_PRELUDE = """
import json, os, signal, socket, struct, threading, time
channel = helpers._channel._socket
def links():
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            one = socket.socket(fileno=os.dup(fd))
            if fd != channel.fileno() and one.family == socket.AF_UNIX and one.getpeername() is not None:
                yield one
        except OSError: pass
def frame(body): channel.sendall(struct.pack("<I", len(body)) + body)
def forever(send, data):
    while True: send(data)
"""

ATTACKS = {
    "nothing": "1",
    "noise on the channel of cells": (
        "data = (b'\\xff' + bytes(8) + b'\\x7f\\x03' + bytes(53)) * 1_000\n"
        "for one in list(links()): threading.Thread(target=forever, args=(one.sendall, data)).start()\n"
        "time.sleep(60)"
    ),
    "empty frames without end": (
        "data = bytes(2**20)\n"
        "for one in list(links()): threading.Thread(target=forever, args=(one.sendall, data)).start()\n"
        "time.sleep(60)"
    ),
    "a frame that is announced and does not come": (
        "for one in list(links()): one.sendall(struct.pack('<I', 2**24) + bytes(9))\ntime.sleep(60)"
    ),
    "a signed reply before the reply": (
        "kernel = get_ipython().kernel\n"
        "kernel.session.send(kernel.shell_stream, 'execute_reply', {'status': 'ok', 'cell':"
        " {'stdout': 'x' * 15_000_000}}, kernel.get_parent())"
    ),
    "a signed bomb": (
        "kernel = get_ipython().kernel\n"
        "bomb = b'{\"a\":[' + b'[],' * 4_000_000 + b'[]]}'\n"
        "head = kernel.session.pack({'msg_id': 'a', 'msg_type': 'execute_reply', 'version': '5.3'})\n"
        "parts = [head, b'{}', b'{}', bomb]\n"
        "kernel.shell_stream.send_multipart([b'<IDS|MSG>', kernel.session.sign(parts), *parts])\n"
        "time.sleep(60)"
    ),
    "large frames, one after another": (
        "body = json.dumps({'id': 1, 'method': 'finalize', 'params': {'value': 'x' * 3_900_000}}).encode()\n"
        "forever(frame, body)"
    ),
    "ten thousand nested lists": "frame(b'[' * 10_000 + b']' * 10_000); time.sleep(60)",
    "output that grows on its way": (
        "print('\\x01' * 1_000_000 + '\\U0001f600'); '\\x01\\U0001f600' * 500_000"
    ),
    "a fork bomb in sessions of its own": (
        "while True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass"
    ),
    "sockets without number": (
        "made = 0\nfor n in range(5_000):\n"
        "    try: one = socket.socket(socket.AF_UNIX)\n    except OSError: continue\n"
        "    try: one.bind(f'n{n}'); made += 1\n"
        "    except OSError: pass\n    one.close()\n"
        "print('GOT THROUGH' if made else '')"
    ),
    "everything stopped": "os.kill(-1, signal.SIGSTOP); os.kill(os.getpid(), signal.SIGSTOP)",
    "a child that outlives closed descriptors": (
        "if os.fork() == 0: os.setsid(); time.sleep(600)\nos.closerange(0, 1_000)"
    ),
    "an end that does not come": (
        "import atexit\natexit.register(time.sleep, 600); atexit.register(lambda: os._exit(0))\nexit()"
    ),
}


class Command:
    """Runs one `rlm sandbox exec`, with its own temp folder."""

    def __init__(self, name: str, code: str, folder: Path) -> None:
        self.name = name
        self.temp = folder / "temp"
        self.temp.mkdir(parents=True)
        cell = folder / "cell.py"
        cell.write_text(_PRELUDE + code)
        self.peak_mb = 0
        self.output = folder / "said"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [RLM, "sandbox", "exec", cell, "--json", "--cell-seconds", "1"],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": str(self.temp)},
            )

    def watch(self) -> bool:
        """Measure its size, and return whether it still runs."""
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            self.peak_mb = max(
                self.peak_mb, next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))
            )
        return self.process.poll() is None


@pytest.fixture
def orphans() -> Iterator[list[int]]:
    """Adopt the orphans of a command, and kill them afterwards."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = set(_children())
    left: list[int] = []
    yield left
    end = time.monotonic() + 5
    while (found := set(_children()) - before) and time.monotonic() < end:
        _reap()
        time.sleep(0.02)
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    for pid in found:
        os.kill(pid, 9)
    assert not found, f"{len(found)} processes were left"


def _children() -> list[int]:
    return [
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    ]


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def test_the_command_survives_what_a_cell_does(short_folder, orphans) -> None:
    """The driver stays small, ends, and leaves no process and no file."""
    commands = [
        Command(name, code, short_folder / str(number)) for number, (name, code) in enumerate(ATTACKS.items())
    ]
    end = time.monotonic() + 120
    while sum(command.watch() for command in commands):
        assert time.monotonic() < end, [command.name for command in commands if command.watch()]
        time.sleep(0.02)
    if "--sandbox" in commands[0].output.read_text():
        pytest.skip(f"no level that auto takes can be had here: {commands[0].output.read_text()}")
    usual = commands[0].peak_mb
    for command in commands:
        result = json.loads(command.output.read_bytes())
        assert result["status"] in ("ok", "error", "timeout", "died"), command.name
        assert "GOT THROUGH" not in result["stdout"], command.name
        assert (result["status"] == "ok") == (command.process.returncode == 0), command.name
        assert result["status"] != "died" or "the kernel" in result["evalue"], command.name
        assert command.peak_mb - usual < MAX_GROWTH_MB, f"{command.name}: {command.peak_mb} MB"
        assert list(command.temp.iterdir()) == [], command.name
