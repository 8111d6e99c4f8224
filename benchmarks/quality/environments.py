"""Makes an environment for each peer, from the package index."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PEERS", "Peer", "make_environment"]

_PROGRAMS = Path(__file__).with_name("programs")


@dataclass(frozen=True, slots=True)
class Peer:
    """What is installed for a peer, and the program that gives one answer of it."""

    requirement: str
    program: Path


PEERS: Mapping[str, Peer] = {
    "rlms": Peer("rlms==0.1.3", _PROGRAMS / "rlms.py"),
    "dspy": Peer("dspy==3.4.1", _PROGRAMS / "dspy_rlm.py"),
}


def make_environment(name: str, folder: Path) -> Path:
    """Return the interpreter of a peer's environment, which is made if it is not there. Raises
    CalledProcessError if the package can't be installed."""
    home, wanted = folder / name, PEERS[name].requirement
    python, stamp = home / "bin" / "python", home / "requirement"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    if not python.exists():
        venv.create(home, with_pip=True)
    print(f"installing {wanted} …", file=sys.stderr)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wanted], check=True)
    stamp.write_text(wanted)
    return python
