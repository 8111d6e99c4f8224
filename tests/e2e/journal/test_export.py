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


def test_conversations_name_their_run_and_who_asked(rlm, runs: list[str], tmp_path: Path) -> None:
    out = tmp_path / "talks.jsonl"
    ran = rlm("export", *runs, "--format", "messages", "--out", str(out))
    assert "conversations of 3 runs" in ran.stderr
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert list(dict.fromkeys(one["run_id"] for one in found)) == runs
    root, child = found[:2]
    assert (root["role"], root["parent"]) == ("root", None)
    assert (child["role"], child["parent"]) == ("child", root["id"])
    assert len({one["id"] for one in found}) == len(found)


def test_events_of_several_runs(rlm, runs: list[str]) -> None:
    both = lines(rlm("export", runs[2], "latest~2"))
    assert list(dict.fromkeys(one["run_id"] for one in both)) == [runs[2], runs[0]]
    assert {one["run_id"] for one in lines(rlm("export"))} == {runs[2]}
    assert {one["run_id"] for one in lines(rlm("export", "-2"))} == {runs[1]}


def test_no_key_is_exported_and_messages_without_text_of_the_input_need_no_input(
    rlm, tmp_path: Path, runs: list[str]
) -> None:
    """The input of the run was not stored, because it holds a key."""
    key = {"OPENAI_API_KEY": KEY}
    store, script = tmp_path / "later.db", tmp_path / "s1.jsonl"
    rlm(
        "ask", "Number?", str(tmp_path / "key.txt"), "--strategy", "rlm", "--model", f"scripted:{script}",
        "--json", "--store", str(store), env=key,
    )  # fmt: skip
    shown = rlm("export", "--format", "messages", "--store", str(store), env=key)
    assert shown.code == 0
    assert KEY not in shown.stdout
    (tmp_path / "key.txt").unlink()
    again = rlm("export", "--format", "messages", "--store", str(store))
    assert (again.code, again.stdout) == (0, shown.stdout)
