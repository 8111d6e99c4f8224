"""Test that every command that asks models has the same options, names, variables and defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from rlm.cli.app import app
from rlm.cli.config import known_options

Run = Callable[..., Any]

CHAT = "".join(f"### user — 2026-05-04 09:1{n}\nThe bridge was closed in May {n}.\n\n" for n in range(9))
COMMANDS = ("ask", "research", "summarize", "compare", "batch")
COMMON = [
    "--model",
    "--sub-model",
    "--summary-model",
    "--max-cost",
    "--max-rounds",
    "--max-depth",
    "--max-calls",
    "--max-total-tokens",
    "--max-tokens",
    "--max-seconds",
    "--concurrency",
    "--strategy",
    "--contract",
    "--cell-seconds",
    "--dry-run",
    "--sandbox",
    "--schema",
    "--config",
    "--store",
    "--cache",
    "--json",
    "--quiet",
    "--trace",
]


def options_of(command: str) -> dict[str, Any]:
    """Return the options of a command by their long names."""
    commands = typer.main.get_command(app)
    assert isinstance(commands, TyperGroup)
    found = commands.commands[command]
    return {
        option: parameter
        for parameter in found.params
        for option in parameter.opts
        if option.startswith("--")
    }


@pytest.mark.parametrize("command", COMMANDS[1:])
@pytest.mark.parametrize("option", COMMON)
def test_a_common_option_is_the_same_at_every_command(command: str, option: str) -> None:
    ours, asks = options_of(command)[option], options_of("ask")[option]
    assert (ours.name, ours.envvar, ours.default, ours.is_flag, ours.opts) == (
        asks.name,
        asks.envvar,
        asks.default,
        asks.is_flag,
        asks.opts,
    )
    assert ours.type_descriptor.annotation == asks.type_descriptor.annotation


def test_every_option_of_a_settings_file_is_one_of_every_command() -> None:
    """A key of rlm.toml sets the same thing for every command."""
    command = typer.main.get_command(app)
    with command.make_context("rlm", ["ask", "q", "p"]) as context:
        known = {f"--{option.name.replace('_', '-')}" for option in known_options(context)}
    assert {"--model", "--max-cost", "--concurrency", "--store", "--no-document-cache", "--sandbox"} <= known
    for name in COMMANDS:
        assert known <= options_of(name).keys()


def test_limits_of_a_batch_apply_to_each_task(rlm: Run) -> None:
    assert "US dollars, for each task." in " ".join(rlm("batch", "--help").stdout.split())
    assert "US dollars. [env" in " ".join(rlm("ask", "--help").stdout.split())


def test_an_option_without_effect_says_so_and_one_that_asks_for_the_impossible_is_refused(
    rlm: Run, tmp_path: Path
) -> None:
    """No explicit option is ignored in silence. An option of a settings file, which applies to all commands,
    may be.
    """
    (tmp_path / "work" / "a.txt").write_text("The bridge was closed in May.\n")
    (tmp_path / "work" / "schema.json").write_text("{}")
    (tmp_path / "work" / "chat.md").write_text(CHAT)
    idle = rlm("summarize", "chat.md", "--sandbox", "0", "--quiet")
    assert (idle.code, idle.one_line) == (0, "rlm: --sandbox has no effect here: no code runs")
    assert rlm("summarize", "chat.md", "--quiet", env={"RLM_MAX_ROUNDS": "3"}).stderr == ""
    more = rlm("summarize", "chat.md", "--verbose").stderr
    assert "9 messages summarized" in more
    assert "has no effect" not in more
    for command in (("research", "task"), ("compare", "question"), ("summarize",)):
        refused = rlm(*command, "a.txt", "--schema", "schema.json")
        assert refused.code == 2
        assert f"--schema cannot be used with rlm {command[0]}" in refused.one_line


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
