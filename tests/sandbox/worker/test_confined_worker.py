"""Test confined workers: what a job can do, what it cannot, and that nothing of it is left."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

import pytest

import rlm
from rlm.sandbox.isolation import bubblewrap
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.isolation.syscalls import libc
from rlm.sandbox.launch.confined_worker import ConfinedWorker, WorkerFailed, WorkerTimeout

WAYS = [Candidate(2), Candidate(2, "bubblewrap"), Candidate(1)]
JOB = "hostile_job"


@pytest.fixture(scope="module")
def library() -> Iterator[Path]:
    """A folder of installed packages that holds the jobs of these tests and can be read by any user."""
    folder = Path(tempfile.mkdtemp(prefix="library"))
    folder.chmod(0o755)
    site = folder / "site-packages"
    site.mkdir()
    shutil.copy(Path(__file__).with_name("hostile_job.py"), site)
    sys.path.append(str(site))
    yield site
    sys.path.remove(str(site))
    shutil.rmtree(folder)


@pytest.fixture
def start(library: Path) -> Iterator[Callable[..., ConfinedWorker]]:
    with ExitStack() as stack:

        def make(way: Candidate | None = None, memory_mb: int = 512) -> ConfinedWorker:
            skip_if_impossible(way)
            ways = None if way is None else [way]
            return stack.enter_context(ConfinedWorker(memory_mb=memory_mb, ways=ways))

        yield make


def skip_if_impossible(way: Candidate | None) -> None:
    """Skip the test where this user cannot use bubblewrap."""
    if way is not None and way.launcher == "bubblewrap":
        try:
            bubblewrap.find()
        except OSError as error:
            pytest.skip(str(error))


def call(worker: ConfinedWorker, job: str, request: bytes = b"", seconds: float = 20.0, **given) -> bytes:
    return worker.call(f"{JOB}:{job}", request, seconds=seconds, most_bytes=1 << 20, **given)


def descendants() -> set[int]:
    """Return the living processes below this one."""
    above = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                above[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in above.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_job_gets_what_it_is_given(start, way: Candidate, tmp_path: Path) -> None:
    worker = start(way)
    (tmp_path / "given.txt").write_text("the file")
    with (tmp_path / "given.txt").open("rb") as file:
        answer = call(worker, "echo", b"the request, ", argument="the argument, ", files=[file.fileno()])
    assert answer == b"the argument, the request, the file"
    assert worker.level == way.level
    assert worker.refused == {}


ATTACK = textwrap.dedent(
    """
    import json, os, sys
    sys.path.append(sys.argv.pop(1))
    from rlm.sandbox.launch.confined_worker import ConfinedWorker
    from rlm.sandbox.isolation.policy import Candidate
    site, level, launcher, target = sys.argv[1:]
    sys.path.append(site)
    target = {**json.loads(target), "driver": os.getpid()}
    with ConfinedWorker(memory_mb=512, ways=[Candidate(int(level), launcher)]) as worker:
        with worker.begin("hostile_job:attack") as channel:
            channel.sendall(json.dumps(target).encode())
            channel.shutdown(1)
            print(channel.recv(99999).decode())
    """
)


REPOSITORY = str(Path(rlm.__file__).parents[1])


def interpreter(user: int | None) -> str:
    """Return an interpreter that `user` can run with this package, or skip the test."""
    if user is None:
        return sys.executable
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    code = f"import sys; sys.path.append({REPOSITORY!r}); import rlm.sandbox.launch.confined_worker"
    for python in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError):
            ran = subprocess.run([python, "-c", code], user=user, group=user, check=False, cwd="/")
            if ran.returncode == 0:
                return python
    pytest.skip("another user can run no interpreter with this package")


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("user", [None, 65534], ids=["this user", "an ordinary user"])
def test_a_job_that_is_taken_over_reaches_nothing(library: Path, way: Candidate, user: int | None) -> None:
    """Each attack is tried in a job, against things of the same user that are there."""
    python = interpreter(user)
    if user is None or not shutil.which("bwrap"):
        skip_if_impossible(way)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        victim = folder / "letter.txt"
        victim.write_text("private")
        victim.chmod(0o600)
        (folder / ".env").write_text("KEY=sk-planted")
        server, abstract, tcp = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket()
        for one in (server, abstract, tcp):
            stack.enter_context(one)
        hidden = secrets.token_hex(8)
        server.bind(str(folder / "server"))
        abstract.bind("\0" + hidden)
        tcp.bind(("127.0.0.1", 0))
        for one in (server, abstract, tcp):
            one.listen()
            one.setblocking(False)
        (folder / "server").chmod(0o777)
        for path in (folder, victim, folder / ".env"):
            if user is not None:
                os.chown(path, user, user)
        before = victim.stat()
        target = {
            "victim": str(victim),
            "env": str(folder / ".env"),
            "script": str(folder),
            "server": str(folder / "server"),
            "abstract": hidden,
            "port": tcp.getsockname()[1],
        }
        more = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        words = [REPOSITORY, str(library), str(way.level), way.launcher, json.dumps(target)]
        ran = subprocess.run(
            [python, "-c", ATTACK, *words],
            capture_output=True, text=True, check=False, cwd="/", timeout=120, **more,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        answer = json.loads(ran.stdout)
        assert answer["through"] == []
        assert answer["tried"] > 40
        after = victim.stat()
        assert (after.st_mode, after.st_mtime_ns, after.st_size) == (
            before.st_mode,
            before.st_mtime_ns,
            before.st_size,
        )
        assert stat.S_IMODE(after.st_mode) == 0o600
        assert sorted(os.listdir(folder)) == [".env", "letter.txt", "server"]
        for one in (server, abstract, tcp):
            with pytest.raises(BlockingIOError):
                one.accept()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_worker_holds_no_key_and_cannot_be_traced(start, way: Candidate, monkeypatch) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    worker = start(way)
    before = descendants()
    worker.start()
    started = descendants() - before
    assert len(started) >= 2
    for pid in started:
        # An ordinary user cannot read the environment of those that hide.
        with suppress(PermissionError) if os.getuid() != 0 else nullcontext():
            assert b"PLANTED" not in Path(f"/proc/{pid}/environ").read_bytes()
    statuses = [Path(f"/proc/{pid}/status").read_text() for pid in started]
    template = [one for one in statuses if "Seccomp:\t2" in one]
    assert template
    assert all("CapEff:\t0000000000000000" in one and "NoNewPrivs:\t1" in one for one in template)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_nothing_is_left_when_it_is_closed(start, way: Candidate) -> None:
    libc.prctl(36, 1, 0, 0, 0)  # adopt orphans, so that none is missed
    try:
        before = descendants()
        worker = start(way)
        spinning = worker.begin(f"{JOB}:spin")
        assert len(descendants() - before) >= 3
        worker.close()
        assert descendants() - before == set()
        assert spinning.recv(1) == b""
        spinning.close()
    finally:
        libc.prctl(36, 0, 0, 0, 0)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_nothing_is_left_when_its_owner_is_killed(library: Path, way: Candidate) -> None:
    skip_if_impossible(way)
    code = textwrap.dedent(
        f"""
        import sys, time
        sys.path.append({str(library)!r})
        from rlm.sandbox.launch.confined_worker import ConfinedWorker
        from rlm.sandbox.isolation.policy import Candidate
        worker = ConfinedWorker(memory_mb=512, ways=[Candidate({way.level}, {way.launcher!r})])
        channel = worker.begin("{JOB}:spin")
        print("spinning", flush=True)
        time.sleep(60)
        """
    )
    libc.prctl(36, 1, 0, 0, 0)
    try:
        before = descendants()
        owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert owner.stdout is not None
        assert owner.stdout.readline() == "spinning\n"
        owner.kill()
        owner.wait()
        owner.stdout.close()
        until = time.monotonic() + 5
        while descendants() - before and time.monotonic() < until:
            # Reap what this process has adopted.
            while True:
                try:
                    if not os.waitpid(-1, os.WNOHANG)[0]:
                        break
                except ChildProcessError:
                    break
            time.sleep(0.05)
        assert descendants() - before == set()
    finally:
        libc.prctl(36, 0, 0, 0, 0)


def test_a_job_that_takes_too_long_is_killed_and_the_next_one_runs(start) -> None:
    worker = start()
    call(worker, "echo")
    for job in ("spin", "sleep"):
        began = time.monotonic()
        with pytest.raises(WorkerTimeout, match=r"longer than 0\.5 s"):
            call(worker, job, seconds=0.5)
        assert time.monotonic() - began < 2
    pid = worker.pid
    assert call(worker, "echo", b"next") == b"next"
    assert worker.pid == pid


def test_a_job_that_floods_crashes_or_grows_fails_alone(start) -> None:
    worker = start(memory_mb=256)
    with pytest.raises(WorkerFailed, match="more than 1,048,576 bytes"):
        call(worker, "flood")
    assert call(worker, "crash") == b""
    assert call(worker, "grow") == b""
    assert call(worker, "echo", b"next") == b"next"


def test_jobs_run_at_the_same_time_each_in_a_process_of_its_own(start) -> None:
    worker = start()
    call(worker, "echo")
    began = time.monotonic()
    with worker.begin(f"{JOB}:sleep"):
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: answers.append(call(worker, "identity"))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({answer.split()[0] for answer in answers}) == 8
    assert time.monotonic() - began < 20


def test_a_job_survives_the_end_of_others(start) -> None:
    """While some end, others begin, and may get their descriptors in the worker."""
    worker = start()
    worker.start()
    failed: list[str] = []

    def begin_and_end() -> None:
        for _ in range(30):
            try:
                if call(worker, "echo", b"x") != b"x":
                    failed.append("a job was killed")
                worker.begin(f"{JOB}:echo").close()
            except WorkerFailed as error:
                failed.append(str(error))

    threads = [threading.Thread(target=begin_and_end) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_worker_that_was_killed_is_started_again_with_another_layout(start) -> None:
    worker = start()
    _, first = call(worker, "identity").split()
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    time.sleep(0.3)
    _, second = call(worker, "identity").split()
    assert first != second


def test_a_job_that_cannot_be_prepared_is_named(start) -> None:
    with pytest.raises(WorkerFailed, match="No module named 'no_such_job'"):
        start().begin("no_such_job:run")


def test_a_job_without_its_walls_does_not_run(start, library: Path) -> None:
    """A filter that the machine cannot install refuses the job at level 1 and above."""
    with pytest.raises(WorkerFailed, match=r"was not confined: seccomp"):
        start().begin(f"{JOB}:echo", "without a filter")
