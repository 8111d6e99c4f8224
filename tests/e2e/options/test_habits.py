"""Test the short ways to ask and to look, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "yard.txt"
    path.write_text("The northern yard has a crane.\n")
    return str(path)


def test_the_newest_run_has_a_name(rlm, text) -> None:
    for question in ("What does the northern yard have?", "Who has a crane?"):
        assert rlm(question, text, "-q").code == 0
    shown = rlm("show")
    assert "task: Who has a crane?" in shown.stdout
    assert rlm("show", "latest").stdout == rlm("show", "-1").stdout == shown.stdout
    assert "task: What does the northern yard have?" in rlm("show", "-2").stdout
    assert rlm("show", "latest~1").stdout == rlm("show", "-2").stdout
    missing = rlm("show", "-3")
    assert missing.code == 2
    assert "'latest~2'" in missing.one_line
    listed = json.loads(rlm("runs", "--json").stdout)
    assert [one["task"] for one in listed] == ["Who has a crane?", "What does the northern yard have?"]


def test_a_misspelt_variable_is_one_line(rlm, text) -> None:
    ran = rlm("What does the northern yard have?", text, "-q", env={"RLM_MODLE": "extractive"})
    assert ran.code == 0
    assert "RLM_MODLE is no variable of rlm and has no effect: did you mean RLM_MODEL?" in ran.stderr


def test_verbose_shows_each_block_with_its_output(rlm, text) -> None:
    """Elsewhere one line a block is shown. What a block prints cannot move the terminal's cursor."""
    Path(text).write_text("The northern yard has a crane.\x1b[2J\n" * 40)
    asked = ("ask", "What does the northern yard have?", text, "--strategy", "rlm")
    short, ran = rlm(*asked), rlm(*asked, "-v")
    assert "meta = context_meta()" not in short.stderr
    assert "    meta = context_meta()\n" in ran.stderr
    assert "round 1: ok after " in ran.stderr
    assert "'documents': 1}\n" in ran.stderr
    assert "\x1b[2J" not in ran.stderr
    assert ran.stderr.count("\n") < 300
    assert ran.stdout == short.stdout


def test_findings_of_the_doctor_are_json(rlm) -> None:
    found = json.loads(rlm("doctor", "--json").stdout)
    assert {"verdict", "what", "detail"} == set(found[0])
    assert {"python", "packages", "journal"} <= {one["what"] for one in found}


def test_help_and_version_are_words_too(rlm) -> None:
    assert rlm("help").stdout == rlm("--help").stdout
    assert rlm("help", "ask").stdout == rlm("ask", "--help").stdout
    assert rlm("version").stdout == rlm("-V").stdout == rlm("--version").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_every_shell(rlm, shell) -> None:
    script = rlm("--show-completion", shell, env={"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"})
    assert script.code == 0, script.stderr
    assert "RLM_COMPLETE" in script.stdout
