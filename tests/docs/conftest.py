"""Load the tools of docs/site/ for their tests, which run them as `make docs` and `make site` do."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_SITE = Path(__file__).parents[2] / "docs" / "site"


def _load(name: str) -> None:
    """Load docs/site/`name`.py as `doc_NAME`. docs/ is no package."""
    spec = importlib.util.spec_from_file_location(f"doc_{name}", _SITE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)


for _tool in ("blocks", "build", "reference"):
    _load(_tool)


@pytest.fixture(scope="session")
def sandbox_flag() -> str:
    """Return `auto` if model-written code may run, and `0` if the machine has no isolation."""
    done = subprocess.run(
        [sys.executable, "-m", "rlm", "sandbox", "exec", "-"],
        input="1",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return "0" if done.returncode == 3 else "auto"
