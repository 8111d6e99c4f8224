"""Test the package as the other rooms see it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rlm import sandbox


def loaded_by(code: str) -> set[str]:
    """Return the modules of rlm that a fresh interpreter has loaded after running `code`."""
    program = f"import sys\n{code}\nprint(*(name for name in sys.modules if name.partition('.')[0] == 'rlm'))"
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_all_names_exactly_what_is_visible() -> None:
    assert set(sandbox.__all__) == set(dir(sandbox))
    assert len(sandbox.__all__) == len(set(sandbox.__all__))


@pytest.mark.parametrize("name", sandbox.__all__)
def test_every_name_can_be_imported(name: str) -> None:
    assert getattr(sandbox, name) is not None


def test_a_name_that_is_missing_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Bodies'"):
        sandbox.Bodies  # noqa: B018


def test_the_package_imports_nothing_until_a_name_is_used() -> None:
    assert loaded_by("import rlm.sandbox") == {"rlm", "rlm.version", "rlm.sandbox"}
    loaded = loaded_by("from rlm.sandbox import Span")
    assert "rlm.sandbox.text.body" in loaded
    assert "rlm.sandbox.host" not in loaded


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
    loaded = loaded_by("import rlm.sandbox.worker.template")
    assert {name.split(".")[2] for name in loaded if name.count(".") > 1} == {"isolation", "worker"}
