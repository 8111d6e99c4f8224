"""Test short ways to ask: words in another order, `-1`, a question without a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm import RLM, Settings
from rlm.cli.shorthand import find_swapped, misspelt_variables, resolve_shorthand

COMMANDS = ("ask", "show", "resume", "runs")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Is it so?|a.txt", "ask|Is it so?|a.txt"),
        ("Why? a.txt", "ask|Why?|a.txt"),
        ("誰が払った？ a.txt", "ask|誰が払った？|a.txt"),
        ("ask Why? a.txt", "ask|Why?|a.txt"),
        ("asq a.txt", "asq|a.txt"),
        ("--version", "--version"),
        ("help", "--help"),
        ("help show", "show|--help"),
        ("version", "--version"),
        ("show -1", "show|latest~0"),
        ("show -3 --json", "show|latest~2|--json"),
        ("resume -1", "resume|latest~0"),
        ("runs -n 5", "runs|-n|5"),
        ("runs -1", "runs|-1"),
        ("", ""),
    ],
)
def test_short_arguments_are_resolved(given: str, meant: str) -> None:
    arguments = given.split("|") if "|" in given else given.split()
    assert resolve_shorthand(arguments, COMMANDS) == (meant.split("|") if meant else [])


def test_a_file_in_place_of_the_question_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("x")
    assert find_swapped(str(file), ["Is it so?"]) == "Is it so?"
    assert find_swapped(str(file), [str(file)]) is None
    assert find_swapped("Is it so?", ["no such file"]) is None
    assert find_swapped(str(file), ["missing.txt"]) is None
    assert find_swapped("x" * 5_000, ["Is it so?"]) is None


def test_a_misspelt_variable_is_noticed() -> None:
    environment = ["RLM_MODLE", "RLM_MODEL", "RLM_TEST_PG_URL", "HOME", "RLM_BUBBLEWRAP", "RLM_MAX_COSTS"]
    found = list(misspelt_variables(environment, ["RLM_MODEL", "RLM_MAX_COST"]))
    assert found == [("RLM_MAX_COSTS", "RLM_MAX_COST"), ("RLM_MODLE", "RLM_MODEL")]


def test_the_runtime_and_its_answer_print_well(tmp_path: Path) -> None:
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    assert repr(rlm) == "RLM('extractive')"
    result = rlm.run_sync("What was ordered?", "Acme ordered forty cranes. Nobody else did.\n")
    assert str(result) == result.markdown()
    assert "forty cranes" in str(result)
