"""Makes an environment for each arm, from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ARM_PROGRAMS", "ArmProgram", "EnvironmentFailed", "make_environment", "run_environment"]

_HERE = Path(__file__).parent
_PROJECT = _HERE.parents[1]
_TIMEOUT = 900

_READ_LINES = """async function* readLines(reader) {
  const decoder = new TextDecoder(), block = new Uint8Array(1 << 16); let parts = [];
  for (let n; (n = await reader.read(block)) !== null;) {
    const lines = decoder.decode(block.subarray(0, n), { stream: true }).split("\\n");
    while (lines.length > 1) { yield parts.join("") + lines.shift(); parts = []; }
    parts.push(lines[0]);
  }
  if (parts.join("")) yield parts.join("");
}"""
_STD_IMPORT = 'import { readLines } from "https://deno.land/std@0.186.0/io/mod.ts";'

_MICROPIP = """await pyodide.loadPackage("micropip");
    await pyodide.runPythonAsync(`
import micropip
await micropip.install(["requests", "httpx"])
`);"""


class EnvironmentFailed(Exception):
    """An arm can't be installed. The text says why, in a line."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A replacement in an installed file, given by the end of its path."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class ArmProgram:
    """What is installed for an arm, the program that makes one run of it, and how it runs code. `patches`
    stand in for what its Deno program (`deno`) loads from other hosts than the package registries."""

    requirements: Sequence[str]
    program: str
    note: str
    patches: Sequence[Patch] = ()
    deno: str = ""

    @property
    def path(self) -> Path:
        return _HERE / "programs" / self.program


_LINES = "its reader of lines is written into its Deno program, which loads it from a host of its own"

ARM_PROGRAMS: Mapping[str, ArmProgram] = {
    "ours": ArmProgram([str(_PROJECT)], "ours.py", "confined at level 2, with the journal on"),
    "rlms": ArmProgram(["rlms==0.1.3"], "rlms.py", "its default: in its own process, no sandbox"),
    "recursive-llm": ArmProgram(
        ["recursive-llm==0.5.0"], "recursive_llm.py", "its default: a restricted child process"
    ),
    "dspy": ArmProgram(["dspy==3.4.1"], "dspy_rlm.py", "its local interpreter, no sandbox"),
    "dspy-deno": ArmProgram(
        ["dspy[deno]==3.4.1"],
        "dspy_rlm.py",
        f"its default: Deno and Pyodide; {_LINES}",
        [Patch("dspy/primitives/runner.js", _STD_IMPORT, _READ_LINES)],
        "dspy/primitives/runner.js",
    ),
    "fast-rlm": ArmProgram(
        ["fast-rlm==0.5.0", "deno>=2,<3"],
        "run_fast_rlm.py",
        "its default: Deno and Pyodide; its YAML parser comes from npm instead of JSR, and requests "
        "and httpx, which it loads from a CDN at each start, are left out",
        [
            Patch("fast_rlm/_engine/deno.json", "jsr:@std/yaml@^1.0.0", "npm:yaml@^2"),
            Patch("fast_rlm/_engine/deno.json", "jsr:@std/dotenv@^0.217.0", "npm:dotenv@^16"),
            Patch("fast_rlm/_engine/src/subagents.ts", _MICROPIP, "void 0;"),
        ],
        "fast_rlm/_engine/src/subagents.ts",
    ),
    "droste": ArmProgram(["droste==0.26.0"], "run_droste.py", "its native environment, no sandbox"),
    "predict-rlm": ArmProgram(
        ["predict-rlm==0.13.1", "deno>=2,<3"],
        "run_predict_rlm.py",
        f"its default: Deno and Pyodide, without packages preinstalled; {_LINES}",
        [Patch("predict_rlm/backends/jspi/payload.js", _STD_IMPORT, _READ_LINES)],
        "predict_rlm/backends/jspi/payload.js",
    ),
}


def make_environment(arm: str, folder: Path) -> Path:
    """Return the interpreter of an arm's environment, which is made if it is not there.

    Raises EnvironmentFailed if the package can't be installed. Ours is installed anew each time."""
    home = folder / arm
    python = home / "bin" / "python"
    program = ARM_PROGRAMS[arm]
    wanted = " ".join(program.requirements)
    stamp = home / "requirement"
    if stamp.exists() and stamp.read_text() == wanted and arm != "ours":
        return python
    if not python.exists():
        venv.create(home, with_pip=True)
    print(f"installing {wanted} for {arm} …", file=sys.stderr)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *program.requirements]
    try:
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=_TIMEOUT)
        for patch in program.patches:
            _apply(patch, home)
        if program.deno:
            _download(_installed(program.deno, home), arm, folder)
    except subprocess.TimeoutExpired:
        raise EnvironmentFailed(f"not installed within {_TIMEOUT} s") from None
    except subprocess.CalledProcessError as error:
        raise EnvironmentFailed((error.stderr.strip().splitlines() or ["it failed"])[-1][:200]) from None
    stamp.write_text(wanted)
    return python


def run_environment(arm: str, folder: Path) -> dict[str, str]:
    """Return the variables that an arm's program needs: where Deno is, and where it keeps its modules."""
    binaries = folder / arm / "bin"
    return {"PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "DENO_DIR": str(folder / arm / "deno")}


def _installed(file: str, home: Path) -> Path:
    (found,) = home.glob(f"lib/python3*/site-packages/{file}")
    return found


def _download(file: Path, arm: str, folder: Path) -> None:
    """Download the modules of a Deno program, so that no run waits for them."""
    subprocess.run(
        [folder / arm / "bin" / "deno", "cache", "--quiet", file],
        check=True,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        cwd=file.parent,
        env={**os.environ, **run_environment(arm, folder)},
    )


def _apply(patch: Patch, home: Path) -> None:
    file = _installed(patch.file, home)
    text = file.read_text("utf-8")
    if patch.old not in text and patch.new not in text:
        raise EnvironmentFailed(f"{patch.file} is not the file that was patched before")
    file.write_text(text.replace(patch.old, patch.new), "utf-8")
