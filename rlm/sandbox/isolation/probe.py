"""Finds the levels that this machine really supports, by running the attacks that each level must stop.

A probe goes through the launcher as a kernel does and takes about a tenth of a second. Its result is cached
for the life of the process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rlm.sandbox.folders import private_folder, remove
from rlm.sandbox.isolation import bubblewrap
from rlm.sandbox.isolation.advice import explain_missing
from rlm.sandbox.isolation.interpreter import interpreter_paths
from rlm.sandbox.isolation.layers import cgroup
from rlm.sandbox.isolation.policy import Confinement, Launcher
from rlm.sandbox.isolation.report import read_report

__all__ = ["ATTACKS", "Candidate", "Probed", "candidates", "examine", "probe_until_safe"]

MODEL_WRITTEN = 2
"""Model-written code runs below this level only if the user asks for it."""

_SECONDS = 10.0
_MEMORY_MB = 64
_LONGEST_TOP = 50
_IMPORTED_FROM = Path(__file__).resolve().parents[3]
_BOOT = (
    f"import sys; sys.path.insert(0, {str(_IMPORTED_FROM)!r}); "
    "from rlm.sandbox.isolation.launcher import main; sys.exit(main(sys.argv[1:]))"
)

_ATTACKER = """
import json, mmap, os, signal, socket, sys, time
planted = json.loads(sys.argv[1])
def read_a_file():
    open(planted["file"]).read()
def open_a_network_socket():
    socket.socket(socket.AF_INET)
def connect_to_a_local_server():
    socket.socket(socket.AF_UNIX).connect(planted["server"])
def reach_another_process():
    os.kill(planted["process"], 0)
