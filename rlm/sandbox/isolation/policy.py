"""The layers of each level, and the instructions of a launcher."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

__all__ = ["LEVELS", "Confinement", "IsolationReport", "Launcher", "Layer", "Role", "required_layers"]

Layer = Literal[
    "cgroup",
    "namespaces",
    "root",
    "subreaper",
    "rlimits",
    "capabilities",
    "no_new_privileges",
    "landlock",
    "seccomp",
]
Launcher = Literal["own", "bubblewrap"]
Role = Literal["kernel", "worker"]

_INNER: tuple[Layer, ...] = ("rlimits", "capabilities", "no_new_privileges", "landlock", "seccomp")

LEVELS: Mapping[int, tuple[Layer, ...]] = {
    0: ("subreaper", "rlimits"),
    1: ("subreaper", *_INNER),
    2: ("namespaces", "root", *_INNER),
    3: ("cgroup", "namespaces", "root", *_INNER),
}
"""Layers in the order in which they are applied."""


def required_layers(level: int) -> tuple[Layer, ...]:
    """Return the layers that a kernel at `level` must have."""
    return LEVELS[level]


@dataclass(frozen=True, slots=True)
class Confinement:
    """Instructions for the launcher. Sizes are megabytes unless the name says bytes.

    `mount_point` is an empty folder of the host. `read_only` maps paths of the host to paths of the kernel;
    without a private root the kernel sees the host's paths. `launcher` creates namespaces and root. `role`
    chooses the list of system calls.
    """

    level: int
    mount_point: str
    read_only: Mapping[str, str]
    hidden: tuple[str, ...]
    scratch: str
    scratch_mb: int
    memory_mb: int
    body_bytes: int
    processes: int
    open_files: int
    environment: Mapping[str, str]
    keep_fds: tuple[int, ...] = ()
    launcher: Launcher = "own"
    role: Role = "kernel"

    def to_json(self) -> str:
        """Return the JSON that `from_json` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Confinement:
        """Return the confinement of a JSON text. Raises KeyError, TypeError or ValueError."""
        data = json.loads(text)
        return cls(**{**data, **{name: tuple(data[name]) for name in ("hidden", "keep_fds")}})


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """The confinement that a kernel really has: level, layers with details, failures with reasons."""

    level: int
    layers: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
