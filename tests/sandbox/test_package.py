"""Test that what starts kernels and workers imports nothing of the driver."""

from __future__ import annotations

import subprocess
import sys

import pytest


def loaded_by(code: str) -> set[str]:
    """Return the modules of rlm that a fresh interpreter has loaded after running `code`."""
    program = f"import sys\n{code}\nprint(*(name for name in sys.modules if name.partition('.')[0] == 'rlm'))"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


@pytest.mark.parametrize(
    ("module", "rooms"),
    [
        ("rlm.sandbox.isolation.launcher", {"isolation"}),
        ("rlm.sandbox.launch.watcher", {"folders", "in_kernel", "isolation", "launch"}),
    ],
)
def test_what_starts_a_kernel_imports_nothing_of_the_driver(module: str, rooms: set[str]) -> None:
    loaded = loaded_by(f"import {module}")
    assert {name for name in loaded if not name.startswith("rlm.sandbox")} == {"rlm", "rlm.version"}
    assert {name.split(".")[2] for name in loaded if name.count(".") > 1} == rooms


def test_a_worker_imports_nothing_of_the_driver() -> None:
    loaded = loaded_by("import rlm.sandbox.launch.jobs")
    assert {name.split(".")[2] for name in loaded if name.count(".") > 1} == {"isolation", "launch"}
