"""Test that Ctrl-C, SIGTERM and SIGKILL end a run at once, in one line, without remains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

QUESTION = "What is the special magic number for loving-cockroach?"
NEEDLE = "One of the special magic numbers for loving-cockroach is: 5663623."
FILLER = "The grass is green. The sky is blue. Here we go. There and back again.\n"


@pytest.fixture
def haystack(tmp_path: Path) -> Path:
    path = tmp_path / "big.txt"
    half = FILLER * (3_000_000 // len(FILLER) // 2)
    path.write_text(half + NEEDLE + "\n" + half)
    return path


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything(rlm_process, haystack, provider_server, rlm, signum) -> None:
    """The exit code is 130, nothing is orphaned, the journal is complete, and the line names `rlm resume`."""
    provider_server.always = "```repl\nprint(1)\nimport time; time.sleep(60)\n```"
    model = f"openai:m@{provider_server.url}/v1"
    process = rlm_process("ask", QUESTION, str(haystack), "--model", model, "-v")
    for line in process.stderr:
        if "    import time" in line:
            break
    started = descendants(process.pid)
    assert len(started) >= 2
    process.send_signal(signum)
    stdout, stderr = process.communicate(timeout=20)
    assert (process.returncode, stdout) == (130, "")
    line = stderr.strip().splitlines()[-1]
    assert line.startswith("rlm: interrupted; to resume: rlm resume ")
    deadline = time.monotonic() + 5
    while any(map(alive, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, started))
    run_id = line.rpartition(" ")[2]
    (listed,) = rlm("runs", "--json").json
    assert (listed["run_id"], listed["state"], listed["stop_reason"]) == (run_id, "interrupted", "cancelled")
    assert "cancelled" in rlm("show", run_id).stdout


def test_no_other_process_of_a_run_has_a_key(rlm_process, haystack, provider_server, environment) -> None:
    """The driver hides its own environment; what it starts is readable for other programs of the user."""
    environment["OPENAI_API_KEY"] = key = "sk-planted-0123456789abcdef"
    provider_server.always = "```repl\nprint(1)\nimport time; time.sleep(60)\n```"
    process = rlm_process(
        "ask", QUESTION, str(haystack), "--model", f"openai:m@{provider_server.url}/v1", "-v"
    )
    for line in process.stderr:
        if "print(1)" in line:
            break
    started = descendants(process.pid)
    assert len(started) >= 2
    for pid in started:
        assert key.encode() not in Path(f"/proc/{pid}/environ").read_bytes(), Path(
            f"/proc/{pid}/cmdline"
        ).read_bytes()


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    folder = tmp_path / "temp"
    folder.mkdir()
    return folder


class Loading:
    """Runs `rlm ask` over `paths`, with its own temp folder."""

    def __init__(self, environment: dict[str, str], temp: Path) -> None:
        self._environment = {**environment, "TMPDIR": str(temp)}
        self._temp = temp
        self.kept = Path(environment["XDG_CACHE_HOME"], "rlm", "contexts")
        self._processes: list[subprocess.Popen[str]] = []

    def __call__(self, *paths: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start the command, and return when it has begun to read."""
        process = subprocess.Popen(
            [sys.executable, "-m", "rlm", "ask", QUESTION, *paths, "--quiet"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        self._processes.append(process)
        deadline = time.monotonic() + 30
        while not (
            any(self._temp.glob(f"rlm-context-{process.pid}-*/context/*")) or any(self.kept.glob("part-*/*"))
        ):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    def kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture
def loading(environment: dict[str, str], temp: Path) -> Iterator[Loading]:
    started = Loading(environment, temp)
    yield started
    started.kill()


def with_pipe(loading: Loading, _folder: Path) -> subprocess.Popen[str]:
    reading, writing = os.pipe()
    os.write(writing, b"The beginning of something.\n")
    process = loading("-", stdin=reading)
    os.close(reading)
    process.other_end = os.fdopen(writing, "wb")  # type: ignore[attr-defined]
    return process


def with_terminal(loading: Loading, _folder: Path) -> subprocess.Popen[str]:
    driver, terminal = os.openpty()
    process = loading("-", stdin=terminal)
    os.close(terminal)
    process.other_end = os.fdopen(driver, "wb")  # type: ignore[attr-defined]
    return process


def with_fifo(loading: Loading, folder: Path) -> subprocess.Popen[str]:
    os.mkfifo(folder / "fifo")
    return loading(str(folder / "fifo"))


def with_big_file(loading: Loading, folder: Path) -> subprocess.Popen[str]:
    """Make a text of gigabytes that ends in a hole and takes little disk space. Its modification time is in
    the future, so it is not cached.
    """
    return loading(big_file(folder, time.time() + 3_600))


def with_big_file_to_keep(loading: Loading, folder: Path) -> subprocess.Popen[str]:
    return loading(big_file(folder, time.time() - 3_600))


def big_file(folder: Path, changed: float) -> str:
    big = folder / "big.txt"
    big.write_text(FILLER * 10_000)
    os.truncate(big, 8 << 30)
    os.utime(big, (changed, changed))
    return str(big)


SOURCES: dict[str, Callable[[Loading, Path], subprocess.Popen[str]]] = {
    "a pipe that stays open": with_pipe,
    "a terminal": with_terminal,
    "a named pipe nobody writes to": with_fifo,
    "a file of gigabytes": with_big_file,
    "a file of gigabytes to be kept": with_big_file_to_keep,
}


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("source", SOURCES)
def test_an_interrupt_ends_the_loading(loading, tmp_path, temp, source, signum) -> None:
    """The exit code is 130, and no document stays on the disk."""
    process = SOURCES[source](loading, tmp_path)
    began = time.monotonic()
    process.send_signal(signum)
    stdout, stderr = process.communicate(timeout=20)
    seconds = time.monotonic() - began
    assert (process.returncode, stdout, stderr) == (130, "", "rlm: interrupted\n")
    assert list(temp.iterdir()) == []
    assert list(loading.kept.glob("*")) == []
    # This includes the interpreter's exit on a busy machine.
    assert seconds < 5
    if hasattr(process, "other_end"):
        process.other_end.close()


def test_what_a_killed_run_left_is_removed_by_the_next(loading, rlm, tmp_path, temp) -> None:
    """The temp folder holds documents, so `kill -9` must not leave them there for ever."""
    os.mkfifo(tmp_path / "fifo")
    # A forkserver would remove the folder at once.
    process = loading("--strategy", "direct", str(tmp_path / "fifo"))
    process.kill()
    process.communicate()
    (left,) = temp.iterdir()
    assert left.stat().st_mode & 0o777 == 0o700
    (tmp_path / "a.txt").write_text(NEEDLE)
    assert rlm("ask", QUESTION, str(tmp_path / "a.txt"), env={"TMPDIR": str(temp)}).code == 0
    assert list(temp.iterdir()) == []


def descendants(pid: int) -> list[int]:
    """Return the ids of all processes below `pid`."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


WHILE_OPTIONS_ARE_READ = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Interrupting(MetaPathFinder):
    def find_spec(self, name, *_):
        if name == "pydantic":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["rlm", "ask", "How many?", "no-file"]
from rlm.cli import main
main()
"""


def test_an_interrupt_while_options_are_read_says_so() -> None:
    """Reading the options takes half a second on a busy machine. The exit code is 130, with one line."""
    done = subprocess.run(
        [sys.executable, "-c", WHILE_OPTIONS_ARE_READ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "rlm: interrupted\n")