def take_more_memory():
    children = []
    for _ in range(8):  # each stays below the limit of a process
        child = os.fork()
        if not child:
            memory = mmap.mmap(-1, planted["memory"] // 8, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            for page in range(0, len(memory), 4096):
                memory[page] = 1
            time.sleep(0.5)
            os._exit(0)
        children.append(child)
    if any([os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in children]):
        raise OSError
through = []
for name in planted["attacks"]:
    try:
        globals()[name]()
    except (OSError, ValueError):
        continue
    through.append(name)
print(json.dumps(through))
"""

ATTACKS: Mapping[int, tuple[str, ...]] = {
    1: ("read_a_file", "open_a_network_socket", "connect_to_a_local_server"),
    2: ("read_a_file", "open_a_network_socket", "connect_to_a_local_server", "reach_another_process"),
    3: (
        "read_a_file",
        "open_a_network_socket",
        "connect_to_a_local_server",
        "reach_another_process",
        "take_more_memory",
    ),
}
"""The attacks that each level must stop to count as supported."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A level and the launcher that provides it."""

    level: int
    launcher: Launcher = "own"

    def __str__(self) -> str:
        return f"level {self.level}" + (" by bubblewrap" if self.launcher == "bubblewrap" else "")


@dataclass(frozen=True, slots=True)
class Probed:
    """The result of a probe. `failed` maps a layer, or an attack that succeeded, to the reason."""

    candidate: Candidate
    layers: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Return whether every layer is on and every attack was stopped."""
        return not self.failed


_STRONGEST_FIRST = (
    Candidate(3),
    Candidate(3, "bubblewrap"),
    Candidate(2),
    Candidate(2, "bubblewrap"),
    Candidate(1),
)
_found: dict[Candidate, Probed] = {}
_finding = threading.Lock()


def probe_until_safe() -> list[Probed]:
    """Probe from the strongest candidate down, until one is safe for model-written code."""
    tried = []
    for candidate in _STRONGEST_FIRST:
        tried.append(_probe_cached(candidate))
        if tried[-1].holds and candidate.level >= MODEL_WRITTEN:
            break
    return tried


def examine() -> list[Probed]:
    """Probe every candidate. For `rlm doctor`."""
    return [_probe_cached(candidate) for candidate in _STRONGEST_FIRST]


def candidates(
    level: Literal["auto"] | int, minimum: int = MODEL_WRITTEN
) -> tuple[list[Candidate], dict[str, str]]:
    """Return the candidates for a level, in order, and the reasons why stronger ones failed.

    A level given as a number is not probed: its layers are applied or refused. "auto" returns what probes
    have proved, and nothing below `minimum`.
    """
    if level != "auto":
        ways: list[Launcher] = ["own", "bubblewrap"] if level >= 2 and _has_bubblewrap() else ["own"]
        return [Candidate(level, way) for way in ways], {}
    tried = probe_until_safe()
    reasons: dict[str, str] = {}
    for probed in tried:
        for layer, reason in probed.failed.items():
            reasons.setdefault(layer, reason)
    usable = [probed.candidate for probed in tried if probed.holds and probed.candidate.level >= minimum]
    if usable and usable[0].level == 3:
        usable.append(Candidate(2, usable[0].launcher))
    if minimum <= 1 and Candidate(1) not in usable:
        # Not probed if a stronger one holds: it is the fallback if a kernel does not start there.
        usable.append(Candidate(1))
    if minimum <= 0:
        usable.append(Candidate(0))
    return usable, explain_missing(reasons)


def _has_bubblewrap() -> bool:
    try:
        bubblewrap.find()
    except OSError:
        return False
    return True


def _probe_cached(candidate: Candidate) -> Probed:
    with _finding:
        if candidate not in _found:
            _found[candidate] = _probe(candidate)
        return _found[candidate]


def _probe(candidate: Candidate) -> Probed:
    began = time.monotonic()
    try:
        # Checks that need no process. Without a cgroup, bubblewrap would not help.
        if candidate.level == 3:
            cgroup.place()
        if candidate.launcher == "bubblewrap":
            bubblewrap.find()
    except cgroup.CgroupUnavailable as error:
        return Probed(candidate, failed={"cgroup": str(error)}, seconds=time.monotonic() - began)
    except OSError as error:
        return Probed(candidate, failed={"bubblewrap": str(error)}, seconds=time.monotonic() - began)
    try:
        layers, failed = _attack(candidate)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        layers, failed = {}, {"probe": f"{type(error).__name__}: {error}"}
    return Probed(candidate, layers, failed, time.monotonic() - began)


def _attack(candidate: Candidate) -> tuple[Mapping[str, str], Mapping[str, str]]:
    with _folder() as folder, _plant_targets(folder) as targets:
        confinement = _confinement(candidate, folder)
        facts = {
            **targets,
            "attacks": ATTACKS[candidate.level],
            "memory": (_MEMORY_MB + confinement.scratch_mb) * 2 * 2**20 + 2**27,
        }
        attacker = [sys.executable, "-I", "-S", "-c", _ATTACKER, json.dumps(facts)]
        reading, writing = os.pipe()
        try:
            done = subprocess.run(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    _BOOT,
                    confinement.to_json(),
                    str(writing),
                    "--",
                    *attacker,
                ],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=dict(confinement.environment),
                pass_fds=(writing,),
                timeout=_SECONDS,
                start_new_session=True,
                check=False,
            )
        finally:
            os.close(writing)
            with os.fdopen(reading, "rb") as report:
                said = report.read()
    isolation, _ = read_report(candidate.level, said)
    if isolation.failed:
        return isolation.layers, isolation.failed
    if done.returncode != 0:
        complaint = done.stderr.decode(errors="replace").strip().splitlines()
        return isolation.layers, {"probe": complaint[-1] if complaint else f"it ended with {done.returncode}"}
    return isolation.layers, dict.fromkeys(json.loads(done.stdout), "an attack got through")


def _top() -> Path:
    """Return the temp folder, or /tmp if its path is too long for the name of a Unix socket (107 bytes)."""
    top = tempfile.gettempdir()
    return Path(top if len(os.fsencode(top)) < _LONGEST_TOP else "/tmp")  # noqa: S108


@contextmanager
def _folder() -> Iterator[Path]:
    folder = private_folder("probe", _top())
    try:
        yield folder
    finally:
        remove(folder)


@contextmanager
def _plant_targets(folder: Path) -> Iterator[dict[str, object]]:
    """Create the targets of the attacks: a file, a server and a process (this one)."""
    secret = folder / "secret"
    secret.write_text("planted")
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(str(folder / "server"))
        server.listen()
        yield {"file": str(secret), "server": str(folder / "server"), "process": os.getpid()}
    finally:
        server.close()


def _confinement(candidate: Candidate, folder: Path) -> Confinement:
    private_root = candidate.level >= 2
    for name in ("root", "scratch"):
        (folder / name).mkdir(0o700)
    return Confinement(
        level=candidate.level,
        launcher=candidate.launcher,
        mount_point=str(folder / "root"),
        read_only={path: path for path in interpreter_paths()},
        hidden=(),
        scratch="/scratch" if private_root else str(folder / "scratch"),
        scratch_mb=4,
        memory_mb=_MEMORY_MB,
        body_bytes=0,
        processes=16,
        open_files=64,
        environment={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )
