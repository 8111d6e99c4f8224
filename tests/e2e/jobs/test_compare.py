"""Test `rlm compare` from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest

TEXT = "".join(f"Line {n} is about the weather.\n" for n in range(400)) + "The magic word is xyzzy.\n"
QUESTION = "What is the magic word?"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def reply(received) -> str:
    if "repl" in received.system:
        evidence = "evidence=['The magic word is xyzzy.']"
        return f"```repl\nhit = search('magic')[0]\nfinalize('xyzzy', {evidence})\n```"
    if "magic word is" not in received.prompt:
        return "NOT_FOUND"
    return 'xyzzy\nEvidence:\n"The magic word is xyzzy."'


def test_without_a_model_it_is_refused_in_one_line_before_any_work(rlm, text: Path) -> None:
    for more in ((), ("--dry-run",)):
        ran = rlm("compare", QUESTION, str(text), *more)
        assert (ran.code, ran.stdout) == (2, "")
        assert "a comparison needs a language model: " in ran.one_line
        assert "--model" in ran.one_line
    assert rlm("runs", "--json").json == []


def test_a_row_for_each_method_that_was_asked_for(rlm, text: Path, provider_server) -> None:
    provider_server.always = reply
    model = ("--model", f"openai:m@{provider_server.url}/v1")
    ran = rlm("compare", QUESTION, str(text), "--method", "rlm", "--method", "bm25", *model)
    assert ran.code == 0, ran.stderr
    rows = {line.split()[0]: line for line in ran.stdout.splitlines()[1:3]}
    assert set(rows) == {"bm25", "rlm"}
    assert "1 of 1" in rows["bm25"]
    assert ran.stdout.count("xyzzy") >= 2


def test_with_a_model_calls_and_tokens_are_counted(rlm, text: Path, provider_server) -> None:
    provider_server.always = reply
    ran = rlm("compare", QUESTION, str(text), "--json", "--model", f"openai:m@{provider_server.url}/v1")
    assert ran.code == 0, ran.stderr
    rows = {row["method"]: row for row in ran.json["rows"]}
    assert rows["direct"]["calls"] == rows["bm25"]["calls"] == rows["rlm"]["calls"] == 1
    assert rows["map-reduce"]["calls"] == 2
    assert all(row["cost_usd"] == 0 for row in rows.values())
    assert all(row["input_tokens"] == 10 * row["calls"] for row in rows.values())
    assert "You need no RLM for this" in ran.json["recommendation"]


def test_an_unknown_method_or_an_empty_question_is_one_line(rlm, text: Path) -> None:
    ran = rlm("compare", QUESTION, str(text), "--method", "magic")
    assert (ran.code, "direct, bm25, map-reduce, rlm" in ran.one_line) == (2, True)
    ran = rlm("compare", " ", str(text))
    assert (ran.code, "question is empty" in ran.one_line) == (2, True)
