"""Test `rlm trust`: a folder is trusted by name, with the settings that it has at that moment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
ASKED = ("ask", "When was the bridge closed?", "a.txt", "--json")


@pytest.fixture
def folder(tmp_path: Path, rlm: Run) -> Path:
    here = tmp_path / "work"
    (here / "a.txt").write_text("The bridge was closed in May.\n")
    line = {"role": "direct", "reply": "In May."}
    (here / "s.jsonl").write_text(json.dumps(line))
    (here / "rlm.toml").write_text('model = "scripted:s.jsonl"\nmax_rounds = 40\n')
    return here


def test_a_trusted_folder_sets_everything_until_its_file_changes(rlm: Run, folder: Path) -> None:
    assert rlm(*ASKED).code == 2
    trusted = rlm("trust")
    assert trusted.code == 0, trusted.stderr
    assert trusted.stdout.splitlines() == ["model = 'scripted:s.jsonl'", "max_rounds = 40"]
    assert "trusted" in trusted.one_line
    assert rlm(*ASKED).json["usage"][0]["model"] == "scripted:s.jsonl"
    assert rlm("trust", "--list").stdout == f"{folder}\n"
    (folder / "rlm.toml").write_text('model = "scripted:s.jsonl"\nmax_rounds = 40\nsandbox = 0\n')
    refused = rlm(*ASKED)
    assert refused.code == 2
    assert "has changed since you trusted it, and sets model, max_rounds (above 30)" in refused.one_line
    assert "has changed: not in force" in rlm("trust", "--list").stdout
    assert rlm("trust", ".").code == 0
    assert rlm(*ASKED).json["usage"][0]["model"] == "scripted:s.jsonl"


def test_trust_can_be_taken_back(rlm: Run, folder: Path) -> None:
    assert rlm("trust").code == 0
    assert rlm("trust", "--remove").code == 0
    assert rlm("trust", "--list").stdout == ""
    assert rlm(*ASKED).code == 2
    again = rlm("trust", "--remove")
    assert again.code == 2
    assert "is not trusted" in again.one_line


def test_a_folder_that_moves_is_trusted_again(rlm: Run, folder: Path) -> None:
    """The trust is for a real path. A copy, or a link that somebody turns, has none."""
    assert rlm("trust").code == 0
    copy = folder.parent / "copy"
    folder.rename(copy)
    folder.mkdir()
    for name in ("a.txt", "s.jsonl"):
        (folder / name).write_bytes((copy / name).read_bytes())
    (folder / "rlm.toml").symlink_to(copy / "rlm.toml")
    assert rlm(*ASKED).code == 2
    folder.joinpath("rlm.toml").unlink()
    (folder / "rlm.toml").write_text('model = "extractive:no"')
    assert rlm(*ASKED).code == 2


@pytest.mark.parametrize("which", [".", "rlm.toml"])
def test_what_others_can_change_is_not_trusted(rlm: Run, folder: Path, which: str) -> None:
    (folder / which).chmod(0o777)
    refused = rlm("trust")
    assert refused.code == 2
    assert "is writable by others, so it can't be trusted" in refused.one_line
    (folder / which).chmod(0o755)
    assert rlm("trust").code == 0
    (folder / which).chmod(0o777)
    assert rlm(*ASKED).code == 2


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give the folder to another user")
@pytest.mark.parametrize("which", [".", "rlm.toml"])
def test_what_belongs_to_another_is_not_trusted(rlm: Run, folder: Path, which: str) -> None:
    os.chown(folder / which, 65534, 65534)
    refused = rlm("trust")
    assert refused.code == 2
    assert "does not belong to you" in refused.one_line


def test_a_folder_without_settings_and_a_broken_file_are_not_trusted(rlm: Run, folder: Path) -> None:
    assert "is not a folder" in rlm("trust", "a.txt").one_line
    (folder / "rlm.toml").write_text("sandbx = 0")
    assert "unknown setting sandbx" in rlm("trust").one_line
    (folder / "rlm.toml").unlink()
    assert "has no rlm.toml" in rlm("trust").one_line
    assert rlm("trust", "--list").stdout == ""


def test_the_doctor_reports_a_folder_that_is_not_trusted(rlm: Run, folder: Path) -> None:
    (line,) = [line for line in rlm("doctor").stdout.splitlines() if " settings " in line]
    assert line.startswith("warn")
    assert "sets model, max_rounds (above 30)" in line
    assert rlm("trust").code == 0
    (line,) = [line for line in rlm("doctor").stdout.splitlines() if " settings " in line]
    assert line.split(maxsplit=2) == ["ok", "settings", str(folder / "rlm.toml")]
