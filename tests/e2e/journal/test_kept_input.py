"""Test what a run leaves behind: the copy of its input, and the store in which it is."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

TEXT = "The bridge was closed in May. It opened in July.\n" * 20
ASKED = ("ask", "When was the bridge closed?")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def inputs() -> int:
    store = Path(os.environ["XDG_STATE_HOME"]) / "rlm" / "rlm.db"
    with closing(sqlite3.connect(store)) as database:
        return int(database.execute("SELECT count(*) FROM inputs").fetchone()[0])


def test_a_run_keeps_its_input_and_with_no_cache_it_does_not(rlm: Any, file: Path) -> None:
    for option in (["--no-document-cache"], []):
        assert rlm(*ASKED, str(file), *option).code == 0
        assert (inputs() > 0) == (not option)


def test_a_job_keeps_none_either(rlm: Any, file: Path) -> None:
    asked = ("research", "When was the bridge closed?", str(file))
    assert rlm(*asked, env={"RLM_NO_DOCUMENT_CACHE": "1"}).code == 0
    assert inputs() == 0


def test_what_was_not_kept_is_read_from_its_files_again(rlm: Any, file: Path) -> None:
    """If it came from a pipe there is nothing to read: the error says why."""
    run = rlm(*ASKED, str(file), "--no-document-cache", "--json").json["run_id"]
    assert rlm("ask", "And when did it open?", "--continue", run, "--no-document-cache").code == 0
    assert rlm("replay", run).code == 0
    assert inputs() == 0
    run = rlm(*ASKED, "-", "--no-document-cache", "--json", stdin=TEXT).json["run_id"]
    refused = rlm("ask", "And when did it open?", "--continue", run)
    assert refused.code == 2
    assert "was not kept (it was given with --no-document-cache" in refused.one_line


def test_the_doctor_looks_at_the_store_in_use(rlm: Any, file: Path, tmp_path: Path) -> None:
    """That of RLM_STORE or --store. A password in its URL is not shown."""
    store = str(tmp_path / "own.db")
    assert rlm(*ASKED, str(file), "--store", store).code == 0
    for ran in (rlm("doctor", env={"RLM_STORE": store}), rlm("doctor", "--store", store)):
        assert f"journal      {store}, 1 run" in ran.stdout
    url = "postgresql://me:hunter2@127.0.0.1:1/none"
    ran = rlm("doctor", env={"RLM_STORE": url})
    assert ran.code != 0
    assert "fail  journal" in ran.stdout
    assert "127.0.0.1:1/none" in ran.stdout
    assert "hunter2" not in ran.stdout + ran.stderr


def test_an_export_is_the_owner_s_alone(rlm: Any, file: Path, tmp_path: Path) -> None:
    run = rlm(*ASKED, str(file), "--json").json["run_id"]
    out = tmp_path / "run.jsonl"
    out.write_text("anybody's")
    out.chmod(0o666)
    assert rlm("export", run, "--out", str(out)).code == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_bytes().count(b"\n") > 2
