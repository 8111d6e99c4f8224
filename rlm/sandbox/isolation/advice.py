"""What to do where a layer can't be had: one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

__all__ = ["advice", "refusal"]

_SYSCTLS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "15000"),
)
_CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))


def advice(missing: Mapping[str, str], *, sysctls: Path = Path("/proc/sys")) -> str:
    """The command, or the nearest to one, that gives this machine the first layer that is `missing`, given
    with the machine's reason."""
    for layer, reason in missing.items():
        match layer:
            case "namespaces" | "root":
                return _namespaces(sysctls)
            case "landlock":
                return "boot with the kernel parameter lsm=landlock,… (Linux 5.13 or newer)"
            case "bubblewrap":
                return "sudo apt install bubblewrap"
            case "cgroup" if "controller" in reason or "mounted" in reason:
                return "boot with the kernel parameter systemd.unified_cgroup_hierarchy=1"
            case "cgroup":
                return "systemd-run --user --scope -p Delegate=yes rlm …"
            case _:
                continue
    return "run it on Linux 5.13 or newer"


def refusal(level: Literal["auto"] | int, missing: Mapping[str, str]) -> str:
    """Why nothing runs: the layers that are missing with the machine's reasons, and what to do about it."""
    wanted = {layer: reason for layer, reason in missing.items() if layer != "cgroup" or level == 3}
    reasons = "; ".join(f"{layer} ({reason})" for layer, reason in wanted.items())
    asked = "model-written code may not run unasked below level 2" if level == "auto" else f"no level {level}"
    return (
        f"{asked}: this machine gives no {reasons}. To get it: {advice(wanted)}. Or accept less: "
        "--sandbox 1 (files and network are held, other processes are in sight), --sandbox 0 (nothing is)"
    )


def _namespaces(sysctls: Path) -> str:
    for name, closed, opened in _SYSCTLS:
        setting = sysctls / name
        if setting.exists() and setting.read_text().strip() == closed:
            return f"sudo sysctl -w {name.replace('/', '.')}={opened}"
    if any(mark.exists() for mark in _CONTAINERS):
        return "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    return "run it as one who may make user namespaces"
