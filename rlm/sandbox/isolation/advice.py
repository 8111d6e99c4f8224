"""Advice for machines that lack a layer: one command, or two to choose from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

__all__ = ["CONTAINER_FLAGS", "advice", "bubblewrap_would_help", "explain_missing", "refusal"]

_APPARMOR = "kernel/apparmor_restrict_unprivileged_userns"
_SYSCTLS = (  # the most general setting first
    ("user/max_user_namespaces", "0", "15000"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    (_APPARMOR, "1", "0"),
)
_CONTAINERS = (".dockerenv", "run/.containerenv", "var/run/secrets/kubernetes.io")
CONTAINER_FLAGS = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
"""The flags of `docker run` and `podman run` that let a kernel be confined inside a container (level 2): the
profiles of containers refuse the namespaces and mounts that it is confined with."""
_CONTAINER_LIMITS = "--memory 4g --pids-limit 1024"
_BUBBLEWRAP = "sudo apt install bubblewrap"
_PROFILE = "etc/apparmor.d/bwrap-userns-restrict"
_LOAD_PROFILE = (
    f"{_BUBBLEWRAP} apparmor-profiles && "
    f"sudo cp /usr/share/apparmor/extra-profiles/{Path(_PROFILE).name} /{Path(_PROFILE).parent}/ && "
    f"sudo apparmor_parser -r /{_PROFILE}"
)
"""Ubuntu 24.04 ships the profile of bubblewrap without loading it."""
_HERE = Path("/")


def advice(missing: Mapping[str, str], *, machine: Path = _HERE) -> str:
    """Return the command, or the closest thing to one, that enables the most important missing layer.

    `missing` maps each layer to the machine's reason. `machine` is the machine's root folder.
    """
    if "namespaces" in missing or "root" in missing:
        return _namespaces(machine)
    if "landlock" in missing:
        return "boot with the kernel parameter lsm=landlock,… (Linux 5.13 or newer)"
    if "cgroup" in missing and _is_container(machine):
        # Level 3 needs a group that may be written to, which a container has only with far more rights.
        return f"bound the whole container: start it with {_CONTAINER_LIMITS}"
    if "cgroup" in missing:
        if "controller" in missing["cgroup"] or "mounted" in missing["cgroup"]:
            return "boot with the kernel parameter systemd.unified_cgroup_hierarchy=1"
        return "systemd-run --user --scope -p Delegate=yes rlm …"
    if "rlimits" in missing:
        return "let others read the interpreter (chmod -R go+rX), or run rlm as an ordinary user"
    if "bubblewrap" in missing:
        return _BUBBLEWRAP
    return "run it on Linux 5.13 or newer"


def refusal(level: Literal["auto"] | int, missing: Mapping[str, str], *, machine: Path = _HERE) -> str:
    """Return why nothing runs: the missing layers with the machine's reasons, and the remedy."""
    asked_for = {layer: reason for layer, reason in missing.items() if layer != "cgroup" or level == 3}
    wanted = explain_missing(asked_for, machine=machine) or asked_for
    reasons = "; ".join(f"{layer} ({reason})" for layer, reason in wanted.items())
    asked = "model-written code may not run unasked below level 2" if level == "auto" else f"no level {level}"
    return (
        f"{asked}: this machine gives no {reasons}. To get it: {advice(wanted, machine=machine)}. Or "
        "accept less: --sandbox 1 (files and network are confined, other processes are visible), "
        "--sandbox 0 (nothing is confined)"
    )


def explain_missing(missing: Mapping[str, str], *, machine: Path = _HERE) -> dict[str, str]:
    """Return the missing layers with the most useful reasons.

    Namespaces name the machine's setting that refuses them. bubblewrap is left out where it would not help.
    """
    reasons = dict(missing)
    if not bubblewrap_would_help(missing, machine=machine):
        reasons.pop("bubblewrap", None)
    setting = _find_closed_setting(machine)
    for layer in ("namespaces", "root"):
        if setting and layer in reasons:
            name, value, _ = setting
            words = f"; {_dotted(name)} is {value}"
            reasons[layer] = reasons[layer].removesuffix(words) + words
    return reasons


def bubblewrap_would_help(missing: Mapping[str, str], *, machine: Path = _HERE) -> bool:
    """Return whether installing bubblewrap would provide the missing namespaces or root.

    A setting that refuses them to us also refuses them to bubblewrap, except AppArmor: its profile lets
    /usr/bin/bwrap alone create them. (A setuid bwrap could also pass kernel.unprivileged_userns_clone=0,
    but today's packages are not setuid.)
    """
    setting = _find_closed_setting(machine)
    return (
        ("namespaces" in missing or "root" in missing)
        and setting is not None
        and setting[0] == _APPARMOR
        and (machine / _PROFILE).exists()
        and not (machine / "usr/bin/bwrap").exists()
    )


def _namespaces(machine: Path) -> str:
    if bubblewrap_would_help({"namespaces": ""}, machine=machine):
        return _BUBBLEWRAP
    if setting := _find_closed_setting(machine):
        name, _, opened = setting
        command = f"sudo sysctl -w {_dotted(name)}={opened}"
        if _is_container(machine):
            return f"on the host of the container: {command}"
        if name != _APPARMOR:
            return command
        command += " (for all programs, until the next boot)"
        return command if (machine / _PROFILE).exists() else f"{_LOAD_PROFILE}; or {command}"
    if _is_container(machine):
        return f"start the container with {CONTAINER_FLAGS}"
    return "run it as a user who may create user namespaces"


def _is_container(machine: Path) -> bool:
    return any((machine / mark).exists() for mark in _CONTAINERS)


def _find_closed_setting(machine: Path) -> tuple[str, str, str] | None:
    """Return the setting that refuses user namespaces: file, current value, required value."""
    for name, closed, opened in _SYSCTLS:
        setting = machine / "proc/sys" / name
        if setting.exists() and setting.read_text().strip() == closed:
            return name, closed, opened
    return None


def _dotted(name: str) -> str:
    return name.replace("/", ".")
