"""Makes an environment for each arm, from the package index."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ARM_PROGRAMS", "ArmProgram", "make_environment"]

_HERE = Path(__file__).parent
_PROJECT = _HERE.parents[1]


@dataclass(frozen=True, slots=True)
class ArmProgram:
    """What is installed for an arm, and the program that makes one run of it."""

    requirement: str
    program: Path


ARM_PROGRAMS: Mapping[str, ArmProgram] = {
    "ours": ArmProgram(str(_PROJECT), _HERE / "programs" / "ours.py"),
    "rlms": ArmProgram("rlms==0.1.3", _HERE / "programs" / "rlms.py"),
    "recursive-llm": ArmProgram("recursive-llm==0.5.0", _HERE / "programs" / "recursive_llm.py"),
    "dspy": ArmProgram("dspy==3.4.1", _HERE / "programs" / "dspy_local.py"),
}


def make_environment(arm: str, folder: Path) -> Path:
    """Return the interpreter of an arm's environment, which is made if it is not there.

    Raises CalledProcessError if the package can't be installed. Ours is installed anew each time."""
    home = folder / arm
    python = home / "bin" / "python"
    wanted = ARM_PROGRAMS[arm].requirement
    stamp = home / "requirement"
    if stamp.exists() and stamp.read_text() == wanted and arm != "ours":
        return python
    if not python.exists():
        venv.create(home, with_pip=True)
    print(f"installing {wanted} for {arm} …", file=sys.stderr)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted], check=True
    )
    stamp.write_text(wanted)
    return python
