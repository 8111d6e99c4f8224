"""Creates namespaces and root through bubblewrap, where only it may (Ubuntu's AppArmor profiles).

It starts our launcher again inside. The launcher then applies the other layers and becomes the kernel.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rlm.sandbox.isolation.layers.filesystem_root import SYSTEM_PATHS
from rlm.sandbox.isolation.policy import Confinement

__all__ = ["command", "find", "init_pid"]

_DEVICES = ("null", "full", "random", "urandom")
_CODE_INSIDE = "/launcher"
_BOOT = (
    f"import sys; sys.path.insert(0, {_CODE_INSIDE!r}); "
    "from rlm.sandbox.isolation.launcher import inside; inside(sys.argv[1:])"
)


def find() -> str:
    """Return the path of bwrap.

    Raises OSError if it is not installed, if RLM_BUBBLEWRAP=off, or if this process is root: the kernel would
    keep root's id.
    """
    if os.environ.get("RLM_BUBBLEWRAP") == "off":
        raise FileNotFoundError("bubblewrap is switched off (RLM_BUBBLEWRAP=off)")
    if os.geteuid() == 0:
        raise PermissionError("root does not use bubblewrap: the kernel would keep root's user id")
    found = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if found is None:
        raise FileNotFoundError("bubblewrap is not installed (bwrap)")
    return found


def command(confinement: Confinement, inner: Sequence[str], info: int) -> list[str]:
    """Return the command line: bubblewrap, then our launcher with `inner` as its arguments.

    `info` is the descriptor on which bubblewrap reports the first process of the new namespace.
    """
    words = [
        find(),
        "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent", "--hostname", "kernel", "--info-fd", str(info),
        # For our launcher inside, which drops it.
        "--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN",
    ]  # fmt: skip
    for path in SYSTEM_PATHS:
        if Path(path).is_symlink():
            words += ["--symlink", str(Path(path).readlink()), path]
        elif Path(path).exists():
            words += ["--ro-bind", path, path]
    # A path inside another must come later, or the other one covers it.
    for source, target in sorted(confinement.read_only.items(), key=lambda pair: pair[1]):
        words += ["--ro-bind", source, target]
    isolation = Path(__file__).resolve().parent
    sandbox, rlm = isolation.parents[:2]
    # The files that importing the launcher needs, and nothing else of ours.
    for part in (isolation, sandbox / "__init__.py", rlm / "__init__.py", rlm / "version.py"):
        words += ["--ro-bind", str(part), f"{_CODE_INSIDE}/{part.relative_to(rlm.parent)}"]
    for folder in confinement.hidden:
        words += ["--size", "4096", "--tmpfs", folder, "--remount-ro", folder]
    for device in _DEVICES:
        words += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    words += ["--perms", "0700", "--size", str(16 * 2**20), "--tmpfs", "/dev/shm"]  # noqa: S108
    words += [
        "--perms",
        "0700",
        "--size",
        str(confinement.scratch_mb * 2**20),
        "--tmpfs",
        confinement.scratch,
    ]
    words += ["--proc", "/proc", "--remount-ro", "/", "--chdir", confinement.scratch]
    return [*words, "--", sys.executable, "-I", "-S", "-c", _BOOT, *inner]


def init_pid(info: int) -> int | None:
    """Read the first process's id from bubblewrap. Returns None if it ended without reporting one."""
    text = b""
    while part := os.read(info, 4096):
        text += part
        if text.rstrip().endswith(b"}"):
            return int(json.loads(text)["child-pid"])
    return None
