"""Test kernels that are forked: they share nothing they must not, and leave no remains."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.isolation.policy import LEVELS
from rlm.sandbox.launch.forkserver import MAX_FAILURES, Forkserver, ForkserverFailed


@pytest.fixture
def forkserver():
    """Yield a forkserver of this test alone, for tests that hurt it."""
    made = Forkserver()
    yield made
    made.close()


@pytest.fixture
def programs():
    """Yield a forkserver that starts each kernel as a program."""
    made = Forkserver("program")
    yield made
    made.close()


@pytest.fixture
async def open_forked(make_context, handler, forkserver):
    """Yield a function that opens kernels of this test's forkserver."""
    async with AsyncExitStack() as stack:
        context = make_context("one\ntwo\n")

        async def open_(level: int | str = "auto") -> JupyterSandbox:
            kernel = JupyterSandbox(
                context, handler, kernels=FreshKernels(level=level, minimum=0, forkserver=forkserver)
            )
            stack.push_async_callback(kernel.close)
            try:
                await kernel.open()
            except SandboxRefused as error:
                pytest.skip(f"level {level} can't be had on this machine: {error}")
            return kernel

        yield open_


async def stdout_of(kernel, code: str) -> str:
    result = await kernel.execute(code, round=1, timeout=20)
    assert result.status == "ok", result
    return result.stdout


async def is_forked(kernel) -> bool:
    return "forkserver_process" in await stdout_of(kernel, "print(open('/proc/self/cmdline').read())")


def state(pid: int) -> str:
    """Return the state letter of proc(5), or X if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


def is_gone(pid: int) -> bool:
    return state(pid) in "XZ"


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(20):
        while not all(map(is_gone, pids)):
            await asyncio.sleep(0.01)


def children_of(pid: int) -> list[int]:
    """Return all descendants, whichever threads started them."""
    found = []
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            found += [child, *children_of(child)]
    return found


async def test_kernels_are_forked_and_many_at_once(open_forked) -> None:
    """The forkserver works in parallel, too."""
    kernels = await asyncio.gather(*[open_forked() for _ in range(6)])
    answers = await asyncio.gather(*[stdout_of(kernel, f"print({n})") for n, kernel in enumerate(kernels)])
    assert answers == [f"{n}\n" for n in range(6)]
    assert all(await asyncio.gather(*map(is_forked, kernels)))


async def test_two_kernels_draw_different_numbers(open_forked) -> None:
    """The PRNGs are reseeded."""
    code = (
        "import random, uuid, os, ssl, secrets, tempfile\n"
        "drawn = [random.random(), random.Random().random(), uuid.uuid4(), uuid.uuid1(), os.urandom(8),\n"
        "         ssl.RAND_bytes(8), secrets.token_hex(8), tempfile.mktemp(),\n"
        "         get_ipython().kernel.session.session]\n"
        "try:\n    import numpy; drawn.append(numpy.random.random())\nexcept ImportError: pass\n"
        "print(*drawn, sep='\\n')"
    )
    one, two = await asyncio.gather(open_forked(), open_forked())
    first, second = (await stdout_of(one, code)).split("\n"), (await stdout_of(two, code)).split("\n")
    assert len(first) == len(second) >= 10
    assert [same for same in first if same and same in second] == []


@pytest.mark.parametrize("level", [0, 2])
async def test_no_descriptor_leaks_into_a_kernel(open_forked, level) -> None:
    """A kernel has its own sockets, files and pipes, and no others."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    planted = os.open(__file__, os.O_RDONLY)
    os.set_inheritable(planted, True)
    try:
        first, second = [await open_forked(level) for _ in range(2)]
        code = (
            "import os\n"
            "for fd in os.listdir('/proc/self/fd'):\n"
            "    try: print(os.readlink(f'/proc/self/fd/{fd}'))\n"
            "    except OSError: pass"
        )
        ours = {
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in map(str, range(64))
            if os.path.exists(f"/proc/self/fd/{fd}")
        }
        one, two = [set((await stdout_of(kernel, code)).split("\n")) for kernel in (first, second)]
        common = {link for link in one if ":[" in link and not link.startswith("anon_inode")}
        assert common
        assert not common & two
        assert not common & ours
        assert {link for link in one if link.startswith("/")} <= {"/dev/null"} | {
            link for link in one if link.startswith("/proc/")
        }
        assert __file__ not in one
    finally:
        for descriptor in (reading, writing, planted):
            os.close(descriptor)


