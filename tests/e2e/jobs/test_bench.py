"""Test `rlm bench` as its user runs it, also killed in the middle."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from provider_server import Answer

pytestmark = pytest.mark.timeout(400)
"""Each test runs several commands."""

GENERATED = ("bench", "needle", "--model", "extractive", "--chars", "4000")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_a_generated_suite_without_a_network(rlm, tmp_path) -> None:
    """The table is printed and written, every run can be replayed, and a larger limit adds to it."""
    arms = ("--arm", "truncated", "--arm", "code")
    ran = rlm(*GENERATED, "--limit", "2", *arms, "--quiet")
    assert ran.code == 0, ran.stderr
    assert "score (95 %)" in ran.stdout
    folder = tmp_path / "work" / "bench-needle"
    report = json.loads((folder / "report.json").read_bytes())
    assert [(arm["name"], arm["runs"]) for arm in report["arms"]] == [("truncated", 2), ("code", 2)]
    assert (folder / "report.md").read_text().startswith("# needle\n")
    assert (folder / "report.svg").read_text().startswith("<svg ")
    again = rlm(*GENERATED, "--limit", "3", *arms, "--json", "--quiet")
    assert again.code == 0
    assert again.json["items"] == 3
    assert len(rows_of(folder)) == 6
    run = rows_of(folder)[0]["run_id"]
    assert rlm("replay", run, "--store", str(folder / "runs.db")).code == 0
    replayed = rlm(*GENERATED, "--replay", "--json")
    assert (replayed.code, replayed.json) == (0, {"replayed": 6, "faults": []})
    other = rlm(*GENERATED, *arms, "--seed", "2")
    assert other.code == 2
    assert "was started with seed 1, not 2" in other.one_line


def test_the_dry_run_asks_nobody_and_writes_nothing(rlm, tmp_path) -> None:
    env = {"OPENAI_API_KEY": "sk-never-used-0123456789"}
    ran = rlm(
        "bench", "records", "--model", "openai:gpt-5-mini", "--limit", "4", "--dry-run", "--json", env=env
    )
    assert ran.code == 0, ran.stderr
    assert (ran.json["items"], ran.json["runs"]) == (4, 36)
    assert ran.json["tokens"] > 100_000
    assert ran.json["cost_usd"] > 0
    assert list((tmp_path / "work").iterdir()) == []


def test_what_makes_no_bench_is_refused_in_one_line(rlm, tmp_path) -> None:
    data = tmp_path / "work" / "d.jsonl"
    row = {"query": "Who?", "answer": "Mara", "gold_docs": [{"docid": "1", "text": "Mara wrote it."}]}
    data.write_text(json.dumps(row) + "\n")
    for given, message in (
        (("nothing",), "the suites are records"),
        (("records", "--arm", "nothing"), "the arms are auto"),
        (("oolong-synth",), "get them from huggingface.co/datasets/oolongbench/oolong-synth"),
        (("browsecomp-plus", "--data", "d.jsonl"), "give --judge MODEL"),
        (("browsecomp-plus", "--data", "d.jsonl", "--judge", "extractive"), "would judge its own answers"),
        (("records", "--strategy", "direct"), "each arm has its own"),
        (("records", "--run-cost", "7"), "more than --max-cost 5 of the whole bench"),
        (("records", "--arm", "attempts-2"), "gives the same answer every time"),
        (("records", "--replay"), "holds no bench"),
    ):
        ran = rlm("bench", *given, "--model", "extractive")
        assert ran.code == 2, given
        assert message in ran.one_line
    assert sorted(one.name for one in (tmp_path / "work").iterdir()) == ["d.jsonl"]


def test_killed_in_the_middle_nothing_is_paid_twice(rlm_process, rlm, provider_server, tmp_path) -> None:
    """kill -9 while two runs wait. Every reply that arrived is used, and each run has one result."""
    provider_server.always = lambda request: Answer("940", delay=0.2)
    command = (
        "bench",
        "needle",
        f"--model=openai:m@{provider_server.url}/v1",
        "--arm=truncated",
        "--chars=2000",
    )
    command += ("--limit=8", "--jobs=2", f"--out={tmp_path / 'out'}", "--quiet")
    results = tmp_path / "out" / "results.jsonl"
    process = rlm_process(*command)
    deadline = time.monotonic() + 60
    while not (results.exists() and results.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = len(rows_of(tmp_path / "out"))
    assert before < 8
    assert rlm(*command).code == 0
    rows = rows_of(tmp_path / "out")
    assert len(rows) == len({(row["item"], row["arm"]) for row in rows}) == 8
    # A reply that was under way at the kill is lost with its connection: at most one for each of two jobs.
    asked = [request.prompt for request in provider_server.requests]
    assert 8 <= len(asked) <= 10
    assert len(set(asked)) == 8
