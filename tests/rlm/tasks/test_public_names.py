"""`rlm.tasks` exports its tasks lazily."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import rlm.tasks


@pytest.mark.parametrize("name", rlm.tasks.__all__)
def test_a_task_is_a_function_of_the_package_whatever_is_imported(name: str) -> None:
    for module in pkgutil.walk_packages(rlm.tasks.__path__, "rlm.tasks."):
        import_module(module.name)
    task = getattr(rlm.tasks, name)
    assert callable(task)
    assert task.__name__ == name
    assert name in dir(rlm.tasks)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'digest'"):
        rlm.tasks.digest  # noqa: B018


def test_importing_the_package_does_not_import_the_runtime() -> None:
    code = "import sys, rlm.tasks; print([name for name in sys.modules if name.startswith('rlm.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['rlm.version', 'rlm.tasks']"
