"""Test the names that may not change: scripts, stores and settings of users hold them. contract.json lists
them.

Add a new name to contract.json by hand. A missing or changed name breaks a user's script.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer

from rlm import RunResult
from rlm.cli.app import app
from rlm.cli.earlier_names import FLAGS
from rlm.config_file.setting_names import EARLIER_NAMES
from rlm.journal import EventKind, RunState
from rlm.results import StopReason, Strategy

CONTRACT: dict[str, Any] = json.loads((Path(__file__).parent / "contract.json").read_text())


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    for below, one in getattr(command, "commands", {}).items():
        yield from commands(one, f"{name} {below}")


def choices(annotation: Any) -> list[str]:
    """Return the texts that a parameter of such a type accepts, if they are few."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [one for part in get_args(annotation) for one in choices(part)]


def parameter(one: Any) -> dict[str, Any]:
    facts = {
        "flags": [*one.opts, *one.secondary_opts],
        "choices": choices(one.type_descriptor.annotation),
        "variable": one.envvar,
        "required": one.required,
        "bare": getattr(one, "is_flag", False),
        "many": one.nargs == -1 or bool(getattr(one, "multiple", False)),
    }
    return {name: value for name, value in facts.items() if value}


def command_line() -> dict[str, Any]:
    """Return every command with its arguments in order, and its options with their flags and variables."""
    found: dict[str, Any] = {}
    for name, command in commands(typer.main.get_command(app), "rlm"):
        kinds: dict[str, list[Any]] = {"argument": [], "option": []}
        for one in command.params:
            kinds[one.param_type_name].append(parameter(one))
        found[name] = {
            "arguments": [
                {key: value for key, value in one.items() if key != "flags"} for one in kinds["argument"]
            ],
            "options": sorted(kinds["option"], key=lambda one: str(one["flags"])),
        }
    return found


def tables(store: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(store)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            name: [f"{row[1]} {row[2]}" for row in database.execute(f"PRAGMA table_xinfo({name})")]
            for name in sorted(names)
            if not name.startswith("sqlite_")
        }


def indexes(store: Path) -> list[str]:
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
        return sorted(name for (name,) in rows)


def keys(value: Any, path: str = "") -> set[str]:
    """Return the paths of all keys of a JSON value."""
    if isinstance(value, dict):
        return {
            one for key, below in value.items() for one in {f"{path}.{key}", *keys(below, f"{path}.{key}")}
        }
    if isinstance(value, list):
        return {one for below in value for one in keys(below, f"{path}[]")}
    return set()


def test_commands_flags_and_variables() -> None:
    assert command_line() == CONTRACT["command_line"]


def test_variables_of_the_environment() -> None:
    variables = {
        one["variable"]
        for each in CONTRACT["command_line"].values()
        for one in each["options"]
        if "variable" in one
    }
    assert variables == set(CONTRACT["variables"])
    assert all(re.fullmatch("RLM_[A-Z_]+", one) for one in variables)


def test_earlier_names_keep_working() -> None:
    assert dict(FLAGS) == CONTRACT["earlier_flags"]
    assert dict(EARLIER_NAMES) == CONTRACT["earlier_settings"]


def test_kinds_states_and_stop_reasons() -> None:
    assert list(get_args(EventKind)) == CONTRACT["event_kinds"]
    assert list(get_args(RunState)) == CONTRACT["run_states"]
    assert list(get_args(StopReason)) == CONTRACT["stop_reasons"]
    assert list(get_args(Strategy)) == CONTRACT["strategies"]


@pytest.fixture
def notes(work: Path, old: Path) -> None:
    for name in ("notes.txt", "deep.jsonl"):
        (work / name).write_bytes((old / name).read_bytes())


def test_keys_of_a_summary(rlm, notes) -> None:
    ran = rlm("summarize", "notes.txt", "--json")
    assert list(ran.json) == CONTRACT["json_of_summarize"]


def test_tables_results_events_and_traces_of_a_new_run_are_those_of_an_old_one(
    rlm, notes, work, tmp_path, old
) -> None:
    """The question of the old run is asked again. All results have the same shape, key by key."""
    store = tmp_path / "new.db"
    asked = (
        "ask",
        "Which yards are there, and how many cranes?",
        "notes.txt",
        "--model",
        "scripted:deep.jsonl",
    )
    more = ("--strategy", "rlm", "--concurrency", "1", "--trace", "trace.jsonl", "--store", str(store))
    ran = rlm(*asked, *more, "--json")
    assert ran.code == 0, ran.stderr
    result = json.loads((old / "deep-result.json").read_text())
    result["usage"] = [{**one, "reasoning_tokens": 0} for one in result["usage"]]
    result["citations"] = [
        {**one, "seen": False, "cell_place": None, "part": None, "rows_place": None}
        for one in result["citations"]
    ]
    result["coverage"]["pages_looked"] = 0
    varying = {"run_id": "", "seconds": 0.0}
    assert {**ran.json, **varying} == {**ran.json, **result, **varying}
    assert list(ran.json) == CONTRACT["json_of_ask"]
    assert list(result) == CONTRACT["json_of_resume"]

    def shape(text: str, by: str) -> list[tuple[str, list[str]]]:
        lines = [json.loads(line) for line in text.splitlines()]
        return [(line[by], sorted(keys(line) - set(CONTRACT["keys_added"]))) for line in lines]

    assert shape((work / "trace.jsonl").read_text(), "event") == shape(
        (old / "trace.jsonl").read_text(), "event"
    )
    exported = rlm("export", ran.json["run_id"], "--store", str(store)).stdout
    assert shape(exported, "kind") == shape((old / "deep-export.jsonl").read_text(), "kind")
    (listed,) = rlm("runs", "--json", "--store", str(store)).json
    assert list(listed) == CONTRACT["listed_run"]

    assert rlm("segments", "list", "--store", str(store)).code == 0
    assert rlm("segments", "entity", "npc", "x", "--store", str(store)).code == 0
    assert tables(store) == CONTRACT["tables"]
    assert indexes(store) == CONTRACT["indexes"]


def test_the_tables_of_the_old_store_are_kept_and_new_ones_are_added(rlm, away) -> None:
    assert {name: CONTRACT["tables"][name] for name in tables(away)} == tables(away)
    assert set(indexes(away)) <= set(CONTRACT["indexes"])
    assert rlm("runs", "--store", str(away)).code == 0
    assert tables(away) == CONTRACT["tables"]
    assert indexes(away) == CONTRACT["indexes"]


def test_the_fields_of_a_result() -> None:
    assert list(RunResult.__dataclass_fields__) == CONTRACT["result_fields"]


def test_exit_codes(rlm, notes, work, script) -> None:
    """Each code is the exit code of a real process, as a script sees it."""
    codes = CONTRACT["exit_codes"]
    script("none")
    script("looks", ("root", "```repl\nprint(peek(0, 5))\n```"), ("root", "no block"))
    ask = ("ask", "Why?", "notes.txt", "--strategy", "rlm", "--quiet")
    assert rlm("runs").code == codes["answered"]
    assert rlm(*ask, "--model", "scripted:looks.jsonl", "--max-rounds", "2").code == codes["no answer"]
    assert rlm("ask", "Why?", "nowhere.txt").code == codes["usage"]
    assert rlm(*ask, "--model", "scripted:none.jsonl").code == codes["model provider"]
    assert (codes["isolation refused"], codes["interrupted"]) == (3, 130)
