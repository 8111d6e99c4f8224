"""Provide the targets of attacks: a user's files, servers and processes, and a driver that must stay
small.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from rlm.sandbox.folders import remove
from rlm.sandbox.launch.forkserver import shared_forkserver

__all__ = ["MAX_GROWTH", "World", "processor_seconds"]

MAX_GROWTH = 64 * 2**20
"""Bytes by which the driver may grow while a hostile cell runs."""

_ENVIRONMENT = "PLANTED_API_KEY"
_LEFT_SECONDS = 10.0
"""Long, because a loaded machine takes its time: what ends within it costs no more than it needs."""
_PR_SET_CHILD_SUBREAPER = 36
_MAKE = 0o1600


class World:
    """The world around an attack, as a context manager. While it is open, this process is the driver under
    attack, and adopts its children's orphans, so that none is missed. Call `begin` before an attack and
    `harm` after it.
    """

    def __enter__(self) -> World:
        self._stack = ExitStack()
        self.canary = f"canary-{secrets.token_hex(8)}"
        self.mark = f"rlmmark{secrets.token_hex(6)}"
        self._queue = f"{self.mark}-user"
        self.folder = Path(tempfile.mkdtemp(prefix="w", dir="/tmp"))
        self._stack.callback(remove, self.folder)
        for name in ("tmp", "home", "documents"):
            (self.folder / name).mkdir()
        self._documents = self.folder / "documents"
        self._document = self._documents / "letter.txt"
        (self.folder / "home" / "secret").write_text(self.canary)
        self._before_tempdir, tempfile.tempdir = tempfile.tempdir, str(self.folder / "tmp")
        self._stack.callback(setattr, tempfile, "tempdir", self._before_tempdir)
        os.environ[_ENVIRONMENT] = self.canary
        self._stack.callback(os.environ.pop, _ENVIRONMENT, None)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._stack.callback(ctypes.CDLL(None).prctl, _PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        self._plant_servers()
        self._plant_document()
        self._plant_objects()
        self._victim = self._plant_victim()
        self._stack.callback(self._end_victim)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def targets(self) -> dict[str, object]:
        """Return the addresses that the attacker gets, so that no attack fails for lack of one."""
        return {
            "secret": str(self.folder / "home" / "secret"),
            "home": str(self.folder / "home"),
            "project": str(Path(__file__).parents[3]),
            "folder": str(self._documents),
            "document": str(self._document),
            "tmp": str(self.folder / "tmp"),
            "driver": os.getpid(),
            "victim": self._victim.pid,
            "mark": self.mark,
            "tcp_port": self._tcp.getsockname()[1],
            "udp_port": self._udp.getsockname()[1],
            "unix_path": str(self.folder / "server"),
            "unix_datagram": str(self.folder / "datagrams"),
            "abstract": self.mark,
            "system_v": self._system_v,
            "queue": self._queue,
            "host": socket.gethostname(),
        }

    def begin(self) -> None:
        """Measure the driver and what exists."""
        gc.collect()
        self._contacts()
        # Writing 5 resets the peak of this process's resident memory.
        Path("/proc/self/clear_refs").write_text("5")
        self._memory = _status("VmRSS")
        self._descriptors = len(os.listdir("/proc/self/fd"))

    def snapshot(self) -> None:
        """Record what exists before a kernel starts. Everything else must be gone when it ends."""
        # It serves all kernels, and stays.
        shared_forkserver().warm()
        self._processes = _descendants()
        self._files = set(self._traces())

    def claims(self, output: str) -> list[str]:
        """Return the effects of an attack that the kernel's output shows."""
        found = []
        if self.canary in output:
            found.append("read a secret")
        if "GOT THROUGH" in output:
            ways = [line[12:].strip() for line in output.splitlines() if line.startswith("GOT THROUGH")]
            found.append(f"got through {', '.join(dict.fromkeys(ways))}"[:100].strip())
        return found

    def harm(self) -> list[str]:
        """Return the harm to the world since `begin`, and repair it."""
        found = []
        found += self._contacts()
        if self._documents_changed():
            found.append("changed the user's files")
            shutil.rmtree(self._documents)
            self._documents.mkdir()
            self._plant_document()
        if self._victim.poll() is not None or _state(self._victim.pid) in "TtZ":
            found.append("stopped another process")
            self._end_victim()
            self._victim = self._plant_victim()
        if self._plant_queue():
            found.append("removed the user's message queue")
        growth = _status("VmHWM") - self._memory
        if growth >= MAX_GROWTH:
            found.append(f"the driver grew by {growth >> 20} MB")
        self.growth = growth
        if len(os.listdir("/proc/self/fd")) > self._descriptors + 10:
            found.append("the driver was given descriptors")
        return found

    def left(self) -> list[str]:
        """Return what exists a moment after the kernel's end and did not exist before, and remove it."""
        end = time.monotonic() + _LEFT_SECONDS
        while (self._orphans() or self._new_files()) and time.monotonic() < end:
            time.sleep(0.02)
        found = []
        orphans = self._orphans()
        if orphans:
            found.append(f"{len(orphans)} processes left")
        while orphans:
            for pid in orphans:
                _kill(pid)
            orphans = self._orphans()
        files = self._new_files()
        if files:
            found.append(f"{len(files)} files left")
        if _unlink(self.mark):
            found.append("a message queue left")
        for path in files:
            remove(path) if path.is_dir() else path.unlink(missing_ok=True)
        return found

    def _orphans(self) -> set[int]:
        return _descendants() - self._processes - {self._victim.pid}

    def _new_files(self) -> set[Path]:
        return set(self._traces()) - self._files

    def _traces(self) -> list[Path]:
        marked = [
            path for place in ("/dev/shm", "/tmp", "/var/tmp") for path in Path(place).glob(f"{self.mark}*")
        ]
        return [*(self.folder / "tmp").iterdir(), *marked]

    def _plant_document(self) -> None:
        self._document.write_text("Dear reader")
        os.utime(self._document, (1_000_000_000, 1_000_000_000))
        self._document.chmod(0o600)
        self._print = self._fingerprint()

    def _fingerprint(self) -> str:
        seen = hashlib.sha256()
        for path in sorted(self._documents.iterdir()):
            stat = path.stat()
            seen.update(f"{path} {stat.st_mode} {stat.st_mtime_ns} {os.listxattr(path)}".encode())
            seen.update(path.read_bytes())
        return seen.hexdigest()

    def _documents_changed(self) -> bool:
        return self._fingerprint() != self._print

    def _plant_victim(self) -> subprocess.Popen[bytes]:
        """Drop capabilities: those of a root's process would protect the victim, unlike an ordinary
        user's.
        """
        drop = "from rlm.sandbox.isolation.layers.privileges import drop; drop()"
        code = f"import time; {drop}; print(flush=True)"
        victim = subprocess.Popen(
            [sys.executable, "-c", f"{code}; time.sleep(600)", self.mark],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        assert victim.stdout is not None
        with victim.stdout as output:
            output.readline()
        return victim

    def _end_victim(self) -> None:
        self._victim.kill()
        self._victim.wait()

    def _plant_servers(self) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(str(self.folder / "server"))
        self._datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._datagrams.bind(str(self.folder / "datagrams"))
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind(f"\0{self.mark}")
        for server in (self._tcp, self._udp, self._unix, self._datagrams, self._abstract):
            self._stack.enter_context(server)
            server.setblocking(False)
            if server.type == socket.SOCK_STREAM:
                server.listen()

    def _plant_objects(self) -> None:
        """Make memory, a semaphore and queues, which belong to the user and to no process: their number or
        name is enough to open them.
        """
        libc = ctypes.CDLL(None)
        made = {
            "memory": (libc.shmget(0, 4096, _MAKE), lambda one: libc.shmctl(one, 0, None)),
            "semaphore": (libc.semget(0, 1, _MAKE), lambda one: libc.semctl(one, 0, 0)),
            "messages": (libc.msgget(0, _MAKE), lambda one: libc.msgctl(one, 0, None)),
        }
        for one, remove_it in made.values():
            self._stack.callback(remove_it, one)
        self._system_v = {name: one for name, (one, _) in made.items()}
        self._stack.callback(_unlink, self._queue)
        self._plant_queue()

    def _plant_queue(self) -> bool:
        """Return whether the queue did not exist yet."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        queue: int = ctypes.CDLL(None).mq_open(f"/{self._queue}".encode(), flags, 0o600, None)
        if queue >= 0:
            os.close(queue)
        return queue >= 0

    def _contacts(self) -> list[str]:
        found = []
        for name, server in (("TCP", self._tcp), ("Unix", self._unix), ("abstract Unix", self._abstract)):
            while True:
                try:
                    server.accept()[0].close()
                except BlockingIOError:
                    break
                found.append(f"reached a {name} server")
        for name, server in (("UDP", self._udp), ("Unix datagram", self._datagrams)):
            try:
                server.recv(100)
            except BlockingIOError:
                continue
            found.append(f"reached a {name} server")
        return sorted(set(found))


def _status(field: str) -> int:
    """Return a field of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def processor_seconds(pid: int) -> float:
    """Return what a process and all below it have computed, as far as they live or were waited for."""
    ticks = 0
    for one in {pid, *_descendants(pid)}:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _descendants(of: int | None = None) -> set[int]:
    """Return the living processes that descend from a process, by default from this one."""
    of = of or os.getpid()
    parents: dict[int, int] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state not in "ZX":
            parents[int(pid)] = int(parent)
    found: set[int] = set()
    for pid in parents:
        line = [pid]
        while line[-1] in parents and parents[line[-1]] not in (0, 1, of):
            line.append(parents[line[-1]])
        if parents.get(line[-1]) == of:
            found.update(line)
    return found


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def _unlink(queue: str) -> bool:
    """Remove a message queue, and return whether it existed."""
    return bool(ctypes.CDLL(None).mq_unlink(f"/{queue}".encode()) == 0)
