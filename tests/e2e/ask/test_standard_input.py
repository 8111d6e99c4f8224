"""Text on standard input without a dash, and the inputs that are none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEXT = "The notice period is three weeks.\n"
COMMAND = [sys.executable, "-m", "rlm", "search", "notice"]


def test_a_pipe_and_a_file_are_read(rlm: Callable[..., Any], tmp_path: Path) -> None:
    ran = rlm("ask", "What is the notice period?", "--model", "extractive", stdin=TEXT)
    assert (ran.code, "stdin:1" in ran.stdout) == (0, True)
    (tmp_path / "text").write_text(TEXT)
    with (tmp_path / "text").open() as file:
        done = subprocess.run(COMMAND, stdin=file, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("closed", [False, True])
def test_no_text_is_one_line(closed: bool) -> None:
    close = (lambda: os.close(0)) if closed else None
    done = subprocess.run(
        COMMAND, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, preexec_fn=close
    )
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "rlm: no PATH is given: name files or folders, or pipe a text into the command"
    ]


def test_an_open_pipe_that_nothing_writes_to_does_not_matter_with_a_path(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT)
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [*COMMAND, str(tmp_path / "text")], stdin=reading, capture_output=True, timeout=60, check=False
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0
