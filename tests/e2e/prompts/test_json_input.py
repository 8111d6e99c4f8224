"""Every command that reads JSON refuses hostile and broken JSON in one line, with exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DEEP = "[" * 100_000
TALL = "[" * 500 + "]" * 500
"""Python parses it, and code that walks it may not."""
LATIN = '{"a": "é"}'.encode("latin-1")


COMMANDS = [
    ["assemble", "card", "FILE"],
    ["batch", "FILE", "--out", "out.jsonl"],
    ["ask", "Who?", "a.txt", "--schema", "FILE"],
    ["ask", "Who?", "a.txt", "--model", "scripted:FILE"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
@pytest.mark.parametrize("text", [DEEP, TALL, LATIN], ids=["deep", "tall", "latin"])
def test_it_is_refused_in_one_line(
    rlm: Callable[..., Any], tmp_path: Path, command: list[str], text: str | bytes
) -> None:
    (tmp_path / "work" / "a.txt").write_text("Ann is here.\n")
    (tmp_path / "work" / "in.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = rlm(*(argument.replace("FILE", "in.json") for argument in command))
    assert done.code == 2, done.stderr
    assert len(done.one_line) < 600
