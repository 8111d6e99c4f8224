"""Which layers each level is made of, and what a launcher is told to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

__all__ = ["LEVELS", "Confinement", "IsolationReport", "Launcher", "Layer", "required_layers"]

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
    "late_seccomp",
]
Launcher = Literal["own", "bubblewrap"]

_INNER: tuple[Layer, ...] = (
    "rlimits",
    "capabilities",
    "no_new_privileges",
    "landlock",
    "seccomp",
    "late_seccomp",
)

LEVELS: Mapping[int, tuple[Layer, ...]] = {
    0: ("subreaper", "rlimits"),
    1: ("subreaper", *_INNER),
    2: ("namespaces", "root", *_INNER),
    3: ("cgroup", "namespaces", "root", *_INNER),
}
"""In the order in which they are put on."""


def required_layers(level: int) -> tuple[Layer, ...]:
    """The layers without which a kernel does not count as being at `level`."""
    return LEVELS[level]


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the launcher does. `mount_point` is an empty folder of the host's. Paths in `read_only` and
    `writable` map the host's to the kernel's; where there is no private root both are the host's. Sizes
    in megabytes unless the name says bytes.

    launcher is who makes namespaces and root.
    """

    level: int
    mount_point: str
    read_only: Mapping[str, str]
    writable: Mapping[str, str]
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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Confinement:
        data = json.loads(text)
        return cls(**{**data, **{name: tuple(data[name]) for name in ("hidden", "keep_fds")}})


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """What really holds a kernel: the level it reached, each layer with a word about it, and what failed."""

    level: int
    layers: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
