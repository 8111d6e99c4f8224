"""Test `rlm export` over many runs: which are taken, in which order, with which rewards. No key appears."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

KEY = "sk-planted-4f9c2e7b1a8d"
TEXT = "Line one.\nThe word is xyzzy.\nThe number is 42.\n"


@pytest.fixture
def runs(rlm, tmp_path: Path) -> list[str]:
    """Return the names of three runs, oldest first: with a child, without one, and without an answer."""
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "key.txt").write_text(f"{TEXT}OPENAI_API_KEY={KEY}\n")
    scripts = {
        "What is the word?": [
            ("root", "```repl\nw = sub_query('The word?', (0, 30))\n```"),
            ("child", "xyzzy"),
            ("root", "```repl\nfinalize(str(w), evidence=[(0, 30)])\n```"),
        ],
        "What is the number?": [
            ("root", "```repl\nprint(read_all()[:40])\n```"),
            ("root", "Now:\n```repl\nfinalize('It is 42')\n```"),
        ],
        "What is the colour?": [("root", "I wonder.")] * 4,
    }
    names = []
    for number, (question, replies) in enumerate(scripts.items()):
        script = tmp_path / f"s{number}.jsonl"
        script.write_text("\n".join(json.dumps({"role": role, "reply": reply}) for role, reply in replies))
        text = "key.txt" if number == 1 else "a.txt"
        ran = rlm(
            "ask",
            question,
            str(tmp_path / text),
            "--json",
            "--strategy",
            "rlm",
            "--model",
            f"scripted:{script}",
        )
        names.append(ran.json["run_id"])
    return names


def lines(ran) -> list[dict]:
    assert ran.code == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_all_runs_are_exported_oldest_first(rlm, runs: list[str], tmp_path: Path) -> None:
    """Each conversation names its run and the one that asked for it."""
    found = lines(rlm("export", "--all", "--format", "messages"))
    assert list(dict.fromkeys(one["run_id"] for one in found)) == runs
    root, child = found[:2]
    assert (root["role"], root["parent"], child["role"], child["parent"]) == (
        "root",
        None,
        "child",
        root["id"],
    )
    assert len({one["id"] for one in found}) == len(found)
    assert root["reward"]["sub_call_success"] == 1.0
    assert "correct" not in root["reward"]
    out = tmp_path / "sft.jsonl"
    ran = rlm("export", "--all", "--format", "sft", "--out", str(out))
    assert "wrote 3 examples of 2 runs" in ran.stderr
    assert f"of {runs[2]}: without an answer" in ran.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert len(out.read_text().splitlines()) == 3


def test_runs_are_chosen(rlm, runs: list[str]) -> None:
    """By what the journal lists, and by their rewards."""
    taken = {
        0: ["--status", "finalized", "--min-supported", "0.9", "--since", "1h"],
        1: ["--model-like", "*s1.jsonl", "--min-coverage", "0.5"],
        2: ["--status", "contract_violation", "--cost-up-to", "0", "--until", "2999-01-01"],
    }
    for number, options in taken.items():
        found = lines(rlm("export", "--all", *options))
        assert {one["run_id"] for one in found} == {runs[number]}
    assert lines(rlm("export", "--all", "--format", "messages", "--until", "1h")) == []


def test_an_export_continues_after_a_run_and_names_several(rlm, runs: list[str]) -> None:
    after = lines(rlm("export", "--all", "--after", runs[0]))
    assert list(dict.fromkeys(one["run_id"] for one in after)) == runs[1:]
    both = lines(rlm("export", runs[2], "latest~2"))
    assert list(dict.fromkeys(one["run_id"] for one in both)) == [runs[2], runs[0]]
    assert {one["run_id"] for one in lines(rlm("export"))} == {runs[2]}
    assert {one["run_id"] for one in lines(rlm("export", "-2"))} == {runs[1]}


def test_golds_say_which_answers_are_right(rlm, runs: list[str], tmp_path: Path) -> None:
    """By the name of a run or by its question; a line may have a rule of its own."""
    golds = tmp_path / "golds.jsonl"
    golds.write_text(
        json.dumps({"id": runs[0], "answer": ["plugh", "XYZZY"]})
        + "\n\n"
        + json.dumps({"id": "What is the number?", "answer": 42.0, "rule": "number"})
        + "\n"
        + json.dumps({"id": "What is the colour?", "answer": "red"})
    )
    found = lines(rlm("export", "--all", "--format", "messages", "--golds", str(golds)))
    assert {one["run_id"]: one["reward"]["correct"] for one in found} == dict(
        zip(runs, (1, 1, 0), strict=True)
    )
    golds.write_text('{"id": 1}')
    assert f"{golds}:1 is no JSON object" in rlm("export", "-f", "messages", "--golds", str(golds)).one_line
    assert "only --format messages" in rlm("export", "--golds", str(golds)).one_line


def test_a_run_that_can_not_be_replayed_is_skipped_with_a_reason(
    rlm, runs: list[str], tmp_path: Path
) -> None:
    """The input of the run was not stored, because it holds a key, and its file is gone."""
    key = {"OPENAI_API_KEY": KEY}
    shown = rlm("export", "--all", "--format", "messages", env=key)
    assert shown.code == 0
    assert KEY not in shown.stdout
    store = tmp_path / "later.db"
    script = tmp_path / "s1.jsonl"
    ran = rlm(
        "ask", "Number?", str(tmp_path / "key.txt"), "--strategy", "rlm", "--model", f"scripted:{script}",
        "--json", "--store", str(store), env=key,
    )  # fmt: skip
    (tmp_path / "key.txt").unlink()
    ran = rlm("export", "--all", "--format", "messages", "--store", str(store))
    assert (ran.code, ran.stdout) == (0, "")
    assert "skipped " in ran.one_line
    assert rlm("export", "--format", "messages", "--store", str(store)).code != 0


def test_options_that_contradict_are_refused(rlm) -> None:
    for options in (["x", "--all"], ["--status", "rounds"], ["--all", "--since", "soon"]):
        ran = rlm("export", *options)
        assert (ran.code, ran.stdout) == (2, "")
        assert len(ran.stderr.splitlines()) == 1
