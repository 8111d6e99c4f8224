"""A real model of 135 M parameters writes real nonsense: whatever it writes, this must hold. The tests pin no
wording. `make test-model` runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]

CODE = "What is the secret code of the gate?"
ANSWERED = (0, 1)
"""An answer, or a reason why there is none."""
PROVIDER = 4
"""The model could not be asked. What there is without it is printed."""


def holds(result: dict[str, Any], text: str) -> None:
    """Assert what holds of every result, whatever the model wrote."""
    assert result["usage"], result
    assert sum(usage["input_tokens"] + usage["output_tokens"] for usage in result["usage"]) > 0
    if result["answer"] is None:
        assert result["stop_reason"] != "finalized"
        assert result["warnings"], "an ended run says why"
        assert not result["found"]
    for citation in result["citations"]:
        if citation["verified"]:
            assert citation["quote"].split() == text[citation["start"] : citation["end"]].split()
    for told in ("You are a careful reader", "You get one task"):
        assert told not in str(result["answer"]), "an answer that repeats its prompt is no answer"


@pytest.mark.parametrize("strategy", ["direct", "map-reduce", "auto"])
def test_a_question(rlm, yard: Path, strategy: str) -> None:
    ran = rlm("ask", CODE, yard, "--strategy", strategy, "--json", "--max-seconds", 300)
    assert ran.code in ANSWERED
    assert "Traceback" not in ran.stderr
    holds(ran.json, yard.read_text())


def test_as_the_child_of_a_scripted_root(rlm, yard: Path) -> None:
    ran = rlm("ask", CODE, yard, "--strategy", "rlm", "--json", "--max-seconds", 300, sub_model=True)
    assert ran.code in ANSWERED
    result = ran.json
    holds(result, yard.read_text())
    assert any("smollm2" in usage["model"] for usage in result["usage"])


def test_a_root_that_writes_no_block_ends_by_name(rlm, yard: Path) -> None:
    limits = ("--max-rounds", 3, "--max-seconds", 300)
    ran = rlm("ask", CODE, yard, "--strategy", "rlm", "--json", *limits)
    assert ran.code in ANSWERED
    assert ran.json["rounds"] <= 3
    holds(ran.json, yard.read_text())


def test_the_limit_on_tokens_holds(rlm, yard: Path) -> None:
    ran = rlm(
        "ask",
        CODE,
        yard,
        "--strategy",
        "map-reduce",
        "--json",
        "--option",
        "output=2000",
        "--max-seconds",
        300,
    )
    assert ran.code in ANSWERED
    spent = sum(usage["input_tokens"] + usage["output_tokens"] for usage in ran.json["usage"])
    assert spent <= 2_000


def test_the_limit_on_time_holds(rlm, yard: Path) -> None:
    ran = rlm("ask", CODE, yard, "--strategy", "direct", "--json", "--max-seconds", 2)
    result = ran.json
    assert ran.code in ANSWERED
    assert result["seconds"] < 30
    assert result["answer"] is not None or result["stop_reason"] in (
        "time",
        "model",
        "unverified",
        "not_found",
    )


def test_a_summary_marks_what_the_text_does_not_support(rlm, tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    lines = [
        ("Ann", "We decided to ship version 2 on 14 May, because the tests are green."),
        ("Ben", "I will write the release notes. The open question is the price."),
        ("Ann", "The price is 40 francs. Clara will tell the customers on Monday."),
    ]
    talk.write_text(json.dumps([{"role": "user", "author": name, "content": text} for name, text in lines]))
    ran = rlm("summarize", talk, "--json", "--max-seconds", 300)
    assert ran.code in (*ANSWERED, PROVIDER)
    assert "Traceback" not in ran.stderr
    summary = ran.json
    assert (ran.code == PROVIDER) == (summary["stop_reason"] == "model")
    text = summary["summary"]
    told = " ".join(line for _, line in lines).casefold()
    supported = [
        line for line in text.splitlines() if "[m" in line and "not supported" not in line.casefold()
    ]
    # A line that counts as supported shares a name, number or rare word with the talk.
    for line in supported:
        words = {word.strip(".,:;!?()[]*-").casefold() for word in line.split() if len(word) > 3}
        assert not words or any(word in told for word in words), line


def test_research_reports_gaps_instead_of_inventions(rlm, yard: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.md"
    plan.write_text("- Who is the foreman?\n- What does heating the hall cost?\n")
    ran = rlm("research", "People and costs", yard, "--plan", plan, "--json", "--max-seconds", 400)
    assert "Traceback" not in ran.stderr
    assert ran.code in ANSWERED
    for source in ran.json.get("sources", []):
        assert " ".join(source["quote"].split()) in " ".join(yard.read_text().split())


def test_a_batch_ends_each_task(rlm, yard: Path, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    asked = [CODE, "Who is the foreman?"]
    tasks.write_text(
        "".join(
            json.dumps({"id": str(n), "task": task, "context": [str(yard)]}) + "\n"
            for n, task in enumerate(asked)
        )
    )
    out = tmp_path / "results.jsonl"
    ran = rlm("batch", tasks, "--out", out, "--max-seconds", 300)
    assert "Traceback" not in ran.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == len(asked)
