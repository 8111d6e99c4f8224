"""Which file systems report every change of a file at once."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["reports_changes"]

_REMOTE = frozenset(
    {"9p", "afs", "ceph", "cifs", "coda", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs", "virtiofs"}
)
"""Another machine may write to these, and the time of the change is known here seconds later, or never."""
_PLAIN_FUSE = frozenset({"fuse.fuse-overlayfs"})


def reports_changes(device: int) -> bool:
    """Return whether the file system with the device number `device` of a file is local. Return False if
    that cannot be known."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        mount, _, system = line.partition(" - ")
        fields = mount.split(" ", 3)
        if len(fields) > 2 and fields[2] == wanted:
            kind = system.partition(" ")[0]
            return kind not in _REMOTE and (not kind.startswith("fuse.") or kind in _PLAIN_FUSE)
    # Subvolumes of btrfs have device numbers that no mount shows.
    return True
