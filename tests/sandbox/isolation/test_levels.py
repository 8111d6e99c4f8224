"""Test the levels: how one is chosen, what each stops, and the report if one is missing."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.isolation import views
from rlm.sandbox.isolation.layers import cgroup
from rlm.sandbox.isolation.policy import LEVELS, Candidate
from rlm.sandbox.isolation.syscalls import libc
from rlm.sandbox.launch import probe
from rlm.sandbox.launch.probe import Probed
from rlm.sandbox.types import KernelLimits

WAYS = (Candidate(3), Candidate(2), Candidate(2, "bubblewrap"), Candidate(1))


def probe_or_skip(way: Candidate) -> Probed:
    """Return the result of its probe. Skips the test if this machine does not have it."""
    (found,) = [probed for probed in probe.examine() if probed.candidate == way]
    if not found.holds:
        pytest.skip(f"{way} can't be had on this machine: {dict(found.failed)}")
    return found


@pytest.fixture
def open_way(open_kernel, monkeypatch):
    """Yield `await open_way(candidate)`, which opens a kernel confined in exactly that way."""

    async def open_(way: Candidate, **options: object):
        if way.level:
            probe_or_skip(way)
        monkeypatch.setattr("rlm.sandbox.host.kernel_process.candidates", lambda *_: ([way], {}))
        return await open_kernel(level=way.level, **options)

    return open_


async def attempt(kernel, code: str, timeout: float = 30.0):
    return await kernel.execute(code, round=1, timeout=timeout)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_level_is_proved_by_the_attacks_it_stops(way) -> None:
    """A probe tries the attack; it does not look for a program."""
    found = probe_or_skip(way)
    assert set(found.layers) == set(LEVELS[way.level])


def test_a_probe_notices_an_attack_that_gets_through(monkeypatch) -> None:
    """A way that does not stop an attack does not count, whatever its layers report."""
    probe_or_skip(Candidate(1))
    connecting = 'socket.socket(socket.AF_UNIX).connect(planted["server"])'
    assert connecting in probe._ATTACKER
    monkeypatch.setattr(probe, "_ATTACKER", probe._ATTACKER.replace(connecting, "pass"))
    found = probe._probe(Candidate(1))
    assert found.failed["connect_to_a_local_server"] == "an attack got through"
    assert not found.holds


def test_probing_happens_once(monkeypatch) -> None:
    """Probes are cached for the life of the process."""
    asked: list[Candidate] = []

    def count_probes(candidate: Candidate) -> Probed:
        asked.append(candidate)
        return Probed(candidate, failed={"namespaces": "no"} if candidate.level > 2 else {})

    monkeypatch.setattr(probe, "_found", {})
    monkeypatch.setattr(probe, "_probe", count_probes)
    assert probe.candidates("auto")[0] == [Candidate(2)]
    assert probe.candidates("auto", 0)[0] == [Candidate(2), Candidate(1), Candidate(0)]
    assert asked == [Candidate(3), Candidate(3, "bubblewrap"), Candidate(2)]


def test_what_was_proved_holds_until_the_next_boot(monkeypatch, tmp_path) -> None:
    """Not for a process with other rights, not for what failed, and not for `rlm doctor`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fails: dict[str, str] = {}
    asked: list[Candidate] = []

    def attack(candidate: Candidate) -> tuple[dict[str, str], dict[str, str]]:
        asked.append(candidate)
        return {"seccomp": "on"}, fails

    def found(level: int) -> Probed:
        """Return what the next process finds."""
        monkeypatch.setattr(probe, "_found", {})
        return probe._probe_cached(Candidate(level))

    monkeypatch.setattr(probe, "_attack", attack)
    assert found(2).layers == found(2).layers == {"seccomp": "on"}
    assert len(asked) == 1
    found(1)
    boot = probe._circumstances
    monkeypatch.setattr(probe, "_circumstances", lambda: [*boot(), "another boot"])
    found(2)
    found(2)
    assert len(asked) == 3
    fails["namespaces"] = "no"
    assert found(2).holds
    assert not any(probed.holds for probed in probe.examine())
    before = len(asked)
    assert not found(2).holds
    (tmp_path / "rlm" / probe._PROOFS).write_text('{"for": []')
    found(2)
    assert len(asked) == before + 2


