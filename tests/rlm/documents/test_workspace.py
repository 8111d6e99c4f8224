"""Test the folder of a run's documents, and the cancellation of loading."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from rlm.documents import StreamSource
from rlm.documents.workspace import Workspace
from rlm.errors import DocumentError, UsageError


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder for this process and the processes it starts."""
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


PROMPT_SECONDS = 0.9
"""A tick is 0.1 s; a thread that does not end is abandoned after 1 s."""

HOLDS_ONE = """
import sys, time
from rlm.documents.workspace import Workspace
with Workspace() as workspace:
    (workspace.folder / "context").write_text("a secret document")
    print(workspace.folder, flush=True)
    time.sleep(60)
"""


def test_it_is_private_and_gone_at_its_end(temp: Path) -> None:
    with Workspace() as workspace:
        folder = workspace.folder
        assert folder.parent == temp
        assert folder.name.startswith(f"rlm-context-{os.getpid()}-")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "more").mkdir()
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGHUP, signal.SIGQUIT])
def test_what_a_killed_process_left_is_removed_by_the_next(temp: Path, signum: int) -> None:
    """Documents do not stay on the disk after a process was killed."""
    with subprocess.Popen([sys.executable, "-c", HOLDS_ONE], stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        with Workspace():
            assert (left / "context").exists()
        process.send_signal(signum)
        process.wait()
    assert (left / "context").exists()
    with Workspace() as workspace:
        assert list(temp.iterdir()) == [workspace.folder]


def test_a_reused_process_id_is_not_taken_for_its_owner(temp: Path) -> None:
    with Workspace() as mine:
        record = json.loads((mine.folder / "owner.json").read_text())
        left = temp / f"rlm-context-{os.getpid()}-before"
        left.mkdir()
        (left / "owner.json").write_text(json.dumps({**record, "started": "1"}))
        with Workspace():
            assert not left.exists()
            assert mine.folder.exists()


def test_only_what_is_certainly_left_is_removed(temp: Path) -> None:
    """Links and folders of other hosts, of other versions, and unfinished ones are kept."""
    with Workspace() as mine:
        record = json.loads((mine.folder / "owner.json").read_text())
        kept = {
            "elsewhere": {**record, "host": "another", "pid": 1, "started": "1"},
            "newer": {"format": 7},
            "making": None,
        }
        for name, owner in kept.items():
            folder = temp / f"rlm-context-1-{name}"
            folder.mkdir()
            if owner is not None:
                (folder / "owner.json").write_text(json.dumps(owner))
        (temp / "rlm-context-notes").mkdir()
        os.utime(temp / "rlm-context-notes", (1, 1))
        (temp / "rlm-context-1-link").symlink_to(temp / "rlm-context-notes")
        before = set(temp.iterdir())
        with Workspace():
            assert before < set(temp.iterdir())
        os.utime(temp / "rlm-context-1-making", (1, 1))
        with Workspace():
            assert before - set(temp.iterdir()) == {temp / "rlm-context-1-making"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what is another's")
def test_what_is_anothers_is_let_be(temp: Path) -> None:
    folder = temp / "rlm-context-1-theirs"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    os.utime(folder, (1, 1))
    with Workspace():
        assert folder.exists()


def test_a_temp_folder_that_is_not_there_is_one_clear_line(temp: Path) -> None:
    temp.rmdir()
    with pytest.raises(UsageError, match=r"temp can't be written: No such file.*set TMPDIR") as caught:
        Workspace().__enter__()
    assert "\n" not in str(caught.value)


def test_no_temp_folder_at_all_is_one_clear_line(temp: Path, monkeypatch) -> None:
    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(UsageError, match=r"No usable temporary directory.*: set TMPDIR"):
        Workspace().__enter__()


FILLS_UP = """
import asyncio, resource, signal
from rlm.errors import UsageError
from rlm.documents.workspace import Workspace
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with Workspace() as workspace:
        asyncio.run(workspace.load(["words " * 1_000_000]))
except UsageError as error:
    print(error)
"""


def test_a_temp_folder_that_fills_up_is_one_clear_line(temp: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FILLS_UP], capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith(f"the input can't be written to the temporary folder {temp}: File too large: ")
    assert "set TMPDIR" in line
    assert done.stderr == ""
    assert list(temp.iterdir()) == []


async def test_loading_gives_what_load_gives(temp: Path) -> None:
    reports = []
    with Workspace() as workspace:
        with pytest.raises(DocumentError, match="does not exist"):
            await workspace.load([temp / "nowhere"])
        loaded = await workspace.load(["some text"], lambda name, size: reports.append((name, size)))
        assert loaded.context.chars == 9
        assert reports[-1] == ("text", 9)


class Endless(io.FileIO):
    """A file that never ends. `begun` is set after the first read."""

    def __init__(self) -> None:
        super().__init__("/dev/zero")
        self.begun = threading.Event()

    def read(self, size: int | None = -1, /) -> bytes:
        self.begun.set()
        return super().read(size).replace(b"\0", b"x")


async def seconds_to_cancel(loading: asyncio.Task) -> float:
    """Return the seconds that a cancelled task took to end."""
    began = time.monotonic()
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    return time.monotonic() - began


async def test_cancelling_ends_the_reading_of_an_endless_file(temp: Path, capfd) -> None:
    """An interrupt ends a run within the grace period, even while it loads."""
    with Endless() as stream, Workspace() as workspace:
        loading = asyncio.create_task(workspace.load([StreamSource("endless", stream)]))
        await asyncio.to_thread(stream.begun.wait)
        assert await seconds_to_cancel(loading) < PROMPT_SECONDS
        assert "rlm-load" not in {thread.name for thread in threading.enumerate()}
    assert list(temp.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", ["pipe", "fifo", "terminal"])
async def test_cancelling_ends_the_waiting_for_a_stream(temp: Path, tmp_path: Path, capfd, kind) -> None:
    ends: list[int] = []
    if kind == "fifo":
        source: object = tmp_path / "fifo"
        os.mkfifo(tmp_path / "fifo")
    else:
        ends = list(os.pipe() if kind == "pipe" else reversed(os.openpty()))
        source = StreamSource("stdin", os.fdopen(ends[0], "rb", closefd=False))
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()
    with Workspace() as workspace:
        loading = asyncio.create_task(
            workspace.load([source], lambda _name, _size: loop.call_soon_threadsafe(waiting.set))
        )
        await waiting.wait()
        assert await seconds_to_cancel(loading) < PROMPT_SECONDS
        assert "rlm-load" not in {thread.name for thread in threading.enumerate()}
    assert list(temp.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    for end in ends:
        os.close(end)


NEVER_READS = """
import asyncio, io, sys, threading
from rlm.documents import StreamSource
from rlm.documents.workspace import Workspace

class Never(io.RawIOBase):
    begun = threading.Event()
    def read(self, size=-1):
        self.begun.set()
        threading.Event().wait()

async def main():
    with Workspace() as workspace:
        loading = asyncio.create_task(workspace.load([StreamSource("never", Never())]))
        await asyncio.to_thread(Never.begun.wait)
        loading.cancel()
        try:
            await loading
        except asyncio.CancelledError:
            print("cancelled")

asyncio.run(main())
"""


def test_a_stream_that_never_returns_keeps_no_process_from_ending(temp: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", NEVER_READS], capture_output=True, text=True, check=True, timeout=20
    )
    assert (done.stdout, done.stderr) == ("cancelled\n", "")
    assert list(temp.iterdir()) == []
