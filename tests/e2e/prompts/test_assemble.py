"""Test `rlm assemble KIND FILE [--json] [--report]` over the examples that ship."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

EXAMPLES = Path(__file__).parents[3] / "examples"
KEYS = {
    "card": {"prompt", "sections", "report"},
    "cited": {"prompt", "citations", "tokens_estimated", "sections", "report"},
    "tiles": {"prompt", "stats", "sections", "report"},
    "child": {"prompt", "sections", "report"},
}


@pytest.mark.parametrize("kind", KEYS)
def test_each_kind_prints_its_prompt_its_json_and_its_report(rlm: Run, kind: str) -> None:
    file = EXAMPLES / f"{kind}.json"
    plain = rlm("assemble", kind, str(file))
    assert (plain.code, plain.stderr) == (0, "")
    as_json = rlm("assemble", kind, "-", "--json", stdin=file.read_bytes())
    assert set(as_json.json) == KEYS[kind]
    prompt = as_json.json["prompt"]
    text = prompt if isinstance(prompt, str) else f"{prompt['system']}\n\n{prompt['user']}"
    assert plain.stdout == f"{text}\n"
    assert isinstance(prompt, str) is (kind in ("card", "tiles"))

    report = rlm("assemble", kind, str(file), "--report")
    assert report.stdout.startswith(plain.stdout)
    table = report.stdout[len(plain.stdout) :]
    totals = as_json.json["report"]["totals"]
    assert f"{totals['prompt']:,} of {totals['allowed']:,} tokens" in table
    for decision in as_json.json["report"]["decisions"]:
        assert decision["section"] in table
    both = rlm("assemble", kind, str(file), "--json", "--report")
    assert both.stdout == as_json.stdout
    assert " tokens (" in both.stderr


def test_the_root_prompt_is_printed(rlm: Run) -> None:
    ran = rlm("assemble", "root")
    assert ran.stdout.startswith("You are the root of a Recursive Language Model (RLM).")
    assert "{{" not in ran.stdout
    as_json = rlm("assemble", "root", "--json", "--model", "openai:gpt-5", "--contract", "strict").json
    assert as_json["prompt"] != ran.stdout.strip()
    assert "refused" in as_json["prompt"]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("card", {"messages": [{"role": "user"}]}, "$.messages[0].content is missing: give it"),
        ("cited", {"question": "q", "style": "poem"}, "$.style is 'poem': give 'qa' or 'summarize'"),
        ("tiles", {"query": "q", "tiles": [{"id": 3}]}, "$.tiles[0].id is 3: give a text"),
        ("tiles", {"query": "q" * 999, "config": {"max_tokens": 9}}, "query can't be dropped"),
        ("child", {"prompt": "x", "window": "big"}, "$.window is 'big'"),
        ("child", [], "$ is a list: give an object"),
    ],
)
def test_bad_input_is_one_line_that_names_its_place(rlm: Run, kind: str, given: Any, message: str) -> None:
    """The error names the JSON path."""
    ran = rlm("assemble", kind, "-", stdin=json.dumps(given))
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.one_line


def test_a_file_that_is_missing_or_not_json_is_one_line(rlm: Run) -> None:
    assert "gone.json cannot be read" in rlm("assemble", "card", "gone.json").one_line
    broken = rlm("assemble", "card", "-", stdin="{")
    assert broken.code == 2
    assert "stdin is not JSON" in broken.one_line
    assert "stdin is not JSON" in rlm("assemble", "card", "-", stdin=b"\xff\xfe{").one_line


def test_unknown_keys_are_reported(rlm: Run) -> None:
    ran = rlm("assemble", "tiles", "-", "--json", stdin='{"query": "q", "config": {"max_token": 5}}')
    assert ran.code == 0
    assert "$.config.max_token is unknown" in ran.one_line


def test_settings_of_the_card_come_from_the_file(rlm: Run, tmp_path: Path) -> None:
    """The file is rlm.toml, or the one of --config. The table is [prompt]."""
    (tmp_path / "other.toml").write_text(
        '[prompt]\nother_context_budget = 60\npromise = "DONE"\n[prompt.rlm]\nmodel = "claude-3-haiku"\n'
    )
    ran = rlm(
        "assemble", "card", str(EXAMPLES / "card.json"), "--json", "--config", str(tmp_path / "other.toml")
    )
    assert ran.code == 0
    sections = {section["name"]: section for section in ran.json["sections"]}
    assert sections["context"]["tokens"] <= 60
    assert "DONE" in sections["agent"]["content"]


def test_a_long_history_is_condensed_without_a_model_unless_one_is_named(rlm: Run, tmp_path: Path) -> None:
    messages = [
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"Step {n}: we changed module {n}. " * 8}
        for n in range(400)
    ]
    card = json.dumps({"id": "1", "state": "coding", "messages": messages})
    config = tmp_path / "c.toml"
    config.write_text('[prompt.rlm]\nmodel = "claude-3-haiku"\n')
    ran = rlm("assemble", "card", "-", "--json", "--config", str(config), stdin=card)
    assert ran.code == 0
    history = {section["name"]: section for section in ran.json["sections"]}["history"]
    assert 0 < history["tokens"] <= 10_000
    assert "--summary-model claude-3-haiku" in ran.stderr

    script = tmp_path / "s.jsonl"
    line = {"role": "summary", "reply": "## Task Summary\n- The modules were changed."}
    script.write_text("\n".join([json.dumps(line)] * 99))
    asked = rlm("assemble", "card", "-", "--json", "--summary-model", f"scripted:{script}", stdin=card)
    assert asked.code == 0, asked.stderr
    assert "The modules were changed." in asked.json["prompt"]
    refused = rlm("assemble", "card", "-", "--summary-model", "claude-3-haiku", stdin=card)
    assert refused.code == 2
    assert "ANTHROPIC_API_KEY" in refused.one_line
