"""Test that one thing has one name, and that names of earlier releases and other tools are answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def folder(rlm: Any, tmp_path: Path) -> Path:
    here = tmp_path / "work"
    (here / "a.txt").write_text("The northern yard has a crane.\n")
    return here


ASK = ("ask", "What does the northern yard have?", "a.txt", "--quiet")


def limits_of(rlm: Any, *arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the limits of a run, as its journal has them."""
    ran = rlm(*ASK, "--json", *arguments, env=env)
    assert ran.code == 0, ran.stderr
    started = json.loads(rlm("show", ran.json["run_id"], "--json").stdout.splitlines()[0])
    return dict(started["data"]["settings"]["limits"])


def test_earlier_names_keep_working_with_a_note(rlm: Any, folder: Path) -> None:
    ran = rlm(*ASK, "--cache")
    assert (ran.code, ran.one_line) == (0, "rlm: --cache is called --reuse-answers now")
    ran = rlm(*ASK, env={"RLM_NO_CACHE": "1"})
    assert ran.one_line == "rlm: RLM_NO_CACHE is called RLM_NO_DOCUMENT_CACHE now"
    assert limits_of(rlm, env={"RLM_MAX_TOKENS": "90000"})["tokens"] == 90_000
    (folder / "rlm.toml").write_text("max-tokens = 80_000\nmax-rounds = 7\n")
    ran = rlm(*ASK)
    assert ran.one_line.endswith("rlm.toml: max-tokens is called max_total_tokens now")
    found = limits_of(rlm)
    assert (found["tokens"], found["rounds"]) == (80_000, 7)


@pytest.mark.parametrize(
    ("arguments", "env", "refusal"),
    [
        (("--cache", "--no-cache"), {}, "--cache and --no-cache are no opposites"),
        ((), {"RLM_CACHE": "1", "RLM_REUSE_ANSWERS": "0"}, "RLM_CACHE and RLM_REUSE_ANSWERS contradict"),
        (("--max-tokens", "500000"), {}, "--max-total-tokens 500000 limits the whole run"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    rlm: Any, folder: Path, arguments: tuple[str, ...], env: dict[str, str], refusal: str
) -> None:
    ran = rlm(*ASK, *arguments, env=env)
    assert ran.code == 2
    assert refusal in ran.one_line


def test_max_tokens_is_the_cap_of_a_reply(rlm: Any, folder: Path, provider_server: Any) -> None:
    model = f"openai:m@{provider_server.url}/v1"
    host = provider_server.url.split("//")[1]
    env = {"RLM_OPENAI_COMPATIBLE_KEY": "key-0123456789", "RLM_OPENAI_COMPATIBLE_KEY_HOST": host}
    ran = rlm(*ASK, "--model", model, "--max-tokens", "77", env=env)
    assert provider_server.requests, ran.stderr
    sent = [json.dumps(request.body) for request in provider_server.requests]
    assert all('"max_tokens": 77' in one or '"max_completion_tokens": 77' in one for one in sent), sent


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("ask", "Why?", "a.txt", "--max-iterations", "3"), "Here it is --max-rounds"),
        (("ask", "Why?", "a.txt", "--temperature=0"), "Here it is --option temperature=N"),
        (("ask", "Why?", "a.txt", "--debug"), "Here it is --verbose"),
        (("ask", "Why?", "a.txt", "-o", "x"), "Here it is the shell's redirection: > FILE"),
        (("logs",), "there is no command 'logs': rlm runs lists them"),
        (("config",), "rlm init writes a settings file"),
        (("asq",), "Did you mean 'ask'?"),
        (("ask", "why", "was", "it", "a.txt"), "quote the question: rlm ask 'why was it' a.txt"),
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


def test_options_may_stand_before_the_question(rlm: Any, folder: Path) -> None:
    ran = rlm("-q", "--json", "What does the northern yard have?", "a.txt")
    assert ran.code == 0, ran.stderr
    assert "crane" in ran.json["text"]


def test_help_is_in_sections_and_shows_no_option_that_does_not_apply(rlm: Any) -> None:
    top = rlm("--help").stdout
    for title in ("Ask:", "Look back:", "Set up:", "More:"):
        assert f"\n{title}\n" in top
    assert "  assemble" not in top
    assert "  segments" not in top
    asked = rlm("ask", "--help").stdout
    for title in ("Models:", "Limits:", "Input:", "Output:", "How it runs:", "Settings and journal:"):
        assert f"\n{title}\n" in asked
    assert "--cache" not in asked
    assert max(map(len, asked.split("Arguments:")[1].splitlines())) <= 80
    batch = rlm("batch", "--help").stdout
    for hidden in ("--schema", "--exclude", "--allow-host", "Not available here"):
        assert hidden not in batch


def test_the_prompt_tools_are_one_group_and_keep_their_earlier_place(rlm: Any) -> None:
    new = rlm("prompts", "assemble", "root")
    assert (new.code, new.stdout) == (0, rlm("assemble", "root").stdout)
    assert rlm("prompts", "segments", "list").code == rlm("segments", "list").code == 0
