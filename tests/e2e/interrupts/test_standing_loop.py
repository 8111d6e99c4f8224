"""Test that a signal ends a command whose event loop stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

STANDING = """
import asyncio, re, sys, time
from rlm.cli.console.interrupts import run_interruptible

async def work():
    print("ready", flush=True)
    {act}

try:
    run_interruptible(work())
except KeyboardInterrupt:
    print("cleaned up", flush=True)
    sys.exit(130)
"""
OVERDUE = "rlm: interrupted; it was busy and did not stop, so it was ended at once\n"


def interrupt(act: str, signum: int, helper: str = "") -> tuple[int, str, str, float]:
    """Return the exit code, both outputs, and the seconds from the signal to the end. `helper` is code before
    the work."""
    program = STANDING.format(act=act).replace("async def work", f"{helper}\nasync def work")
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() == ""
        began = time.monotonic()
        process.send_signal(signum)
        stdout, stderr = process.communicate(timeout=20)
        return process.returncode, stdout, stderr, time.monotonic() - began
    finally:
        process.kill()


def wait_until(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    "act",
    [
        "time.sleep(60)",
        "while True: pass",
        "exec('while True:\\n try: time.sleep(60)\\n except BaseException: pass')",
    ],
)
def test_a_loop_that_stands_still_ends_after_the_first_signal(act, signum, code) -> None:
    """After 1.5 seconds, which is for a machine under load. The exit code is the signal's."""
    returncode, stdout, stderr, seconds = interrupt(act, signum)
    assert (returncode, stdout, stderr) == (code, "", OVERDUE)
    assert seconds < 3


SHORT = """
from rlm.cli.console import interrupts
interrupts.CLEANUP_SECONDS = 1
"""
CLEANUP = """
async def wait():
    try:
        await asyncio.sleep(60)
    finally:
        {cleanup}
"""


def test_a_signal_of_other_code_ends_nothing() -> None:
    """Python reports every signal that has a handler."""
    act = (
        "signal.signal(signal.SIGUSR1, print); os.kill(os.getpid(), signal.SIGUSR1); await asyncio.sleep(60)"
    )
    returncode, _, stderr, _ = interrupt(act, signal.SIGTERM, "import os, signal")
    assert (returncode, stderr) == (130, "")


def test_a_loop_that_stops_during_the_cleanup_is_ended() -> None:
    helper = SHORT + CLEANUP.format(cleanup="time.sleep(60)")
    returncode, stdout, stderr, seconds = interrupt("await wait()", signal.SIGTERM, helper)
    assert (returncode, stdout, stderr) == (143, "", OVERDUE)
    assert seconds < 4


def test_c_code_that_keeps_pythons_lock_in_the_cleanup_is_ended() -> None:
    """No thread of Python can run then."""
    helper = SHORT + CLEANUP.format(cleanup="re.match('(a|a)*b', 'a' * 60)")
    returncode, stdout, stderr, seconds = interrupt("await wait()", signal.SIGTERM, helper)
    assert (returncode, stdout, stderr) == (1, "", "")
    assert seconds < 6


def test_a_loop_that_reacts_cleans_up_at_its_leisure() -> None:
    """The watchdog is for loops that stand still, not for slow cleanups."""
    helper = CLEANUP.format(cleanup="await asyncio.sleep(2.5)")
    returncode, stdout, stderr, _ = interrupt("await wait()", signal.SIGTERM, helper)
    assert (returncode, stdout, stderr) == (130, "cleaned up\n", "")


RUN = """
import sys, time
from rlm import RLM, Settings
from rlm.cli.console.interrupts import run_interruptible
from rlm.testing import ScriptedModel

def root(request):
    if request.round == 1:
        return "```repl\\nx = 1\\nprint(peek(0, 3))\\n```"
    print("standing", flush=True)
    time.sleep(60)

rlm = RLM(ScriptedModel.of(root=root), settings=Settings(strategy="rlm", store=sys.argv[1]))
run_interruptible(rlm.run("What?", "one two three"))
"""


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_stands_still_leaves_no_kernel_and_a_good_journal(
    rlm, tmp_path, environment, signum, code
):
    """It can be resumed: all that happened before is in the journal."""
    store = tmp_path / "rlm.db"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "standing\n", process.communicate()
    below = _below(process.pid)
    assert len(below) >= 3
    process.send_signal(signum)
    _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (code, OVERDUE)
    assert wait_until(lambda: not any(map(_is_alive, below)))
    (listed,) = rlm("runs", "--json", "--store", str(store)).json
    assert (listed["state"], listed["rounds"]) == ("interrupted", 1)


def _below(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *_below(child)]
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
