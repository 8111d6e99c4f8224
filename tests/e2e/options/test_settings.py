"""Test the precedence option > RLM_* > ./rlm.toml > user config > default, and `rlm init`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path, rlm: Run) -> Path:
    """Make the folder in which the command runs, with a text to ask about."""
    here = tmp_path / "work"
    (here / "a.txt").write_text("The bridge was closed in May. It opened in July.\n" * 20, encoding="utf-8")
    return here


def rounds(rlm: Run, *options: str, **env: str) -> int:
    """Return the limit of rounds that the journal holds for a run."""
    ran = rlm("ask", "When was the bridge closed?", "a.txt", "--json", *options, env=env)
    assert ran.code == 0, ran.stderr
    events = [
        json.loads(line) for line in rlm("show", ran.json["run_id"], "--json", env=env).stdout.splitlines()
    ]
    found = re.findall(r'"rounds": (\d+)', json.dumps(events[0]))
    return int(found[0])


def test_option_before_variable_before_folder_before_user_before_default(rlm: Run, folder: Path) -> None:
    users = folder.parent / "home" / ".config" / "rlm" / "config.toml"
    assert rounds(rlm) == 30
    users.parent.mkdir(parents=True)
    users.write_text("max_rounds = 14\n")
    assert rounds(rlm) == 14
    (folder / "rlm.toml").write_text("max_rounds = 12\n")
    assert rounds(rlm) == 12
    (folder / "other.toml").write_text("max_rounds = 13\n")
    assert rounds(rlm, "--config", "other.toml") == 13
    assert rounds(rlm, RLM_CONFIG="other.toml", RLM_MAX_ROUNDS="15") == 15
    assert rounds(rlm, "--max-rounds", "16", RLM_MAX_ROUNDS="15") == 16


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_round = 3", r"rlm\.toml: unknown setting max_round; use one of .*max_rounds.*\[prompt\]"),
        ('max_rounds = "3"', r"rlm\.toml: max_rounds is '3'; give a whole number of at least 1"),
        ("max_rounds = 0", r"rlm\.toml: max_rounds is 0; give a whole number of at least 1"),
        ("max_cost = true", r"rlm\.toml: max_cost is True; give a number of at least 0"),
        ("model = 3", r"rlm\.toml: model is 3; give a text"),
        ('model = "gtp-5"', r"rlm\.toml: model: unknown model"),
        ('strategy = "best"', r"rlm\.toml: strategy is 'best'; give one of auto"),
        ("[prompt.rlm]\nthreshold_percentage = 101", r"rlm\.toml: prompt\.rlm\.threshold_percentage is 101"),
        ('api_key = "sk-123"', r"rlm\.toml: unknown setting api_key"),
        ("oops", r"rlm\.toml is not TOML"),
    ],
)
def test_what_will_not_do_is_one_line_and_nothing_is_run(
    rlm: Run, folder: Path, text: str, message: str
) -> None:
    """The error names the file and the key, and nothing is done before it."""
    (folder / "rlm.toml").write_text(text)
    ran = rlm("ask", "When?", "a.txt")
    assert ran.code == 2
    assert re.search(message, ran.one_line)
    assert "sk-123" not in ran.stderr


def test_a_config_that_is_not_there_is_an_error(rlm: Run, folder: Path) -> None:
    ran = rlm("ask", "When?", "a.txt", "--config", "gone.toml")
    assert ran.code == 2
    assert "gone.toml does not exist" in ran.one_line


def test_sandbox_may_be_a_number_or_a_text(rlm: Run, folder: Path) -> None:
    """`sandbox = 0` is what people write."""
    for text in ("sandbox = 0", 'sandbox = "auto"'):
        (folder / "rlm.toml").write_text(text)
        assert rlm("assemble", "root").code == 0


def test_windows_and_prices_of_models_reach_the_run(rlm: Run, folder: Path) -> None:
    """Calls are charged at the file's price, and prompts stay within its window."""
    line = {"role": "direct", "reply": "I can't tell.", "usage": {"input_tokens": 1_000, "output_tokens": 10}}
    (folder / "s.jsonl").write_text(json.dumps(line))
    asked = ("ask", "When?", "a.txt", "--json", "--model", "scripted:s.jsonl", "--strategy", "direct")
    assert rlm(*asked).json["usage"][0]["cost_usd"] == 0
    table = '[models."scripted:s.jsonl"]\n'
    asked = (*asked, "--config", "mine.toml")
    (folder / "mine.toml").write_text(f"{table}input_price = 2\noutput_price = 100\n")
    assert rlm(*asked).json["usage"][0]["cost_usd"] == pytest.approx(0.003)
    (folder / "mine.toml").write_text(f"{table}window = 300\noutput = 100\n")
    ran = rlm(*asked)
    assert (ran.code, "usage" in ran.stdout and ran.json["usage"]) in ((1, []), (2, False))


def test_init_writes_a_commented_file_that_is_all_defaults(rlm: Run, folder: Path) -> None:
    """Loading the file changes nothing, and without the comment signs its settings still load."""
    ran = rlm("init")
    assert ran.code == 0
    text = (folder / "rlm.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text) == {}
    bare = re.sub(r"^# (?=\[|\w+ = )", "", text, flags=re.MULTILINE)
    bare = re.sub(r'^\w+ = "…".*$', "", bare, flags=re.MULTILINE)
    assert {"max_rounds", "max_cost", "sandbox", "models", "prompt"} <= set(tomllib.loads(bare))
    (folder / "rlm.toml").write_text(bare, encoding="utf-8")
    assert rounds(rlm, "--config", "rlm.toml") == 30


def test_init_overwrites_only_with_force(rlm: Run, folder: Path) -> None:
    (folder / "rlm.toml").write_text("max_rounds = 3\n")
    ran = rlm("init")
    assert ran.code == 2
    assert "--force" in ran.one_line
    assert (folder / "rlm.toml").read_text() == "max_rounds = 3\n"
    assert rlm("init", "--force").code == 0
    assert "# max_rounds = 30" in (folder / "rlm.toml").read_text(encoding="utf-8")
    assert rlm("init", "deep/er/config.toml").code == 0
    assert (folder / "deep/er/config.toml").exists()
