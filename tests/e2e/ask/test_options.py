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
