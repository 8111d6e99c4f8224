"""Test that a setting has one option for every command, and that a command refuses what it does not take."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from rlm.cli.app import app
from rlm.settings_table import CALL_OPTIONS, SETTINGS

Run = Callable[..., Any]

CHAT = "".join(
    f"### {('user', 'assistant')[n % 2]} — 2026-05-04 09:1{n}\nThe bridge was closed in May {n}.\n\n"
    for n in range(9)
)


def commands() -> dict[str, dict[str, Any]]:
    """Return the options of each command by their long names."""
    found: dict[str, dict[str, Any]] = {}

    def walk(command: Any, path: str) -> None:
        if isinstance(command, TyperGroup):
            for name in list(command.commands):
                walk(command.commands[name], f"{path} {name}".strip())
        if path and not (isinstance(command, TyperGroup) and not command.invoke_without_command):
            found[path] = {flag: one for one in command.params for flag in one.opts if flag.startswith("--")}

    walk(typer.main.get_command(app), "")
    return found


def test_an_option_means_the_same_for_every_command() -> None:
    """Each option of a setting is made of its row, so it has one help and one default."""
    of_rows = {row.flag: row for row in (*SETTINGS.values(), *CALL_OPTIONS.values()) if row.has_flag}
    seen: set[str] = set()
    every = commands()
    del every["sandbox exec"]["--cell-seconds"]  # one cell of the user's own, 30 s
    for options in every.values():
        for flag in options.keys() & of_rows.keys():
            assert options[flag].help.startswith(of_rows[flag].help)
            assert options[flag].default is None
            seen.add(flag)
    assert seen == of_rows.keys()


def test_the_surface_is_small() -> None:
    every = commands()
    assert len(every) <= 36  # rlm runs waiting is hidden; sandbox and segments are groups
    assert len({flag for options in every.values() for flag in options}) <= 80
    for name in ("ask", "search", "show", "runs", "view", "export", "resume", "batch", "segments list"):
        assert {"--config", "--set"} <= every[name].keys()


def test_a_command_refuses_an_option_that_it_does_not_take(rlm: Run, tmp_path: Path) -> None:
    """What a settings file or a variable sets applies to all commands, and may have no effect on one."""
    (tmp_path / "work" / "chat.md").write_text(CHAT)
    for option in (["--sandbox", "0"], ["--schema", "s.json"], ["--strategy", "rlm"]):
        ran = rlm("summarize", "chat.md", *option)
        assert ran.code == 2
        assert f"No such option: {option[0]}" in ran.stderr
    assert rlm("summarize", "chat.md", "--quiet", env={"RLM_MAX_ROUNDS": "3"}).stderr == ""


def test_set_sets_what_has_no_option(rlm: Run, tmp_path: Path) -> None:
    (tmp_path / "work" / "a.txt").write_text("The bridge was closed in May.\n" * 10)
    asked = ("ask", "When was it closed?", "a.txt", "--json", "--set", "max_total_tokens=123456")
    assert rlm(*asked).code == 0
    assert '"tokens": 123456' in rlm("show", "--json").stdout
    for pair, said in (
        ("max_total_tokens=x", "--set max_total_tokens=VALUE is 'x'; give a whole number of at least 1"),
        ("max_totl_tokens=1", "did you mean max_total_tokens?"),
        ("max_rounds", "write --set KEY=VALUE"),
        ("check=maybe", "give true or false"),
    ):
        ran = rlm(*asked[:3], "--set", pair)
        assert ran.code == 2
        assert said in ran.one_line
    assert "has no effect on this command" in rlm("runs", "--set", "max_rounds=3").one_line
    assert "the variable RLM_QUEUE is 'x'" in rlm("runs", env={"RLM_QUEUE": "x"}).one_line


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "When was it closed?"),
        ("research", "When was it closed?"),
        ("compare", "When?"),
        ("summarize",),
    ],
)
def test_a_dry_run_tells_what_it_would_take_and_spends_nothing(
    rlm: Run, tmp_path: Path, command: Any
) -> None:
    """The dry run prints strategy, calls, tokens, dollars and seconds."""
    (tmp_path / "work" / "a.txt").write_text("The bridge was closed in May.\n" * 100)
    (tmp_path / "work" / "replies.jsonl").write_text(json.dumps({"role": "root", "reply": "none"}))
    ran = rlm(*command, "a.txt", "--dry-run", "--json", "--model", "scripted:replies.jsonl")
    assert ran.code == 0, ran.stderr
    assert {"strategy", "calls", "tokens", "cost_usd", "seconds"} <= ran.json.keys()
    assert ran.json["calls"] > 0
    assert json.loads(rlm("runs", "--json").stdout) == []


def test_a_trace_is_written_by_every_command(rlm: Run, tmp_path: Path) -> None:
    (tmp_path / "work" / "a.txt").write_text("The bridge was closed in May.\n" * 10)
    (tmp_path / "work" / "chat.md").write_text(CHAT)
    tasks = tmp_path / "work" / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "1", "task": "When was it closed?", "context": ["a.txt"]}) + "\n")
    for command in (
        ("ask", "When was it closed?", "a.txt"),
        ("research", "When was it closed?", "a.txt"),
        ("summarize", "chat.md"),
        ("batch", "tasks.jsonl", "--out", "results.jsonl"),
    ):
        trace = tmp_path / f"{command[0]}.jsonl"
        ran = rlm(*command, "--trace", str(trace), "--quiet")
        assert ran.code == 0, ran.stderr
        events = [json.loads(line)["event"] for line in trace.read_text().splitlines()]
        assert "RunStarted" in events
        assert "RunEnded" in events
