"""Changes the root to a minimal read-only one: interpreter, system libraries and one scratch folder.

No other file of the host has a path in it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc, syscall

__all__ = ["SYSTEM_PATHS", "change_root"]

SYSTEM_PATHS: tuple[str, ...] = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/etc/ld.so.cache")
_DEVICES = ("null", "full", "random", "urandom")
_HOST_NAME = b"kernel"
_FEW_FILES = "nr_inodes=1024"
"""Each file takes a kilobyte of the machine's memory, which no size of a tmpfs counts."""
_SHARED_MEMORY = f"size=16m,mode=700,{_FEW_FILES}"

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT = 1, 2, 4, 8, 32
_BIND, _REC, _PRIVATE = 4096, 16384, 1 << 18
_DETACH = 2
_HERE, _RECURSIVE = -100, 0x8000


def change_root(
    *,
    mount_point: str,
    read_only: Mapping[str, str],
    hidden: Iterable[str],
    scratch: str,
    scratch_mb: int,
) -> str:
    """Make the new root on `mount_point` (an empty folder of the host's) and move into it. `read_only` maps
    host paths to paths inside; `hidden` are folders inside that become empty; `scratch` is a fresh tmpfs of
    that many megabytes. Must run in a mount namespace of our own. Gives words for the report."""
    check_result(libc.sethostname(_HOST_NAME, len(_HOST_NAME)), "sethostname")
    _mount(None, "/", None, _REC | _PRIVATE)
    new = mount_point
    _mount("tmpfs", new, "tmpfs", _NOSUID | _NODEV, f"size=4m,mode=755,{_FEW_FILES}")
    for path in SYSTEM_PATHS:
        _mirror(path, new)
    for source, target in read_only.items():
        _bind(source, new + target)
    for folder in hidden:
        if Path(new + folder).is_dir():
            _mount("tmpfs", new + folder, "tmpfs", _NOSUID | _NODEV | _RDONLY, "size=4k,mode=555")
    _make_folder(new + scratch)
    _mount("tmpfs", new + scratch, "tmpfs", _NOSUID | _NODEV, scratch_options(scratch_mb))
    for device in _DEVICES:
        # It can still be written to, but nobody can change the mode, owner or times of the host's device.
        _bind(f"/dev/{device}", f"{new}/dev/{device}", device=True)
    _make_folder(new + "/dev/shm")  # noqa: S108 - the sandbox's own
    _mount("tmpfs", new + "/dev/shm", "tmpfs", _NOSUID | _NODEV | _NOEXEC, _SHARED_MEMORY)  # noqa: S108
    _make_folder(new + "/proc")
    words = "on"
    try:
        _mount_proc(new + "/proc")
    except PermissionError:
        # A container with a masked /proc may not mount a new one. The kernel works without it.
        words = "on, without /proc: this machine masks its own"
    os.chdir(new)
    syscall("pivot_root", b".", b".")
    check_result(libc.umount2(b".", _DETACH), "umount of the old root")
    os.chdir("/")
    _mount(None, "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    os.chdir(scratch)
    return words


def scratch_options(megabytes: int) -> str:
    """Return the mount options of a scratch folder of that size."""
    return f"size={megabytes}m,mode=700,nr_inodes=65536"


def tighten(*, scratch: str, scratch_mb: int) -> str:
    """Finish the root that bubblewrap made: bound the number of files, make the devices read-only.

    Returns the detail for the report. bubblewrap has no options for this, and a machine's profile for it may
    refuse its programs every capability.
    """
    try:
        for device in _DEVICES:
            _mount(None, f"/dev/{device}", None, _REMOUNT | _BIND | _NOSUID | _NOEXEC | _RDONLY)
        _mount(None, scratch, None, _REMOUNT | _NOSUID | _NODEV, scratch_options(scratch_mb))
        _mount(None, "/dev/shm", None, _REMOUNT | _NOSUID | _NODEV, _SHARED_MEMORY)  # noqa: S108
        # Process 1 is bubblewrap, whose command line names folders of the host.
        _mount(None, "/proc", None, _REMOUNT | _NOSUID | _NODEV | _NOEXEC, "hidepid=ptraceable")
    except PermissionError as error:
        return f"on, by bubblewrap; the number of files is not bounded ({error})"
    return "on, by bubblewrap"


def _mount_proc(target: str) -> None:
    """Mount a /proc with the kernel's own processes only.

    Process 1, whose command line names folders of the host, is not among them. The files about the machine
    (slabinfo, kallsyms, kcore, sys/) are left out: root can read them even without capabilities. Linux before
    5.8 only supports a full /proc.
    """
    flags = _NOSUID | _NODEV | _NOEXEC
    try:
        _mount("proc", target, "proc", flags, "subset=pid,hidepid=ptraceable")
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        _mount("proc", target, "proc", flags)


def _mirror(path: str, new: str) -> None:
    if Path(path).is_symlink():
        Path(new + path).symlink_to(Path(path).readlink())
    elif Path(path).exists():
        _bind(path, new + path)


def _bind(source: str, target: str, *, device: bool = False) -> None:
    if Path(source).is_dir():
        _make_folder(target)
    elif not Path(target).exists():
        _make_folder(str(Path(target).parent))
        Path(target).touch()
    _mount(source, target, None, _BIND | _REC)
    # Of the mounts below it, too. Whatever else they forbid stays forbidden.
    attributes = struct.pack("=QQQQ", _RDONLY | _NOSUID | (0 if device else _NODEV), 0, 0, 0)
    syscall("mount_setattr", _HERE, target.encode(), _RECURSIVE, ctypes.c_char_p(attributes), len(attributes))


def _make_folder(path: str) -> None:
    Path(path).mkdir(parents=True, exist_ok=True)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    result = libc.mount(
        source.encode() if source else None,
        target.encode(),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        data.encode() if data else None,
    )
    check_result(result, f"mount on {target}")
