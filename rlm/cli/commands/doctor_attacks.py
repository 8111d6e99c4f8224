"""The attacks that `rlm doctor` tries in a confined kernel: some of every class that a level must stop."""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["CLASSES", "attacks", "expected"]

CLASSES = (
    "files",
    "processes",
    "network",
    "system calls",
    "disk",
    "memory",
    "locks",
    "devices",
    "environment",
)

_BELOW_LEVEL_2 = frozenset(
    {
        "processes: signal the driver",
        "disk: fill the memory with files",
        "devices: change the mode of /dev/null",
        "environment: learn the host's name",
    }
)
"""What level 1, which hides neither processes nor the disk, does not promise to stop."""

# The mode of /dev/null is set to what it is, and what is made is removed: an attack that succeeds harms
# nothing.
_CODE = """
import ctypes, fcntl, mmap, os, resource, signal, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
def attack(name, action):
    try:
        action()
    except Exception:
        return
    print(name)
signal.signal(signal.SIGIO, signal.SIG_IGN)
def called(result):
    if result == -1:
        raise OSError(ctypes.get_errno())
def many_files():
    made = []
    try:
        for number in range(2_000):
            made.append(f"/dev/shm/rlm-doctor-{pid}-{{number}}")
            os.close(os.open(made[-1], os.O_CREAT | os.O_WRONLY))
    finally:
        for path in made:
            if os.path.exists(path):
                os.unlink(path)
def trace():
    # Whom a thread traces goes on when the thread ends. Otherwise nothing could end the traced watcher.
    found = []
    thread = threading.Thread(target=lambda: found.append(libc.ptrace(0x4206, os.getppid(), 0, 0)))
    thread.start()
    thread.join()
    called(found[0])
def large_file():
    with open("large", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 2**31)
def namespace():
    child = os.fork()
    if not child:
        os._exit(1 if libc.unshare(0x10000000) else 0)
    if os.waitpid(child, 0)[1]:
        raise OSError
def lock(way):
    with open("/usr/bin/env", "rb") as file:
        way(file)
attack("files: read /etc/passwd", lambda: open("/etc/passwd").read())
attack("files: list the home folder", lambda: os.listdir({home!r}))
attack("files: write outside the scratch", lambda: os.open("/", os.O_TMPFILE | os.O_WRONLY))
attack("files: watch a folder", lambda: fcntl.fcntl(os.open("/usr/bin", os.O_RDONLY), fcntl.F_NOTIFY, 1))
attack("processes: signal the driver", lambda: os.kill({pid}, 0))
attack("processes: raise a limit", lambda: resource.setrlimit(resource.RLIMIT_DATA, (2**40, 2**40)))
attack("network: open a network socket", lambda: socket.socket(socket.AF_INET))
attack("network: connect to a server", lambda: socket.socket(socket.AF_UNIX).connect({server!r}))
attack("system calls: a namespace", namespace)
attack("system calls: trace", trace)
attack("system calls: prepare a mount", lambda: called(libc.syscall(430, b"tmpfs", 0)))
attack("disk: a file larger than the scratch", large_file)
attack("disk: fill the memory with files", many_files)
attack("memory: 4 GB at once", lambda: bytearray(4 * 2**30))
attack("memory: 4 GB of shared memory", lambda: mmap.mmap(-1, 4 * 2**30)[:1])
attack("locks: flock", lambda: lock(lambda file: fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)))
attack("locks: record", lambda: lock(lambda file: fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)))
attack("devices: change the mode of /dev/null", lambda: os.chmod("/dev/null", 0o666))
attack("devices: open the console", lambda: open("/dev/console", "wb"))
attack("environment: see a key", lambda: next(name for name in os.environ if name.endswith(("KEY", "TOKEN"))))
attack("environment: learn the host's name", lambda: {{{host!r}: 1}}[socket.gethostname()])
print("all tried")
"""


def attacks(server: Path) -> str:
    """Return the code of a cell. It prints the name of each attack that succeeds, and at last "all tried".

    `server` is a Unix socket that somebody listens on.
    """
    return _CODE.format(home=str(Path.home()), pid=os.getpid(), server=str(server), host=socket.gethostname())


def expected(level: int) -> frozenset[str]:
    """Return the attacks that `level` does not promise to stop."""
    return _BELOW_LEVEL_2 if level < 2 else frozenset()
