"""Test that one thing has one name, and that wrong words are answered with the right one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(rlm: Any, tmp_path: Path) -> Path:
    here = tmp_path / "work"
    (here / "a.txt").write_text("The northern yard has a crane.\n")
    return here


ASK = ("ask", "What does the northern yard have?", "a.txt", "--quiet")


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("asq",), "Did you mean 'ask'?"),
        (("serch", "a.txt"), "Did you mean 'search'"),
        (("crane", "missing.txt"), "No such command 'crane'"),
        (("ask", "why", "was", "it", "a.txt"), "quote the question: rlm ask 'why was it' a.txt"),
        (("ask", "a.txt", "What is it?"), "rlm ask 'What is it?' a.txt"),
        (("a.txt",), "a.txt is a file: give the question, too"),
        (("show", "nonsense"), "`rlm runs` lists them"),
    ],
)
def test_a_wrong_word_is_answered_with_the_right_one(
    rlm: Any, folder: Path, arguments: tuple[str, ...], answer: str
) -> None:
    ran = rlm(*arguments)
    assert ran.code == 2
    assert answer in ran.stderr


def test_a_word_before_a_file_is_a_question(rlm: Any, folder: Path) -> None:
    ran = rlm("crane", "a.txt", "--quiet")
    assert ran.code == 0, ran.stderr
    assert "The northern yard has a crane." in ran.stdout


def test_options_may_stand_before_the_question(rlm: Any, folder: Path) -> None:
    ran = rlm("-q", "--json", "What does the northern yard have?", "a.txt")
    assert ran.code == 0, ran.stderr
    assert "crane" in ran.json["text"]


def test_help_is_in_sections_and_shows_no_option_that_does_not_apply(rlm: Any) -> None:
    top = rlm("--help").stdout
    for title in ("Ask:", "Look back:", "Set up:", "More:"):
        assert f"\n{title}\n" in top
    asked = rlm("ask", "--help").stdout
    for title in ("Models:", "Limits:", "Input:", "Output:", "How it runs:", "Settings and journal:"):
        assert f"\n{title}\n" in asked
    assert max(map(len, asked.split("Arguments:")[1].splitlines())) <= 80
    batch = rlm("batch", "--help").stdout
    for hidden in ("--schema", "--exclude", "Not available here"):
        assert hidden not in batch
