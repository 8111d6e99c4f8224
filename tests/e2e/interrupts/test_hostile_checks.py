"""Test whole runs whose cells, children and documents are made to hang the driver by what it checks."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

MEMORY_MB = 300

ENDLESS = "^(a|a)+$"
QUOTES = """
import threading
peek(0, 5)
quotes = ["a" * 4900 + "Z" + str(n) * 8 for n in range(50)]
spans = [(n * 20_000, n * 20_000 + 20_000) for n in range(100)]
def call():
    while True:
        try:
            finalize("x", evidence=[*quotes, *spans])
        except Exception as error:
            print(str(error)[:100])
            if "often" in str(error):
                return
threads = [threading.Thread(target=call) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
MARKS = """
peek(0, 5)
quotes = ["e" + "\\u0327\\u0301" * 2_000 + str(n) for n in range(50)]
while True:
    try:
        finalize("x", evidence=quotes)
    except Exception as error:
        print(str(error)[:100])
"""
SCHEMA = """
peek(0, 5)
tree = {"anyOf": [{"items": {"$ref": "#"}, "minItems": n} for n in (2, 3)]}
for schema in (tree, {"uniqueItems": True}, {"anyOf": [{"items": {"type": "string"}}] * 400}):
    try:
        print(sub_query("q", (0, 5), schema=schema).value)
    except Exception as error:
        print(type(error).__name__, str(error)[:200])
while True:
    try:
        finalize("a" * 60 + "b")
    except Exception as error:
        print(str(error)[:100])
"""
CHILD = json.dumps([[number] for number in range(60_000)])
DEEP = "[" * 60 + "]" * 60

HOSTILE = {
    "quotes in a text of one letter": (QUOTES, "a\n" * 2_500_000),
    "quotes of combining marks": (MARKS, ("e" + "\u0301\u0327" * 5_000 + " ") * 200),
    "quotes in one line": (QUOTES, "a" * 1_000_000),
    "schemas": (SCHEMA, "some words\n"),
}


@pytest.fixture(params=HOSTILE)
def hostile(request: pytest.FixtureRequest, tmp_path: Path, rlm_process):
    """Return a function that starts a run with a hostile cell in each round, and waits for its first."""
    cell, text = HOSTILE[request.param]
    (tmp_path / "body.txt").write_text(text)
    (tmp_path / "schema.json").write_text(json.dumps({"type": "string", "pattern": ENDLESS}))
    replies = [{"role": "root", "reply": f"```repl\n{cell}\n# {number}\n```"} for number in range(400)]
    replies += [{"role": "child", "reply": reply} for reply in (DEEP, CHILD) * 10]
    (tmp_path / "model.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in replies))

    def start(*options: str) -> subprocess.Popen[str]:
        typed = ["--schema", "schema.json"] if request.param == "schemas" else []
        process = rlm_process(
            *("ask", "What?", "body.txt", "--strategy", "rlm", "--model", "scripted:model.jsonl"),
            *(*typed, *options, "-v"),
        )
        assert any("round 1: " in line for line in process.stderr)
        return process

    return start


def peak_mb(process: subprocess.Popen[str]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1024


def test_the_driver_answers_a_signal_within_two_seconds(hostile, request: pytest.FixtureRequest) -> None:
    """A run whose answer is accepted with unverified quotes may have ended before."""
    signum = signal.SIGTERM if "line" in request.node.name else signal.SIGINT
    process = hostile()
    time.sleep(2)
    try:
        assert peak_mb(process) < MEMORY_MB
    except (OSError, StopIteration):  # it has ended
        assert process.wait(timeout=5) == 0
        return
    began = time.monotonic()
    process.send_signal(signum)
    answer, _ = process.communicate(timeout=20)
    assert time.monotonic() - began < 4  # 2 s, and as much again on a busy machine
    # It may have ended between the look at it and the signal.
    assert process.returncode == 130 or (process.returncode == 0 and answer)


def test_a_run_ends_by_its_own_limits(hostile) -> None:
    """Whatever is checked, `--max-seconds` holds, within what the last round may take."""
    process = hostile("--max-seconds", "8", "--cell-seconds", "3")
    began = time.monotonic()
    peak = 0
    while process.poll() is None and time.monotonic() - began < 60:
        try:
            peak = max(peak, peak_mb(process))
        except (OSError, StopIteration):
            break
        time.sleep(0.2)
    process.communicate(timeout=20)
    assert time.monotonic() - began < 40
    assert 0 < peak < MEMORY_MB