def test_where_no_group_may_be_made_bubblewrap_is_not_the_reason(monkeypatch) -> None:
    """Level 3 by bubblewrap needs the group as well, so a missing program is not the reason."""

    def no_group() -> Path:
        raise cgroup.CgroupUnavailable("not here")

    def nowhere() -> str:
        raise FileNotFoundError("not installed")

    monkeypatch.setattr(cgroup, "place", no_group)
    monkeypatch.setattr("rlm.sandbox.isolation.bubblewrap.find", nowhere)
    assert probe._probe(Candidate(3, "bubblewrap")).failed == {"cgroup": "not here"}
    assert probe._probe(Candidate(2, "bubblewrap")).failed == {"bubblewrap": "not installed"}


def test_bubblewrap_can_be_switched_off(monkeypatch) -> None:
    """With RLM_BUBBLEWRAP=off, this machine counts as one without it. Root never uses it: the kernel would
    keep root's id."""
    monkeypatch.setenv("RLM_BUBBLEWRAP", "off")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/bin/bwrap")
    assert probe._probe(Candidate(2, "bubblewrap")).failed == {
        "bubblewrap": "bubblewrap is switched off (RLM_BUBBLEWRAP=off)"
    }
    assert probe.candidates(2)[0] == [Candidate(2)]
    monkeypatch.delenv("RLM_BUBBLEWRAP")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert probe.candidates(2)[0] == [Candidate(2)]
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert probe.candidates(2)[0] == [Candidate(2), Candidate(2, "bubblewrap")]


def test_a_named_level_is_not_probed(monkeypatch) -> None:
    monkeypatch.setattr(probe, "_probe", lambda _: pytest.fail("probed"))
    for level in LEVELS:
        ways, _ = probe.candidates(level)
        assert ways[0] == Candidate(level)


def test_auto_takes_bubblewrap_where_only_it_may(monkeypatch) -> None:
    """Bubblewrap is the fallback for level 2."""

    def fake_probe(candidate: Candidate) -> Probed:
        return Probed(
            candidate, failed={} if candidate == Candidate(2, "bubblewrap") else {"namespaces": "no"}
        )

    monkeypatch.setattr(probe, "_found", {})
    monkeypatch.setattr(probe, "_probe", fake_probe)
    assert probe.candidates("auto")[0] == [Candidate(2, "bubblewrap")]


def test_level_2_stands_in_where_level_3_holds(monkeypatch) -> None:
    """A group may be refused later, when many kernels have one. Level 2 is still enough."""
    monkeypatch.setattr(probe, "_found", {})
    monkeypatch.setattr(probe, "_probe", Probed)
    assert probe.candidates("auto")[0] == [Candidate(3), Candidate(2)]


async def test_nothing_runs_unasked_below_level_2(make_context, handler, monkeypatch) -> None:
    """The refusal names the missing layer and the command that would help."""

    def only_level_1(candidate: Candidate) -> Probed:
        return Probed(candidate, failed={} if candidate.level == 1 else {"namespaces": "not permitted here"})

    monkeypatch.setattr(probe, "_found", {})
    monkeypatch.setattr(probe, "_probe", only_level_1)
    kernel = JupyterSandbox(make_context("x"), handler)
    with pytest.raises(
        SandboxRefused, match=r"namespaces \(not permitted here.*\).*To get it: .*--sandbox 1"
    ):
        await kernel.open()
    assert not kernel.alive


