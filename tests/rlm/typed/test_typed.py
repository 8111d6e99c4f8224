"""Test that a user's program has types all through: pyright, strict."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).with_name("project.py")


def test_a_program_of_a_user_passes_pyright_strict(tmp_path: Path) -> None:
    shutil.copy(PROJECT, tmp_path)
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["project.py"]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("pyright cannot run here: it fetches Node.js and itself, and got neither in 100 s")
    if not done.stdout.startswith("{"):
        pytest.skip(f"pyright cannot run here (it needs Node.js): {done.stderr[-300:]}")
    report = json.loads(done.stdout)
    faults = [
        f"{one['range']['start']['line'] + 1}: {one['message']}" for one in report["generalDiagnostics"]
    ]
    assert report["summary"]["filesAnalyzed"] >= 1
    # What pandas itself leaves untyped is not ours.
    assert [one for one in faults if "pandas" not in one] == []
