"""Finds the levels that this machine really supports, by running the attacks that each level must stop.

A probe is launched and watched as a kernel is, and takes about a tenth of a second. What it has proved is
noted in a file, and holds until the next boot for processes with the same rights: each kernel's own launch
reports its layers anyway. What failed is tried again by the next process, because it may have been mended.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rlm.sandbox.folders import private_folder, remove
from rlm.sandbox.isolation import bubblewrap
from rlm.sandbox.isolation.advice import explain_missing
from rlm.sandbox.isolation.layers import cgroup
from rlm.sandbox.isolation.policy import Candidate, Launcher
from rlm.sandbox.isolation.views import confinement
from rlm.sandbox.launch.program import ConfinedProgram, LayersRefused
from rlm.sandbox.types import KernelLimits
from rlm.version import __version__ as version

__all__ = ["ATTACKS", "Probed", "candidates", "examine", "probe_until_safe"]

MODEL_WRITTEN = 2
"""Model-written code runs below this level only if the user asks for it."""

_SECONDS = 10.0
_MEMORY_MB = 64
_PROOFS = "isolation.json"
"""The file of the proofs, in rlm's folder of the user's caches."""
_LONGEST_TOP = 50
_LONGEST_REPORT = 4096
_IMPORTED_FROM = Path(__file__).resolve().parents[3]
_ATTACKER = """
import json, mmap, os, socket, sys, time
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
socket.socket(fileno=int(sys.argv[2])).send(json.dumps(through).encode())
"""

_FILES_AND_NETWORK = ("read_a_file", "open_a_network_socket", "connect_to_a_local_server")
ATTACKS: Mapping[int, tuple[str, ...]] = {
    1: _FILES_AND_NETWORK,
    2: (*_FILES_AND_NETWORK, "reach_another_process"),
    3: (*_FILES_AND_NETWORK, "reach_another_process", "take_more_memory"),
}
"""The attacks that each level must stop to count as supported."""


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
    """Probe every candidate, whatever was proved before. For `rlm doctor`."""
    with _finding:
        _found.update({candidate: _probe(candidate) for candidate in _STRONGEST_FIRST})
        return [_found[candidate] for candidate in _STRONGEST_FIRST]


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
            proof = None if _lacks(candidate) else _read_proofs().get(str(candidate))
            _found[candidate] = _probe(candidate) if proof is None else Probed(candidate, proof)
        return _found[candidate]


def _lacks(candidate: Candidate) -> dict[str, str]:
    """Return what this machine lacks for a candidate, as far as that takes no process to find out."""
    try:
        # Without a cgroup, bubblewrap would not help.
        if candidate.level == 3:
            cgroup.place()
        if candidate.launcher == "bubblewrap":
            bubblewrap.find()
    except cgroup.CgroupUnavailable as error:
        return {"cgroup": str(error)}
    except OSError as error:
        return {"bubblewrap": str(error)}
    return {}


def _probe(candidate: Candidate) -> Probed:
    began = time.monotonic()
    if failed := _lacks(candidate):
        return Probed(candidate, failed=failed, seconds=time.monotonic() - began)
    try:
        layers, through = _attack(candidate)
    except (OSError, ValueError) as error:
        layers, through = {}, {"probe": f"{type(error).__name__}: {error}"}
    probed = Probed(candidate, layers, through, time.monotonic() - began)
    _note_proof(probed)
    return probed


def _read_proofs() -> dict[str, dict[str, str]]:
    """Return the layers of each candidate that was proved since the machine's boot."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        stored = json.loads(_proofs_file().read_bytes())
        if stored["for"] == _circumstances():
            return {name: dict(layers) for name, layers in stored["proved"].items()}
    return {}


def _note_proof(probed: Probed) -> None:
    proved = _read_proofs()
    if proved.pop(str(probed.candidate), None) is None and not probed.holds:
        return
    if probed.holds:
        proved[str(probed.candidate)] = dict(probed.layers)
    file = _proofs_file()
    with suppress(OSError):  # without the file, the next process probes again
        file.parent.mkdir(0o700, parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.{os.getpid()}")
        part.write_text(json.dumps({"for": _circumstances(), "proved": proved}))
        part.replace(file)


def _proofs_file() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - may have no home
    return Path(cache) / "rlm" / _PROOFS


def _circumstances() -> list[str]:
    """Return what a proof depends on: this boot, this interpreter, and the rights of this process."""
    rights = ("Uid:", "CapEff:", "CapBnd:", "NoNewPrivs:", "Seccomp:")
    files = ("sys/kernel/random/boot_id", "self/attr/current", "self/uid_map")
    return [
        *(_read(f"/proc/{file}") for file in files),
        *(line for line in _read("/proc/self/status").splitlines() if line.startswith(rights)),
        *(sys.executable, str(_IMPORTED_FROM), version),
    ]


def _read(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text()
    return ""


def _attack(candidate: Candidate) -> tuple[Mapping[str, str], Mapping[str, str]]:
    with _plant_targets() as (folder, targets):
        limits = KernelLimits(memory_mb=_MEMORY_MB, scratch_mb=4, processes=16, open_files=64)
        facts = {
            **targets,
            "attacks": ATTACKS[candidate.level],
            "memory": (_MEMORY_MB + limits.scratch_mb) * 2 * 2**20 + 2**27,
        }
        command = [sys.executable, "-I", "-S", "-c", _ATTACKER, json.dumps(facts)]
        try:
            program = ConfinedProgram(confinement(candidate, folder, limits), command, seconds=_SECONDS)
        except LayersRefused as refusal:
            return {}, refusal.failed
        try:
            program.channel.settimeout(_SECONDS)
            said = program.channel.recv(_LONGEST_REPORT)
            if not said:
                return program.report.layers, {"probe": program.last_line() or "it ended at once"}
            return program.report.layers, dict.fromkeys(json.loads(said), "an attack got through")
        finally:
            program.end()


@contextmanager
def _plant_targets() -> Iterator[tuple[Path, dict[str, object]]]:
    """Create the targets of the attacks: a file, a server and a process (this one). Yield a folder beside."""
    # The path of a Unix socket has at most 107 bytes.
    top = tempfile.gettempdir()
    folder = private_folder("probe", Path(top if len(os.fsencode(top)) < _LONGEST_TOP else "/tmp"))  # noqa: S108
    try:
        (folder / "secret").write_text("planted")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "server"))
            server.listen()
            kernel = folder / "kernel"
            kernel.mkdir(0o700)
            places = {"file": str(folder / "secret"), "server": str(folder / "server")}
            yield kernel, {**places, "process": os.getpid()}
    finally:
        remove(folder)