async def test_the_environment_is_the_kernels_own(open_forked, monkeypatch) -> None:
    """It holds nothing of the driver's environment or the forkserver's."""
    monkeypatch.setenv("SOME_API_KEY", "sk-planted-0123456789")
    kernel = await open_forked()
    output = await stdout_of(
        kernel,
        "import os, ctypes\n"
        "ctypes.CDLL(None).getenv.restype = ctypes.c_char_p\n"
        "print(ctypes.CDLL(None).getenv(b'SOME_API_KEY'), open('/proc/self/environ').read())\n"
        "print(dict(os.environ))\n"
        "print(os.environ['HOME'] == os.path.expanduser('~') == os.getcwd())",
    )
    assert "planted" not in output
    assert output.endswith("True\n")


async def test_a_shell_made_before_the_fork_is_as_one_made_after(
    open_forked, programs, make_context, handler
) -> None:
    """The shell that the forkserver prepares holds no folder, no cell and no name."""
    code = (
        "import json, linecache, os, sys\n"
        "shell = get_ipython()\n"
        "print(json.dumps({'names': sorted(map(str, {**globals()})), 'dh': list(map(str, _dh)),\n"
        "    'folders': [os.getcwd(), shell.starting_dir, shell.ipython_dir, shell.profile_dir.location],\n"
        "    'made': sorted(os.listdir(shell.profile_dir.location)), 'count': shell.execution_count,\n"
        "    'cells': len([name for name in linecache.cache if 'ipykernel' in name]),\n"
        "    'named': len(shell.compile._filename_map),\n"
        "    'last': repr(shell.last_execution_result), 'environment': dict(os.environ), 'path': sys.path,\n"
        "    'pid': [shell.kernel.session.pid, int(os.readlink('/proc/self'))], 'hidden':\n"
        "    [name for name in sys.modules if name.split('.')[0] == 'rlm']}))"
    )
    plain = JupyterSandbox(
        make_context("one\ntwo\n"), handler, kernels=FreshKernels(minimum=0, forkserver=programs)
    )
    try:
        await plain.open()
        after = json.loads(await stdout_of(plain, code))
    finally:
        await plain.close()
    before = json.loads(await stdout_of(await open_forked(), code))
    assert before["pid"][0] == before["pid"][1]
    assert before["cells"] == before["named"] == 1
    assert before["hidden"] == []
    assert {**before, "pid": 0} == {**after, "pid": 0}


async def test_the_layers_are_those_of_a_program(open_forked, programs, make_context, handler) -> None:
    """The way of the start does not change the confinement."""
    code = (
        "import os, resource, signal\n"
        "status = dict(l.split(':', 1) for l in open('/proc/self/status'))\n"
        # readline, which only one of them may have imported, listens for the terminal's size.
        "status['SigCgt'] = hex(int(status['SigCgt'], 16) & ~(1 << signal.SIGWINCH - 1))\n"
        "print([status[k].strip() for k in ('CapInh','CapPrm','CapEff','CapBnd','CapAmb','NoNewPrivs',"
        "'Seccomp',"
        "'Seccomp_filters','Uid','Gid','SigBlk','SigCgt') if k in status])\n"
        "print([resource.getrlimit(getattr(resource, n)) for n in "
        "('RLIMIT_AS','RLIMIT_DATA','RLIMIT_FSIZE','RLIMIT_NOFILE','RLIMIT_NPROC','RLIMIT_CORE')])\n"
        "print(sorted(l.split()[4] for l in open('/proc/self/mountinfo') if '/rlm-' not in l.split()[4]))\n"
        "print(os.getpid(), os.getppid(), os.getsid(0), os.getcwd(), sorted(os.environ))\n"
        "print(sorted(p for p in os.listdir('/proc') if p.isdigit()))"
    )

    async def facts(kernel: JupyterSandbox) -> tuple[str, dict[str, str]]:
        output, layers = await stdout_of(kernel, code), dict(kernel.isolation.layers)
        # If the driver is root, each kernel has its own user.
        user = (await stdout_of(kernel, "import os; print(os.getuid())")).strip()
        if user != str(os.getuid()):
            output, layers["rlimits"] = output.replace(user, "ITS"), layers["rlimits"].replace(user, "ITS")
        return output, layers

    kernel = await open_forked(2)
    plain = JupyterSandbox(
        make_context("one\ntwo\n"), handler, kernels=FreshKernels(level=2, forkserver=programs)
    )
    try:
        await plain.open()
        assert await facts(kernel) == await facts(plain)
        assert set(kernel.isolation.layers) == set(LEVELS[2])
    finally:
        await plain.close()


async def test_a_killed_forkserver_takes_nothing_with_it(open_forked, forkserver) -> None:
    """Running kernels continue, and the next one comes from a new forkserver."""
    kernel = await open_forked()
    before = forkserver.pid
    os.kill(before, signal.SIGKILL)
    await until_gone(before)
    assert await stdout_of(kernel, "print('still here')") == "still here\n"
    another = await open_forked()
    assert await is_forked(another)
    assert forkserver.pid not in (None, before)


async def test_a_forkserver_that_dies_over_a_request_is_replaced(open_forked, forkserver) -> None:
    await open_forked()
    before = forkserver.pid
    os.kill(before, signal.SIGSTOP)
    async with asyncio.timeout(5):
        while state(before) != "T":
            await asyncio.sleep(0.001)
    opening = asyncio.ensure_future(open_forked())
    while not opening.done() and not _has_request(forkserver):
        await asyncio.sleep(0.001)
    os.kill(before, signal.SIGKILL)
    assert await is_forked(await opening)
    assert forkserver.pid not in (None, before)


def _has_request(forkserver: Forkserver) -> bool:
    """Return whether the request was sent: unread bytes stay in the socket of the stopped process."""
    import array
    import fcntl
    import termios

    unsent = array.array("i", [0])
    fcntl.ioctl(forkserver._requests.fileno(), termios.TIOCOUTQ, unsent)
    return unsent[0] > 0


async def test_one_that_never_works_is_not_tried_for_ever(monkeypatch, forkserver) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    for _ in range(MAX_FAILURES):
        with pytest.raises(ForkserverFailed, match="the forkserver gave no watcher"):
            await forkserver.open(2)
    with pytest.raises(ForkserverFailed, match="3 times in a row"):
        await forkserver.open(2)


async def test_kernels_are_programs_where_an_import_starts_a_thread(
    monkeypatch, tmp_path, make_context, handler, forkserver
) -> None:
    """A fork would take a broken copy of the thread's locks."""
    from rlm.sandbox.launch import forkserver as module

    (tmp_path / "sitecustomize.py").write_text(
        "import sys, threading, time\n"
        "if 'fork' in sys.orig_argv:\n"
        "    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    clean = module.clean_environment
    monkeypatch.setattr(
        module, "clean_environment", lambda home: {**clean(home), "PYTHONPATH": str(tmp_path)}
    )
    kernel = JupyterSandbox(
        make_context("x"), handler, kernels=FreshKernels(minimum=0, forkserver=forkserver)
    )
    try:
        await kernel.open()
        assert not await is_forked(kernel)
    finally:
        await kernel.close()


async def test_a_watcher_that_is_killed_takes_its_kernel_only(open_forked, forkserver) -> None:
    first, second = [await open_forked() for _ in range(2)]
    watcher = int(Path(f"/proc/{forkserver.pid}/task/{forkserver.pid}/children").read_text().split()[0])
    kernels = children_of(watcher)
    os.kill(watcher, signal.SIGKILL)
    await until_gone(watcher, *kernels)
    died = await first.execute("1", round=1, timeout=5) if first.alive else None
    assert died is None or died.status == "died"
    assert not first.alive
    assert await stdout_of(second, "print(2)") == "2\n"


_DRIVER = """
import asyncio, sys
from pathlib import Path
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.launch.forkserver import Forkserver, shared_forkserver
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import FreshKernels

async def main():
    # What is slow on a busy machine is no warning of ours.
    asyncio.get_running_loop().slow_callback_duration = 60
    with ContextFileWriter(Path(sys.argv[1]) / "context") as writer:
        writer.begin_document("t"); writer.write("text")
        context = writer.finish()
    shared = shared_forkserver()
    shared._way = sys.argv[2]
    kernel = JupyterSandbox(context, None, kernels=FreshKernels(minimum=0, forkserver=shared))
    await kernel.open()
    print(kernel.isolation.level, flush=True)
    {then}

asyncio.run(main())
"""


def _driver(tmp_path: Path, launch: str, then: str, temp: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-c",
            _DRIVER.replace("{then}", then),
            str(tmp_path),
            launch,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(temp or "/tmp")},
    )


@pytest.mark.parametrize(
    ("launch", "busy"), [("fork", "import os\nos.fork()\nwhile True: pass"), ("program", "")]
)
async def test_a_driver_killed_outright_leaves_no_process_and_no_file(
    tmp_path, short_folder, launch, busy
) -> None:
    """Nothing is orphaned after kill -9 of the driver, and nothing is left on the disk."""
    then = (
        f"sys.stdin.readline(); await kernel.execute({busy!r}, round=1, timeout=60)"
        if busy
        else "await asyncio.sleep(60)"
    )
    driver = _driver(tmp_path, launch, then, short_folder)
    with driver:
        level = int(driver.stdout.readline())
        if busy and level < 2:
            driver.kill()
            pytest.skip(f"at level {level} a cell's children are not held")
        pids = children_of(driver.pid)
        if busy:
            driver.stdin.write("\n")
            driver.stdin.flush()
            async with asyncio.timeout(30):
                # Helpers of the start may end meanwhile.
                while not set(children_of(driver.pid)) - set(pids):
                    await asyncio.sleep(0.01)
            pids = children_of(driver.pid)
        assert len(pids) >= 2
        assert list(short_folder.iterdir())
        driver.kill()
        driver.wait()
        await until_gone(*pids)
        assert list(short_folder.iterdir()) == []


async def test_what_no_process_was_left_to_remove_is_removed_by_the_next_kernel(
    tmp_path, short_folder, make_context, handler, monkeypatch
) -> None:
    """Nothing is left for ever, even if driver, forkserver and watcher are all killed with -9."""
    with _driver(tmp_path, "fork", "await asyncio.sleep(60)", short_folder) as driver:
        driver.stdout.readline()
        pids = children_of(driver.pid)
        for pid in (*pids, driver.pid):
            # They are stopped first, so that none cleans up when it sees another one's end.
            os.kill(pid, signal.SIGSTOP)
        for pid in (driver.pid, *pids):
            # Some die with their parent.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        driver.wait()
        await until_gone(*pids)
    (left,) = short_folder.iterdir()
    monkeypatch.setattr("tempfile.tempdir", str(short_folder))
    kernel = JupyterSandbox(make_context("x"), handler, minimum=0)
    try:
        await kernel.open()
        assert not left.exists()
        assert len(list(short_folder.iterdir())) == 1
    finally:
        await kernel.close()
    assert list(short_folder.iterdir()) == []


_LOADS = """
import sys, time
from rlm.documents.workspace import Workspace
from rlm.sandbox.launch.forkserver import shared_forkserver
with Workspace() as workspace:
    (workspace.folder / "context").write_text("a secret document")
    shared_forkserver().warm()
    print(shared_forkserver().pid, flush=True)
    time.sleep(60)
"""


async def test_a_forkserver_clears_up_after_its_killed_driver(short_folder) -> None:
    """The documents of a run are removed at once, not at the next run, even after kill -9."""
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(short_folder)}
    command = [sys.executable, "-c", _LOADS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as driver:
        server = int(driver.stdout.readline())
        (folder,) = short_folder.iterdir()
        assert (folder / "context").exists()
        # Before the forkserver has begun its work: it must know its driver all the same.
        driver.kill()
        driver.wait()
        async with asyncio.timeout(8):
            await until_gone(server)
    assert list(short_folder.iterdir()) == []


@pytest.mark.parametrize("launch", ["fork", "program"])
async def test_a_driver_that_ends_does_so_quietly(tmp_path, launch) -> None:
    """No process is left, and no warning appears at the interpreter's exit."""
    with _driver(tmp_path, launch, "sys.stdin.readline(); await kernel.close()") as driver:
        driver.stdout.readline()
        pids = children_of(driver.pid)
        assert len(pids) >= 2
        _, stderr = driver.communicate("\n", timeout=30)
    assert stderr == ""
    assert driver.returncode == 0
    await until_gone(*pids)


async def test_a_forked_driver_leaves_the_forkserver_alone(open_forked, forkserver) -> None:
    """A process forked from the driver (multiprocessing) closes its connection. The forkserver ends with
    the driver.
    """
    await open_forked()
    pid = os.fork()
    if pid == 0:
        forkserver.abandon()
        os._exit(0 if forkserver.pid is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    server = forkserver.pid
    assert server is not None
    await asyncio.to_thread(forkserver.close)
    assert is_gone(server)


def test_it_is_asked_from_several_threads(make_context, handler, forkserver) -> None:
    """Runs in several threads, each with its own loop, share one forkserver."""
    context = make_context("x")

    async def one(number: int) -> str:
        kernel = JupyterSandbox(context, handler, kernels=FreshKernels(minimum=0, forkserver=forkserver))
        try:
            await kernel.open()
            return await stdout_of(kernel, f"print({number})")
        finally:
            await kernel.close()

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(lambda n: asyncio.run(one(n)), range(3))) == ["0\n", "1\n", "2\n"]
