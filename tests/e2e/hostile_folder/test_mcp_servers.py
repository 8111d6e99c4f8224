"""Test that a folder starts no MCP server: only the user's settings file, or a file of --config, may."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(240)

Run = Callable[..., Any]
STUB = Path(__file__).parents[2] / "mcp_stub_server.py"
QUESTION = "How many?"


def table(name: str, command: str, *arguments: str) -> str:
    return f"[mcp.{name}]\ncommand = {json.dumps(command)}\nargs = {json.dumps(list(arguments))}\n"


@pytest.fixture
def folder(tmp_path: Path, rlm: Run) -> Path:
    here = tmp_path / "work"
    (here / "a.txt").write_text("one two three\n", encoding="utf-8")
    reply = "```repl\npeek(0, 3)\nfinalize(str(mine_add(1, 1)))\n```"
    (here / "s.jsonl").write_text(json.dumps({"role": "root", "reply": reply}), encoding="utf-8")
    return here


@pytest.fixture
def users_file(tmp_path: Path) -> Path:
    file = tmp_path / "home" / ".config" / "rlm" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


def ask(rlm: Run, *options: str) -> Any:
    return rlm("ask", QUESTION, "a.txt", "--model", "scripted:s.jsonl", "--strategy", "rlm", *options)


def test_a_server_of_the_folder_is_not_started(rlm: Run, folder: Path, users_file: Path) -> None:
    evil = folder.parent / "evil-was-here"
    (folder / "rlm.toml").write_text(table("mine", "/usr/bin/touch", str(evil)), encoding="utf-8")
    assert rlm("ask", QUESTION, "a.txt", "--model", "extractive").code == 0
    # A server of the same name in the user's file changes nothing.
    users_file.write_text(table("mine", sys.executable, str(STUB), "well"), encoding="utf-8")
    for command in (["ask", QUESTION, "a.txt"], ["research", QUESTION, "a.txt"], ["mcp"]):
        ran = rlm(*command, "--mcp", "mine", "--model", "extractive")
        assert ran.code == 2, ran.stderr
        assert "mcp.mine" in ran.one_line
        assert "give --config rlm.toml" in ran.one_line
    assert not evil.exists()


def test_a_server_of_the_user_is_started_when_it_is_named(rlm: Run, folder: Path, users_file: Path) -> None:
    users_file.write_text(table("mine", sys.executable, str(STUB), "well"), encoding="utf-8")
    named = ask(rlm, "--mcp", "mine", "--json")
    assert named.json["answer"] == "2", named.stderr
    unnamed = ask(rlm)
    assert unnamed.code != 0
    missing = ask(rlm, "--mcp", "other")
    assert missing.code == 2
    assert "--mcp 'other' is in no settings file; there are mine" in missing.one_line


def test_a_file_of_config_may_name_a_server(rlm: Run, folder: Path) -> None:
    (folder / "rlm.toml").write_text(table("mine", sys.executable, str(STUB), "well"), encoding="utf-8")
    assert ask(rlm, "--mcp", "mine", "--config", "rlm.toml", "--json").json["answer"] == "2"


def test_a_wrong_table_names_file_and_key(rlm: Run, folder: Path, users_file: Path) -> None:
    users_file.write_text("[mcp.mine]\ncomand = 'x'\n", encoding="utf-8")
    ran = ask(rlm)
    assert ran.code == 2
    assert "config.toml: mcp.mine has no key 'comand'" in ran.one_line
