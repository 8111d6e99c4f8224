"""Test `rlm ask --continue`: the next question in the context and the kernel of a run."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

TEXT = "One line.\nThe magic word is xyzzy.\nAnother line.\n"


def script(folder: Path, *lines: dict[str, str]) -> str:
    """Write a scripted model that chooses its reply by the text of the last message."""
    path = folder / "script.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return f"scripted:{path}"


def root(match: str, code: str) -> dict[str, str]:
    return {"role": "root", "match": match, "reply": f"```repl\n{code}\n```"}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture
def model(tmp_path: Path) -> str:
    return script(
        tmp_path,
        root("# Task\nWhat is the word?", "word = sub_query('Which word?', (10, 35))\nfinalize(str(word))"),
        root("# Task\nHow long is it?", "size = len(word)\nfinalize([word, size])"),
        root("# Task\nAnd now?", "finalize([word, size, len(documents()), peek(-4, 10**9)])"),
        {"role": "child", "reply": "xyzzy"},
    )


def ask_as_json(rlm, *arguments: str):
    ran = rlm("ask", *arguments, "--json")
    assert ran.code == 0, ran.stderr
    return ran.json


def test_the_next_question_has_the_text_and_the_variables_of_a_run(rlm, text, model, tmp_path) -> None:
    """Neither PATHs nor a model are named, the file may be missing, and the child is not asked again."""
    first = ask_as_json(rlm, "What is the word?", str(text), "--model", model, "--strategy", "rlm")
    assert (first["answer"], first["sub_calls"]) == ("xyzzy", 1)
    text.unlink()
    second = ask_as_json(rlm, "How long is it?", "--continue", first["run_id"][:-1], "--strategy", "rlm")
    assert (second["answer"], second["sub_calls"]) == (["xyzzy", 5], 0)
    assert second["coverage"]["input_chars"] == len(TEXT)
    more = tmp_path / "more.txt"
    more.write_text("end\n")
    third = ask_as_json(rlm, "And now?", str(more), "--continue", second["run_id"], "--strategy", "rlm")
    assert (third["answer"], third["sub_calls"]) == (["xyzzy", 5, 2, "end\n"], 0)
    again = rlm("replay", third["run_id"])
    assert again.code == 0, again.stderr
    assert again.stdout.strip() == rlm("resume", third["run_id"]).stdout.strip()
    exported = rlm("export", third["run_id"]).stdout
    assert "How long is it?" in exported
    assert f'"after":"{second["run_id"]}"' in exported.replace(" ", "")


def test_a_next_question_that_was_killed_is_resumed(rlm, rlm_process, text, tmp_path) -> None:
    """After kill -9 the kernel gets the variables of the earlier run and of this one."""
    lines = [
        root("# Task\nWhat is the word?", "word = sub_query('Which word?', (10, 35))\nfinalize(str(word))"),
        root("# Task\nHow long is it?", "size = len(word)\nother = str(sub_query('And else?', (0, 9)))"),
        {"role": "child", "reply": "xyzzy"},
    ]
    last = root("Output of your block, round 1", "finalize([word, size, other])")
    model = script(tmp_path, *lines, {**last, "delay": 60})
    first = ask_as_json(rlm, "What is the word?", str(text), "--model", model, "--strategy", "rlm")
    process = rlm_process("ask", "How long is it?", "--continue", first["run_id"], "--strategy", "rlm", "-v")
    assert process.stderr is not None
    run_id = next(found[1] for line in process.stderr if (found := re.match(r"run (\S+):", line)))
    while '"kind":"cell"' not in rlm("export", run_id).stdout.replace(" ", ""):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    # The script has no child any more: both answers come from the journal.
    script(tmp_path, *lines[:2], last)
    ran = rlm("resume", run_id, "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["answer"] == ["xyzzy", 5, "xyzzy"]


def test_a_run_that_cannot_be_continued_is_one_line(rlm, text, model) -> None:
    """The exit code is 2, and the line names the run and the remedy."""
    ran = rlm("ask", "Why?", "--continue", "20990101")
    assert (ran.code, "no run in" in ran.one_line) == (2, True)
    ran = rlm("ask", "Why?")
    assert ran.code == 2
    assert ran.one_line.startswith("rlm: no PATH is given: name files or folders, - for stdin, or a run (")
    first = ask_as_json(rlm, "What is the word?", str(text), "--model", model, "--strategy", "rlm")
    ran = rlm("ask", "Why?", "--continue", first["run_id"], "--dry-run")
    assert (ran.code, "--dry-run cannot be combined with --continue" in ran.one_line) == (2, True)
    second = ask_as_json(rlm, "How long is it?", "--continue", first["run_id"], "--strategy", "rlm")
    assert rlm("runs", "rm", first["run_id"]).code == 0
    ran = rlm("ask", "And now?", "--continue", second["run_id"])
    assert ran.code == 2
    assert f"continues run {first['run_id']}, which is no longer in the journal" in ran.one_line
