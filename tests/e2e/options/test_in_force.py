"""Test that a settings file holds for every command that has the setting, not only for those that ask."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlm.cli.console.exits import exit_for

Run = Callable[..., Any]
QUESTION = "What does the northern yard have?"


@pytest.fixture
def folder(rlm: Run, tmp_path: Path) -> Path:
    here = tmp_path / "work"
    (here / "a.txt").write_text("The northern yard has a crane.\n")
    return here


@pytest.fixture
def users_file(tmp_path: Path) -> Path:
    file = tmp_path / "home" / ".config" / "rlm" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


def test_the_store_of_the_user_s_file_holds_for_each_command(
    rlm: Run, folder: Path, users_file: Path
) -> None:
    users_file.write_text(f'store = "{folder.parent / "mine.db"}"\n')
    run = rlm("ask", QUESTION, "a.txt", "--json").json["run_id"]
    assert [one["run_id"] for one in rlm("runs", "--json").json] == [run]
    for command in (
        ("show",),
        ("resume", "latest"),
        ("export", "latest"),
        ("view", "latest", "-o", "v.html"),
    ):
        ran = rlm(*command)
        assert ran.code == 0, (command, ran.stderr)
    assert "mine.db, 1 run" in rlm("doctor").stdout
    assert rlm("runs", "--store", "other.db", "--json").json == []
    assert rlm("runs", "rm", run).code == 0
    assert rlm("segments", "add", "--scope", "core", "--content", "Be brief.").code == 0
    assert rlm("segments", "list", "--store", str(folder.parent / "mine.db")).stdout.count("core") == 1


def test_a_folder_s_store_is_refused_by_each_command(rlm: Run, folder: Path) -> None:
    (folder / "rlm.toml").write_text('store = "stolen.db"\n')
    for command in (("runs",), ("show",), ("resume", "latest")):
        ran = rlm(*command)
        assert ran.code == 2
        assert "sets store, which a folder may not" in ran.one_line
    assert rlm("runs", "--store", "mine.db").code == 0
    assert not (folder / "stolen.db").exists()


def test_the_isolation_of_the_user_s_file_holds_for_a_cell(rlm: Run, folder: Path, users_file: Path) -> None:
    users_file.write_text('sandbox = "0"\n')
    ran = rlm("sandbox", "exec", "-", "--json", stdin="1", env={"RLM_SANDBOX": ""})
    assert ran.json["level"] == 0


def test_no_document_cache_holds_for_a_search(rlm: Run, folder: Path, users_file: Path) -> None:
    (folder / "a.txt").write_text("The northern yard has a crane.\n" * 150_000)
    users_file.write_text("no_document_cache = true\n")
    assert rlm("search", "crane", "a.txt").code == 0
    cache = Path(os.environ["XDG_CACHE_HOME"])
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_the_caches_are_measured_and_emptied(rlm: Run, folder: Path) -> None:
    """Of a folder of the user's that is not ours, nothing is removed."""
    (folder / "a.txt").write_text("The northern yard has a crane.\n" * 150_000)
    assert rlm("search", "crane", "a.txt").code == 0
    shown = rlm("cache").stdout
    assert "search indexes: 0.0 MB" not in shown
    assert "1 entry in" in shown
    assert "search indexes: removed 1 of 1 entry" in rlm("cache", "clear").stdout
    assert "search indexes: 0.0 MB, 0 entries" in rlm("cache").stdout


def test_a_batch_takes_servers_by_name(rlm: Run, folder: Path) -> None:
    (folder / "tasks.jsonl").write_text(json.dumps({"id": 1, "task": QUESTION, "context": ["a.txt"]}))
    ran = rlm("batch", "tasks.jsonl", "--out", "out.jsonl", "--mcp", "nosuch", "--dry-run")
    assert ran.code == 2
    assert "--mcp 'nosuch' is in no settings file" in ran.one_line


def test_an_error_of_a_socket_is_not_one_of_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_for(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")) == 1
    assert exit_for(OSError(errno.EMFILE, "Too many open files")) == 1
    said = capfd.readouterr().err
    assert "Connection refused" in said
    assert "write the output" not in said
    print("stdout is still there")
    assert capfd.readouterr().out


def test_a_search_shows_what_matches_and_nothing_else(rlm: Run, folder: Path) -> None:
    (folder / "a.txt").write_text("A crane <!-- of the yard --> is here.\n")
    (folder / "b.txt").write_text("Nothing of the kind.\n")
    ran = rlm("search", "crane", ".")
    assert "score 0.00" not in ran.stdout
    assert "b.txt" not in ran.stdout
    assert "<!-- of the yard -->" in ran.stdout
    refused = rlm("search", "--regex", "(", "a.txt")
    assert refused.code == 2
    assert "leave out --regex" in refused.one_line
    assert "re.escape" not in refused.one_line
