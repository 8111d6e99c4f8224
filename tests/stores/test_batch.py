"""Test a batch that was killed at commit 806c0b8: two tasks done, one half done, one not begun."""

from __future__ import annotations

import json
import shutil


def test_a_batch_is_finished_and_no_task_is_asked_twice(rlm, store, run_ids, script, work, old) -> None:
    for name in ("tasks.jsonl", "results.jsonl", "results.jsonl.batch"):
        shutil.copy(old / name, work / name)
    done = (old / "results.jsonl").read_text()
    # The third task has its child's answer and its first block; the fourth has nothing.
    fourth = "```repl\nsaid = str(sub_query('Which number?', (0, 30)))\nfinalize(said)\n```"
    script(
        "batch",
        ("root", "```repl\nfinalize(said)\n```"),
        ("root", fourth),
        ("child", "It is 4."),
    )
    asked = ("batch", "tasks.jsonl", "--out", "results.jsonl", "--jobs", "1", "--strategy", "rlm")
    ran = rlm(*asked, "--model", "scripted:batch.jsonl")
    assert ran.code == 0, ran.stderr
    written = (work / "results.jsonl").read_text()
    assert written.startswith(done)
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["id"], line["answer"]) for line in lines] == [
        (f"t{number}", f"It is {number}.") for number in (1, 2, 3, 4)
    ]
    assert [line["run_id"] for line in lines[:3]] == [run_ids[f"batch_{number}"] for number in (1, 2, 3)]
    # The first lines were written by the older version.
    added = {"found", "unread", "gates", "degradations", "scaffold", "support"}
    assert all(set(line) - added == set(lines[0]) for line in lines)
