"""The layers of each level, the instructions of a launcher, and its report."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

__all__ = [
    "LEVELS",
    "Candidate",
    "Confinement",
    "IsolationReport",
    "Launcher",
    "Layer",
    "LayerFailed",
    "LayerReport",
    "Role",
    "read_report",
]

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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A level and the launcher that provides it."""

    level: int
    launcher: Launcher = "own"

    def __str__(self) -> str:
        return f"level {self.level}" + (" by bubblewrap" if self.launcher == "bubblewrap" else "")


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


class LayerFailed(Exception):
    """A required layer failed. The report already says so."""


class LayerReport:
    """Writes the report to a pipe that no program started here inherits.

    Lines are `{"layer": name, "detail": words}` and `{"failed": name, "detail": words}`. The pipe is closed
    when the kernel takes over, so an end without `failed` means success.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def say(self, **line: object) -> None:
        """Write one line."""
        os.write(self.descriptor, json.dumps(line).encode() + b"\n")

    def apply(self, layer: Layer, mechanism: Callable[[], object]) -> None:
        """Apply a layer and report it. A text that the mechanism returns becomes its detail.

        If the mechanism fails, report the reason and raise LayerFailed.
        """
        try:
            detail = mechanism()
        except (OSError, ValueError, LookupError) as error:
            self.fail(layer, str(error))
            raise LayerFailed(layer) from error
        self.say(layer=layer, detail=detail if isinstance(detail, str) else "on")

    def fail(self, layer: Layer, reason: str) -> None:
        """Report that a layer failed."""
        self.say(failed=layer, detail=reason)

    def close(self) -> None:
        """End the report. Safe to call twice."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def read_report(level: int, text: bytes) -> IsolationReport:
    """Parse a report. A layer that was not reported has failed."""
    layers: dict[str, str] = {}
    failed: dict[str, str] = {}
    for line in map(json.loads, text.splitlines()):
        if "layer" in line:
            layers[line["layer"]] = line["detail"]
        else:
            failed[line["failed"]] = line["detail"]
    missing = [layer for layer in LEVELS[level] if layer not in layers and layer not in failed]
    if not failed:
        failed = dict.fromkeys(missing, "the launcher ended before it was applied")
    elif missing:
        last = next(reversed(failed))
        failed[last] += f"; not tried after that: {', '.join(missing)}"
    return IsolationReport(level, layers, failed)