# What each confinement must stop, tried in one kernel: code that must raise.
STOPPED = {
    "a file": "open({secret!r}).read()",
    "a server by path": "import socket; socket.socket(socket.AF_UNIX).connect({server!r})",
    "an abstract server": "import socket; socket.socket(socket.AF_UNIX).connect({abstract!r})",
    "a datagram to a server": (
        "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b'x', {datagrams!r})"
    ),
    "the network": "import socket; socket.socket(socket.AF_INET)",
    "the driver's environment": "open('/proc/{pid}/environ', 'rb').read()",
    "a device": "import os; open('/dev/' + [d for d in ('vda', 'sda', 'kmsg', 'mem')][0], 'rb').read(1)",
    "shared memory of the host's": "open('/dev/shm/planted', 'rb').read()",
    "writing beside the scratch": "open({beside!r}, 'w').write('x')",
    "a namespace": "import ctypes, os\nif ctypes.CDLL(None).unshare(0x10000000): raise OSError",
}


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_confined_kernel_stops(open_way, way) -> None:
    """It reaches no file, socket, server or device of the host."""
    with (
        tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as place,
        socket.socket(socket.AF_UNIX) as server,
    ):
        planted = {
            "secret": f"{place}/secret",
            "server": f"{place}/server",
            "datagrams": f"{place}/datagrams",
            "abstract": f"\0rlm-{os.getpid()}",
            "beside": f"{place}/beside",
            "pid": os.getpid(),
        }
        Path(place, "secret").write_text("planted")
        server.bind(planted["server"])
        server.listen()
        with (
            socket.socket(socket.AF_UNIX) as abstract,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        ):
            abstract.bind(planted["abstract"])
            abstract.listen()
            datagrams.bind(planted["datagrams"])
            kernel = await open_way(way)
            for name, code in STOPPED.items():
                result = await attempt(kernel, code.format(**planted))
                assert result.status == "error", name
                assert result.ename in (
                    "PermissionError", "FileNotFoundError", "OSError", "ConnectionRefusedError",
                ), name  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_a_confined_kernel_still_works(open_way, way) -> None:
    """Awaiting, subprocesses, threads, temporary files and the handle work."""
    kernel = await open_way(way)
    code = (
        "import asyncio, subprocess, tempfile, threading\n"
        "await asyncio.sleep(0)\n"
        "said = subprocess.run(['/bin/echo', 'hello'], capture_output=True, text=True).stdout\n"
        "with tempfile.TemporaryFile() as file: file.write(b'x')\n"
        "thread = threading.Thread(target=lambda: None); thread.start(); thread.join()\n"
        "print(said.strip(), peek(0, 3), sub_query('q', (0, 3)))"
    )
    result = await attempt(kernel, code)
    assert (result.status, result.stdout) == ("ok", "hello one q 0\n"), result.traceback


BOMB = """
import os, signal, time
made = 0
try:
    while made < 3_000:
        if not os.fork():
            signal.pause()
        made += 1
except OSError as error:
    print(made, error.errno)
"""


@pytest.mark.parametrize("way", [*WAYS, Candidate(0)], ids=str)
async def test_a_fork_bomb_is_bounded_and_gone(open_way, way) -> None:
    """Processes are bounded, at level 2 for root's kernels, too. None outlives its cell."""
    if way.level < 2 and os.getuid() == 0:
        pytest.skip("root is held to no number of processes below level 2")
    if way.launcher == "bubblewrap" and os.getuid() == 0:
        pytest.skip("bubblewrap gives root's kernel no user of its own: processes are not bounded")
    kernel = await open_way(way, limits=KernelLimits(processes=40))
    result = await attempt(kernel, BOMB)
    made, error = map(int, result.stdout.split())
    assert made < (60 if way.level >= 2 else 600)
    assert error == 11
    assert (await attempt(kernel, "1 + 1")).result == "2"
    processes = processes_below(watcher_of(kernel))
    assert len([*filter(still_there, processes)]) < 6
    await kernel.close()
    assert await comes_true(lambda: not any(map(still_there, processes)))


