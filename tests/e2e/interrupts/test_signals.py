"""Test Ctrl-C at any moment, and a terminal that is closed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# Does `{act}` as soon as main begins to import the commands.
AT_IMPORT = """
import atexit, os, signal, sys
import rlm.cli
signal.signal(signal.SIGINT, signal.default_int_handler)
class Finder:
    def find_spec(self, name, path, target=None):
        if name == "rlm.cli.app":
            {act}
sys.meta_path.insert(0, Finder())
sys.argv = ["rlm", "--version"]
rlm.cli.main()
"""


@pytest.mark.parametrize(
    ("act", "printed"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)", ""),
        ("atexit.register(os.kill, os.getpid(), signal.SIGINT)", "rlm 0."),
    ],
    ids=["while importing", "while leaving"],
)
def test_ctrl_c_before_and_after_the_work(act, printed) -> None:
    """The exit code is 130 with one line: no traceback, and no death by signal."""
    code = AT_IMPORT.format(act=act)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (130, "rlm: interrupted\n")
    assert done.stdout.startswith(printed)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_in_a_cell(rlm_process, tmp_path, signum) -> None:
    """No process is orphaned."""
    (tmp_path / "cell.py").write_text("import time\ntime.sleep(60)")
    process = rlm_process("sandbox", "exec", "cell.py")
    started = _kernel_of(process)
    process.send_signal(signum)
    stdout, stderr = process.communicate(timeout=20)
    assert (process.returncode, stdout, stderr) == (130, "", "rlm: interrupted\n")
    deadline = time.monotonic() + 5
    while any(Path(f"/proc/{pid}/cmdline").exists() for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}/cmdline").exists() for pid in started)


def test_a_closed_terminal_ends_a_run_cleanly(rlm_process, rlm, tmp_path, provider_server) -> None:
    """SIGHUP, which comes more than once, acts like SIGTERM: the journal is complete."""
    (tmp_path / "a.txt").write_text("The supplier is Acme.\n")
    provider_server.always = "```repl\nprint(1)\nimport time; time.sleep(60)\n```"
    model = f"openai:m@{provider_server.url}/v1"
    process = rlm_process("ask", "What?", "a.txt", "--strategy", "rlm", "--model", model, "-v")
    for line in process.stderr:
        if "    import time" in line:
            break
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGHUP)
    stdout, stderr = process.communicate(timeout=20)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1].startswith("rlm: interrupted; to resume: rlm resume ")
    (listed,) = rlm("runs", "--json").json
    assert listed["stop_reason"] == "cancelled"


def _kernel_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes below `process` once they include a watcher and a kernel."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        assert process.poll() is None
        found = _below(process.pid)
        if len(found) >= 2:
            return found
        time.sleep(0.02)
    raise AssertionError("no kernel was started")


def _below(pid: int) -> list[int]:
    found = []
    try:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                found += [child, *_below(child)]
    except OSError:
        pass  # it ended meanwhile
    return found
