"""No task of a batch finds what another task leaves behind.

One batch, one task after another on one slot: first every task that leaves something of its kind, then every
task that looks for it. A test a kind.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.batch.batch import local_engine, run_batch
from rlm.batch.results import ResultsFile
from rlm.batch.tasks import TasksFile
from rlm.models.base import Request
from rlm.testing import ScriptedModel

KINDS = {
    "a variable": ("planted = 1", "'planted' in globals()"),
    "a builtin that was patched": (
        "import builtins; builtins.divmod = lambda *_: 42; builtins.planted = 1",
        "divmod(7, 2) != (3, 1) or hasattr(__import__('builtins'), 'planted')",
    ),
    "a module of its own": ("import sys, os; sys.modules['planted'] = os", "'planted' in sys.modules"),
    "files": (
        "import os, tempfile\n"
        "for place in ('.', os.path.expanduser('~'), tempfile.gettempdir(), '/tmp', '/var/tmp', '/dev/shm', "
        "'/scratch', '/'):\n"
        "    try:\n        open(os.path.join(place, 'planted'), 'w').write('x')\n"
        "    except OSError:\n        pass",
        "[place for place in ('.', os.path.expanduser('~'), tempfile.gettempdir(), '/tmp', '/var/tmp', "
        "'/dev/shm', '/scratch', '/') if os.path.exists(os.path.join(place, 'planted'))]",
    ),
    "its current folder": ("import os; os.chdir('/')", "os.getcwd() == '/'"),
    "the environment": ("import os; os.environ['PLANTED'] = '1'", "'PLANTED' in os.environ"),
    "a thread that keeps running": (
        "import threading, time\n"
        "threading.Thread(target=lambda: time.sleep(600), name='planted', daemon=True).start()",
        "[one.name for one in threading.enumerate() if one.name == 'planted']",
    ),
    "a process that keeps running": (
        "import os\nnamed, naming = os.pipe()\ntry:\n    if os.fork() == 0:\n        import time, ctypes\n"
        "        ctypes.CDLL(None).prctl(15, b'planted', 0, 0, 0)\n        os.close(naming)\n"
        "        time.sleep(600)\nexcept OSError:\n    pass\nos.close(naming)\nos.read(named, 1)",
        "[pid for pid in os.listdir('/proc') if pid.isdigit() and 'planted' in "
        "open(f'/proc/{pid}/comm').read()]",
    ),
    "handlers of signals": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGUSR1, print)",
        "signal.getsignal(signal.SIGTERM) == signal.SIG_IGN or signal.getsignal(signal.SIGUSR1) == print",
    ),
    "an open socket": (
        "import socket\ntry:\n    kept = socket.socket(socket.AF_UNIX); kept.bind('\\0planted')\n"
        "except OSError:\n    pass",
        "bound()",
    ),
    "the mask of new files": ("import os; os.umask(0o123)", "os.umask(0o22) == 0o123"),
    "shared memory": (
        "from multiprocessing.shared_memory import SharedMemory\n"
        "try:\n    kept = SharedMemory('planted', create=True, size=64)\nexcept OSError:\n    pass",
        "shared()",
    ),
}
"""What a task leaves, and what is true where it is found."""

LOOK = """
import decimal, errno, gc, io, os, random, signal, socket, sys, tempfile, threading
def bound():
    try:
        one = socket.socket(socket.AF_UNIX)
        one.bind("\\0planted")
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
def shared():
    from multiprocessing import shared_memory
    try:
        shared_memory.SharedMemory("planted")
    except OSError:
        return False
    return True
"""


def block(code: str) -> str:
    return f"```repl\n{code}\n```"


async def ran(folder: Path, level: int, root: Callable[[Request], str], tasks: list[str]) -> dict[str, Any]:
    """The answers of a batch on one slot, by the task."""
    (folder / "tasks.jsonl").write_text(
        "".join(json.dumps({"id": task, "task": task, "context": [{"text": task}]}) + "\n" for task in tasks)
    )
    rlm = RLM(
        ScriptedModel.of(root=root, child=lambda request: f"seen by {request.slices[0].text}"),
        settings=Settings(strategy="rlm", sandbox=level, store=folder / "rlm.db"),
    )
    with (
        TasksFile.open(folder / "tasks.jsonl") as file,
        ResultsFile.open(folder / "r.jsonl", "b", {}) as results,
    ):
        async with local_engine(rlm, 1) as run:
            await run_batch(file, results, run, slots=1, limits=Limits(), store=str(folder / "rlm.db"))
    lines = [json.loads(line) for line in (folder / "r.jsonl").read_text().splitlines()]
    return {line["id"]: line["answer"] for line in lines}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, sandbox_level: int) -> Iterator[dict[str, Any]]:
    """What each kind's first task, which leaves it, and its second one found."""

    def root(request: Request) -> str:
        what, kind = request.task.split(" ", 1)
        plant, look = KINDS[kind]
        if what == "leave":
            seen = f"{LOOK}\n{plant}\nseen = repr({look})"
            return block(f"peek(0, 3)\n{seen}\nfinalize(seen)")
        return block(f"peek(0, 3)\n{LOOK}\nfinalize(repr({look}))")

    tasks = [f"{what} {kind}" for what in ("leave", "find") for kind in KINDS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield asyncio.run(ran(tmp_path_factory.mktemp("batch"), sandbox_level, root, tasks))


@pytest.mark.parametrize("kind", KINDS)
def test_no_task_finds_what_an_earlier_task_left(found: dict[str, Any], kind: str) -> None:
    denied = kind == "an open socket"  # at levels 1 and up
    assert denied or found[f"leave {kind}"] not in (None, "False", "[]"), "it is seen where it is left"
    assert found[f"find {kind}"] in ("False", "[]")


async def test_no_task_gets_the_answers_of_another_tasks_children(tmp_path: Path, sandbox_level: int) -> None:
    """The same prompt over another text is another call."""

    def root(request: Request) -> str:
        return block("finalize(str(sub_query('What is it?', (0, 5))))")

    answers = await ran(tmp_path, sandbox_level, root, ["first", "other", "third"])
    assert answers == {task: f"seen by {task}" for task in ("first", "other", "third")}


async def test_the_drivers_memory_does_not_grow_with_tasks(tmp_path: Path, sandbox_level: int) -> None:
    """Descriptors, threads, child processes, folders in the temp folder."""

    def counts_now() -> tuple[int, int, int, int]:
        children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
        folders = list(Path(tempfile.gettempdir()).glob(f"rlm-*-{os.getpid()}-*"))
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(children), len(folders)

    def root(request: Request) -> str:
        return block("finalize(peek(0, 3))")

    counts = []
    for number, tasks in enumerate((4, 20)):
        folder = tmp_path / str(number)
        folder.mkdir()
        await ran(folder, sandbox_level, root, [f"t{n}" for n in range(tasks)])
        gc.collect()
        counts.append(counts_now())
    # A leak of one a task would be 16 more.
    assert all(after <= before + 4 for before, after in zip(*counts, strict=True)), counts