@pytest.mark.parametrize("way", [*WAYS, Candidate(0)], ids=str)
@pytest.mark.parametrize("end", ["close", "cell", "watcher"])
async def test_orphans_are_gone_at_every_level(open_way, way, end) -> None:
    """setsid and double forks do not escape: their processes end with the cell. At levels 0 and 1 a subreaper
    adopts them, even after kill -9 of the watcher.
    """
    kernel = await open_way(way)
    mark = f"{os.getpid()}.{WAYS.index(way) if way in WAYS else 9}{len(end)}"
    code = (
        "import os, subprocess\n"
        f"nap = 'sleep 4{mark}'\n"
        "escape = ['/bin/sh', '-c', f'setsid {nap} & setsid sh -c \"{nap} & {nap}\" &']\n"
        "subprocess.run(escape, start_new_session=True)\n"
    )
    began = asyncio.ensure_future(attempt(kernel, code + "import time; time.sleep(2)"))
    assert await comes_true(lambda: len(running(f"4{mark}")) >= 3)
    if end != "watcher":
        assert (await began).status == "ok"
        assert await comes_true(lambda: not running(f"4{mark}"))
    if end == "cell":
        await attempt(kernel, "import os; os._exit(1)")
    elif end == "watcher":
        kernel._kernel._link.kill()
        await began
    await kernel.close()
    assert await comes_true(lambda: not running(f"4{mark}"))


async def comes_true(condition: Callable[[], bool]) -> bool:
    """Return whether the condition becomes true within twenty seconds. It is about other processes, so there
    is no event to wait for.
    """
    for _ in range(1_000):
        if condition():
            return True
        await asyncio.sleep(0.02)
    return False


def running(word: str) -> list[bytes]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if b"sleep\0" in command and word.encode() in command:
            found.append(command)
    return found


def watcher_of(kernel: JupyterSandbox) -> int:
    """Return the watcher's pid, which a descriptor holds."""
    facts = Path(f"/proc/self/fdinfo/{kernel._kernel._link.pidfd}").read_text()
    return next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("Pid:"))


def processes_below(pid: int) -> list[Path]:
    """Return the folders in /proc of a process and its descendants."""
    found = [Path("/proc", str(pid))]
    for child in (found[0] / "task" / str(pid) / "children").read_text().split():
        found += processes_below(int(child))
    return found


def still_there(process: Path) -> bool:
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except OSError:
        return False


async def test_root_never_keeps_its_id(open_way, make_context, handler, monkeypatch, tmp_path) -> None:
    """A kernel that stays root would own the host's files and fork without limit. The refusal names what to
    do."""
    if os.getuid() != 0:
        pytest.skip("only root's kernels get a user of their own")
    probe_or_skip(Candidate(2))
    paths = [*views.interpreter_paths(), str(tmp_path)]
    tmp_path.chmod(0o700)
    monkeypatch.setattr(views, "interpreter_paths", lambda: paths)
    kernel = JupyterSandbox(make_context("x"), handler, level=2)
    with pytest.raises(
        SandboxRefused, match=rf"keep root's id.*only root can read {tmp_path}.*chmod -R go\+rX"
    ):
        await kernel.open()


async def test_root_s_kernel_has_a_user_of_its_own(open_way) -> None:
    """NPROC is not enforced for root, so at level 2 its kernel has another user."""
    if os.getuid() != 0:
        pytest.skip("only root's kernels get a user of their own")
    kernel = await open_way(Candidate(2))
    assert "as user" in kernel.isolation.layers["rlimits"]
    result = await attempt(kernel, "import os; print(*os.getresuid(), *os.getresgid(), *os.getgroups())")
    assert "0" not in result.stdout.split()
    for way_back in ("os.setuid(0)", "os.setresuid(0, 0, 0)", "os.seteuid(0)", "os.setgid(0)"):
        assert (await attempt(kernel, way_back)).ename == "PermissionError"


async def test_mounts_below_a_shown_folder_are_read_only(
    make_context, handler, monkeypatch, tmp_path
) -> None:
    """A bind shows what is mounted further down, too."""
    if os.getuid() != 0:
        pytest.skip("only root can mount")
    probe_or_skip(Candidate(2))
    below = tmp_path / "below"
    below.mkdir()
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    if libc.mount(b"t", str(below).encode(), b"tmpfs", 0, None):
        pytest.skip("nothing can be mounted here")
    try:
        below.chmod(0o777)
        paths = [*views.interpreter_paths(), str(tmp_path)]
        monkeypatch.setattr(views, "interpreter_paths", lambda: paths)
        kernel = JupyterSandbox(make_context("x"), handler, level=2)
        await kernel.open()
        shown = f"[line.split()[5] for line in open('/proc/self/mountinfo') if ' {below} ' in line]"
        result = await attempt(kernel, shown)
        assert "ro,nosuid,nodev" in (result.result or ""), result
        await kernel.close()
    finally:
        libc.umount2(str(below).encode(), 2)


