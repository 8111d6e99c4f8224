"""What to do where a layer can't be had: one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

__all__ = ["advice", "bubblewrap_would_help", "counted", "refusal"]

_APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
_SYSCTLS = (  # what closes it to most first
    ("user/max_user_namespaces", "0", "15000"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    (_APPARMOR, "1", "0"),
)
_CONTAINERS = (".dockerenv", "run/.containerenv")
_BUBBLEWRAP = "sudo apt install bubblewrap"
_HERE = Path("/")


def advice(missing: Mapping[str, str], *, machine: Path = _HERE) -> str:
    """The command, or the nearest to one, that gives this machine the most important layer that is `missing`,
    given with the machine's reason. `machine` is its root folder."""
    if "namespaces" in missing or "root" in missing:
        return _namespaces(machine)
    if "landlock" in missing:
        return "boot with the kernel parameter lsm=landlock,… (Linux 5.13 or newer)"
    if "cgroup" in missing:
        if "controller" in missing["cgroup"] or "mounted" in missing["cgroup"]:
            return "boot with the kernel parameter systemd.unified_cgroup_hierarchy=1"
        return "systemd-run --user --scope -p Delegate=yes rlm …"
    if "bubblewrap" in missing:
        return _BUBBLEWRAP
    return "run it on Linux 5.13 or newer"


def refusal(level: Literal["auto"] | int, missing: Mapping[str, str], *, machine: Path = _HERE) -> str:
    """Why nothing runs: the layers that are missing with the machine's reasons, and what to do about it."""
    asked_for = {layer: reason for layer, reason in missing.items() if layer != "cgroup" or level == 3}
    wanted = counted(asked_for, machine=machine)
    reasons = "; ".join(f"{layer} ({reason})" for layer, reason in wanted.items())
    asked = "model-written code may not run unasked below level 2" if level == "auto" else f"no level {level}"
    return (
        f"{asked}: this machine gives no {reasons}. To get it: {advice(wanted, machine=machine)}. Or "
        "accept less: --sandbox 1 (files and network are held, other processes are in sight), "
        "--sandbox 0 (nothing is)"
    )


def counted(missing: Mapping[str, str], *, machine: Path = _HERE) -> dict[str, str]:
    """What is `missing` without what would not help: namespaces with the machine's setting that refuses
    them, bubblewrap only where it may do what we may not."""
    reasons = dict(missing)
    if not bubblewrap_would_help(missing, machine=machine):
        reasons.pop("bubblewrap", None)
    setting = _closed(machine)
    for layer in ("namespaces", "root"):
        if setting and layer in reasons:
            name, value, _ = setting
            words = f"; {_dotted(name)} is {value}"
            reasons[layer] = reasons[layer].removesuffix(words) + words
    return reasons


def bubblewrap_would_help(missing: Mapping[str, str], *, machine: Path = _HERE) -> bool:
    """Whether its installation would give the namespaces or the root that are `missing`.

    What refuses them to us refuses them to it, but for AppArmor, where a profile lets /usr/bin/bwrap make
    them and nobody else. (A setuid one may also pass kernel.unprivileged_userns_clone=0, but what is
    installed today is not setuid.)"""
    setting = _closed(machine)
    return (
        ("namespaces" in missing or "root" in missing)
        and setting is not None
        and setting[0] == _APPARMOR
        and (machine / "etc/apparmor.d/bwrap-userns-restrict").exists()
        and not (machine / "usr/bin/bwrap").exists()
    )


def _namespaces(machine: Path) -> str:
    if bubblewrap_would_help({"namespaces": ""}, machine=machine):
        return _BUBBLEWRAP
    if setting := _closed(machine):
        name, _, opened = setting
        return f"sudo sysctl -w {_dotted(name)}={opened}"
    if any((machine / mark).exists() for mark in _CONTAINERS):
        return "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    return "run it as one who may make user namespaces"


def _closed(machine: Path) -> tuple[str, str, str] | None:
    """The setting that refuses user namespaces: its file, what it is, what it should be."""
    for name, closed, opened in _SYSCTLS:
        setting = machine / "proc/sys" / name
        if setting.exists() and setting.read_text().strip() == closed:
            return name, closed, opened
    return None


def _dotted(name: str) -> str:
    return name.replace("/", ".")
