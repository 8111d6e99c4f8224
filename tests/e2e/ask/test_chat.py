"""Test `rlm chat`: questions by line, in one kernel."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TEXT = "The northern yard has a crane.\nThe southern yard has a ferry.\n"


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "yards.txt"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def script(tmp_path: Path) -> str:
    cells = [
        "seen = search('crane')[0]\nfinalize('a crane', evidence=[seen])",
        "finalize(f'{str(seen)[:5]} again', evidence=[search('ferry')[0]])",
    ]
    path = tmp_path / "script.jsonl"
    path.write_text(
        "".join(json.dumps({"role": "root", "reply": f"```repl\n{cell}\n```"}) + "\n" for cell in cells)
    )
    return f"scripted:{path}"


def test_questions_of_a_pipe_share_their_variables(rlm, text: str, script: str) -> None:
    asked = ("chat", text, "--model", script, "--strategy", "rlm")
    ran = rlm(*asked, stdin="What does the northern yard have?\n\nAnd the southern one?")
    assert ran.code == 0, ran.stderr
    first, second = ran.stdout.index("a crane"), ran.stdout.index("again")
    assert first < second
    assert ran.stdout.count("Sources") == 2
    newest, older = rlm("runs", "--json").json
    assert [newest["task"], older["task"]] == ["And the southern one?", "What does the northern yard have?"]
    assert f"to ask on: rlm chat --continue {newest['run_id']}" in ran.stderr


def test_it_goes_on_after_a_run(rlm, text: str) -> None:
    model = ("--model", "extractive", "--quiet")
    assert rlm("ask", "What does the northern yard have?", text, *model).code == 0
    ran = rlm("chat", "--continue", "latest", *model, stdin="Which yard has a ferry?\n")
    assert ran.code == 0, ran.stderr
    assert "The southern yard has a ferry." in ran.stdout
    assert rlm("chat", text, *model, stdin="Who is Zaphod Beeblebrox?\n").code == 0


def test_wrong_uses_are_one_line(rlm, text: str) -> None:
    assert "no PATH is given" in rlm("chat", stdin="Why?\n").one_line
    assert "standard input holds the questions" in rlm("chat", "-", stdin="Why?\n").one_line
    assert rlm("chat", text, "--quiet").code == 0


def test_ctrl_c_at_the_prompt_ends_it_at_once(text: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rlm", "chat", text, "--model", "extractive"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.strip().splitlines()[-1] == "rlm: interrupted"