HOGS = """
import mmap, os
children = []
for _ in range(6):
    child = os.fork()
    if not child:
        memory = mmap.mmap(-1, 100 * 2**20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for page in range(0, len(memory), 4096):
            memory[page] = 1
        while os.read(0, 1): pass
        os._exit(0)
    children.append(child)
"""


async def test_a_cgroup_bounds_all_processes_together(open_way) -> None:
    """Total memory is bounded, while rlimits only hold for each process. The group is removed afterwards."""
    kernel = await open_way(Candidate(3), limits=KernelLimits(memory_mb=256, scratch_mb=32))
    code = HOGS + "print(sorted({os.waitpid(child, 0)[1] for child in children})[-1])"
    result = await attempt(kernel, code)
    assert result.status == "died" or result.stdout.strip() == "9"
    await kernel.close()
    assert list(cgroup.place().glob("rlm-*")) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mask parts of /proc")
async def test_a_masked_proc_is_done_without(tmp_path) -> None:
    """Containers mask parts of /proc, and may forbid a fresh mount of it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare, of util-linux")
    code = (
        "import asyncio, json, sys\n"
        "from rlm.cli.commands.sandbox import run_cell\n"
        "result, isolation = asyncio.run(run_cell('import os; print(os.listdir(\"/proc\"), 6 * 7)', [], "
        "level=2, seconds=20))\n"
        "print(json.dumps([result.status, result.stdout, dict(isolation.layers)]))"
    )
    script = tmp_path / "masked.sh"
    script.write_text(
        "set -e\nmount -t tmpfs -o ro none /proc/scsi 2>/dev/null || mount -t tmpfs -o ro none /proc/fs\n"
        f"exec {sys.executable} {tmp_path / 'run.py'}\n"
    )
    (tmp_path / "run.py").write_text(code)
    done = subprocess.run(
        [unshare, "-m", "/bin/sh", str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode == 32 or "mount:" in done.stderr:
        pytest.skip(f"this machine lets root mount nothing: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert '"[] 42\\\\n"' in done.stdout or "[] 42" in done.stdout
    assert "without /proc" in done.stdout


def test_a_machine_that_refuses_namespaces(tmp_path) -> None:
    """Nothing runs unasked, level 1 works on request, and the doctor shows what was tried and which
    command would help. A user namespace that may contain no other is such a machine.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare, of util-linux")
    rlm = f"{sys.executable} -m rlm"
    script = (
        "echo 0 > /proc/sys/user/max_user_namespaces || exit 99\n"
        f"echo 6*7 | {rlm} sandbox exec -; echo refused $?\n"
        f"echo 6*7 | {rlm} sandbox exec - --sandbox 1; echo asked for $?\n"
        f"{rlm} doctor; echo doctor $?\n"
    )
    done = subprocess.run(
        [unshare, "-Ur", "/bin/sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode in (1, 99):
        pytest.skip(f"this machine makes no user namespace to try it in: {done.stderr.strip()}")
    if "level 1: no" in done.stdout:
        pytest.skip(f"level 1 can't be had on this machine: {done.stdout}")
    assert "refused 3\n42\nasked for 0\n" in done.stdout
    assert re.search(r"gives no namespaces \(.*; user\.max_user_namespaces is 0\)\. To get it", done.stderr)
    assert "sudo sysctl -w user.max_user_namespaces=15000" in done.stderr
    assert "bubblewrap is not installed" not in done.stdout + done.stderr
    assert "level 1 works" in done.stdout
    assert "doctor 3" in done.stdout
