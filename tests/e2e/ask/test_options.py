"""Test options of `rlm ask` that change the output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("one two three\n" * 20_000)
    return path


@pytest.fixture
def script(tmp_path: Path) -> str:
    """Write a root whose first answer has the wrong type."""
    replies = ["peek(0, 3)\nfinalize('three')", "finalize({'n': 3})"]
    path = tmp_path / "script.jsonl"
    path.write_text(
        "".join(json.dumps({"role": "root", "reply": f"```repl\n{code}\n```"}) + "\n" for code in replies)
    )
    return f"scripted:{path}"


def test_an_answer_of_a_given_type(rlm, tmp_path, text, script) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    ran = rlm("ask", "How many?", str(text), "--model", script, "--schema", str(schema), "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["answer"] == {"n": 3}
    assert ran.json["rounds"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "check the path"),
        ("{", "is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"type": 3}', "no JSON Schema"),
    ],
    ids=["missing", "broken", "a list", "no schema"],
)
def test_a_bad_schema_is_one_line_before_anything(rlm, tmp_path, text, script, content, message) -> None:
    schema = tmp_path / "schema.json"
    if content is not None:
        schema.write_text(content)
    ran = rlm("ask", "How many?", str(text), "--model", script, "--schema", str(schema), "--quiet")
    assert ran.code == 2
    assert message in ran.one_line


def test_a_dry_run_spends_nothing(rlm, text) -> None:
    """--dry-run prints the strategy and the estimated calls, tokens, dollars and seconds."""
    ran = rlm("ask", "How many?", str(text), "--dry-run", "--quiet")
    assert ran.code == 0
    assert "rlm, extractive" in ran.stdout
    assert "calls" in ran.stdout
    assert "tokens, $0" in ran.stdout
    assert "nothing was spent" in ran.stdout
    as_json = rlm("ask", "How many?", str(text), "--dry-run", "--json").json
    assert set(as_json) >= {"strategy", "calls", "tokens", "cost_usd", "seconds"}
    assert rlm("runs", "--json").json == []


def test_a_trace_is_written_during_the_run(rlm, tmp_path, text) -> None:
    trace = tmp_path / "trace.jsonl"
    ran = rlm("ask", "What is three?", str(text), "--trace", str(trace), "--quiet")
    assert ran.code == 0
    events = [json.loads(line)["event"] for line in trace.read_text().splitlines()]
    assert events[0] == "ContextLoaded"
    assert events[-1] == "RunEnded"
