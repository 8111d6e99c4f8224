"""Test `rlm summarize`, `rlm research` and the examples, from the shell to the printed text."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from provider_server import Silence

EXAMPLES = Path(__file__).parents[3] / "examples"
HEADINGS = ["Task Summary", "Key Decisions", "Errors Resolved", "Current State", "Remaining Work"]
GIT_LOG = "".join(
    f"commit {n:07x}abc\nAuthor: dev <dev@example.org>\nDate:   Fri May {n} 10:00:00 2026 +0000\n\n"
    f"    {text}\n\n"
    for n, text in (
        (3, "Fix the lock in refunds: take one connection"),
        (2, "Add the unique index on refund_events"),
        (1, "Begin with the webhook, which must answer within 2 seconds"),
    )
)


def test_a_log_in_markdown_becomes_five_headings(rlm) -> None:
    ran = rlm("summarize", str(EXAMPLES / "chat.md"), "--tokens", "500", "-v")
    assert ran.code == 0
    assert re.findall(r"^## (.*)$", ran.stdout, re.MULTILINE) == HEADINGS
    assert "refund_events" in ran.stdout
    assert all(re.search(r"\[m\d+", line) for line in ran.stdout.splitlines() if line.startswith("- "))
    assert "no model wrote it" in ran.stderr


def test_a_git_log_is_read_from_stdin_and_continued(rlm, tmp_path) -> None:
    (tmp_path / "replies.jsonl").write_text(
        json.dumps({"role": "summary", "reply": "## Task Summary\n- The webhook must answer in time. [m1]\n"})
    )
    model = ("--model", f"scripted:{tmp_path / 'replies.jsonl'}", "--json")
    first = rlm(
        "summarize",
        "-",
        *model,
        "--quiet",
        stdin=GIT_LOG.partition("commit 0000002")[1] + GIT_LOG.partition("commit 0000002")[2],
    )
    assert first.json["messages"] == 2
    ran = rlm("summarize", "-", "--since", first.json["run_id"], *model, stdin=GIT_LOG)
    assert (ran.json["messages"], ran.json["known"]) == (3, 2)
    assert "1 of them new" in ran.stderr
    assert "[m1]" in ran.json["summary"]


def test_an_issue_of_github_is_a_history(rlm) -> None:
    issue = {
        "number": 12,
        "title": "Refund twice",
        "body": "It must never happen again.",
        "author": {"login": "someone"},
        "createdAt": "2026-05-01T10:00:00Z",
        "comments": [
            {
                "author": {"login": "other"},
                "body": "We decided to use an index.",
                "createdAt": "2026-05-02T10:00:00Z",
            }
        ],
    }
    ran = rlm("summarize", "-", "--json", "--quiet", stdin=json.dumps(issue))
    assert ran.json["kind"] == "history"
    assert "We decided to use an index." in ran.json["summary"]
    assert {one["author"] for one in ran.json["citations"]} >= {"other"}


@pytest.mark.parametrize("path", ["offers", "server.log"])
def test_without_a_model_only_a_chat_is_summarized(rlm, path) -> None:
    ran = rlm("summarize", str(EXAMPLES / path), "--quiet")
    assert (ran.code, ran.stdout) == (2, "")
    assert "a summary of anything but a chat needs a language model: " in ran.one_line
    assert "--model" in ran.one_line
    assert rlm("runs", "--json").json == []


@pytest.mark.parametrize("out", ["none/there.md", "folder"])
@pytest.mark.parametrize("command", [("summarize",), ("research", "What does the crane cost?")])
def test_an_out_that_can_not_be_a_file_is_refused_before_anything_is_asked(
    rlm, tmp_path, command, out
) -> None:
    (tmp_path / "work" / "folder").mkdir()
    ran = rlm(*command, str(EXAMPLES / "offers"), "--out", out)
    assert ran.code == 2
    assert f"--out {out}" in ran.one_line
    assert rlm("runs", "--json").json == []


def test_an_out_that_is_no_ordinary_file_stays_what_it_is(rlm, tmp_path) -> None:
    """A device, a pipe or a link is written to, not replaced."""
    pipe, real, link = tmp_path / "pipe", tmp_path / "real.md", tmp_path / "link.md"
    os.mkfifo(pipe)
    link.symlink_to(real)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    for out in (pipe, link):
        assert rlm("summarize", str(EXAMPLES / "chat.md"), "--quiet", "--out", str(out)).code == 0
    assert pipe.is_fifo()
    assert link.is_symlink()
    reader.join(10)
    assert "## Task Summary" in real.read_text()
    assert read == [real.read_text()]


def test_a_summary_is_no_run_that_can_be_resumed(rlm) -> None:
    done = rlm("summarize", str(EXAMPLES / "chat.md"), "--json", "--quiet")
    ran = rlm("resume", done.json["run_id"])
    assert ran.code == 2
    assert f"--since {done.json['run_id']}" in ran.one_line
    shown = rlm("show", done.json["run_id"])
    assert shown.code == 0
    assert "Summarize chat.md" in shown.stdout


def test_research_prints_a_report(rlm) -> None:
    """The sources are numbered and verified, and unanswered questions are listed. No conflict is made up."""
    ran = rlm(
        "research",
        "What does the crane of the northern yard cost? Which insurance covers lightning?",
        str(EXAMPLES / "offers"),
    )
    assert ran.code == 0
    assert "90,000" in ran.stdout
    assert "## Conflicts" not in ran.stdout
    assert "Which insurance covers lightning? (no passage with these words" in ran.stdout
    assert re.search(r"^- \[1\] \w+\.\w+", ran.stdout.partition("## Sources")[2], re.MULTILINE)
    assert "1 of 2 questions answered" in ran.stderr


def test_a_plan_is_shown_edited_and_followed(rlm, tmp_path) -> None:
    """The plan can be edited before money is spent."""
    plan = tmp_path / "plan.md"
    shown = rlm(
        "research", "What does the crane cost? What is the notice?", str(EXAMPLES / "offers"), "--plan-only"
    )
    assert shown.code == 0
    assert shown.stdout.splitlines()[2:] == ["1. What does the crane cost?", "2. What is the notice?"]
    assert "nothing was researched" in shown.stderr
    plan.write_text(shown.stdout.replace("2. What is the notice?\n", ""))
    ran = rlm("research", "The crane", str(EXAMPLES / "offers"), "--plan", str(plan), "--json", "--quiet")
    assert {one["question"] for one in ran.json["findings"]} == {"1"}
    assert ran.json["report"].startswith("- ")
    assert [(one["number"], one["found"]) for one in ran.json["questions"]] == [("1", True)]


def test_a_plan_that_is_none_is_one_clear_line(rlm, tmp_path) -> None:
    (tmp_path / "plan.md").write_text("nothing listed")
    ran = rlm("research", "The crane", str(EXAMPLES / "offers"), "--plan", str(tmp_path / "plan.md"))
    assert ran.code == 2
    assert "has no questions" in ran.one_line
    missing = rlm("research", "The crane", str(EXAMPLES / "offers"), "--plan", str(tmp_path / "none.md"))
    assert "check the path" in missing.one_line


def test_without_a_model_nothing_is_denied_and_no_choice_made(rlm) -> None:
    offers = str(EXAMPLES / "offers")
    nearest = rlm("ask", "Which insurance covers lightning?", offers, "--json", "--quiet")
    assert (nearest.json["found"], nearest.json["stop_reason"]) == (False, "nearest")
    assert nearest.json["answer"].startswith("No passage with these words.")
    refused = rlm("ask", "What is the notice?", offers, "--choice", "one month", "--choice", "a year")
    assert refused.code == 2
    assert "a choice needs a language model: " in refused.one_line
    assert "--model" in refused.one_line


def test_the_card_example_runs_offline_from_end_to_end(environment) -> None:
    """The card's state selects the stage, which starts research and acts on it."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "card_stage.py")],
        capture_output=True, text=True, timeout=90, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "stage error_fixing, 2 turns, 1 research, completed: True" in done.stdout
    assert "caused by two connections that write in one test" in done.stdout


@pytest.mark.parametrize("command", ["summarize", "research", "compare"])
def test_where_the_provider_never_answers_the_exit_code_says_so(
    rlm, provider_server, providers, command
) -> None:
    provider_server.always = providers.Status(401, "no such key", "authentication_error")
    question = () if command == "summarize" else ("What does the crane cost?",)
    model = f"openai:m@{provider_server.url}/v1"
    ran = rlm(command, *question, str(EXAMPLES / "offers"), "--model", model)
    assert ran.code == 4, ran.stderr
    assert "wants a key" in ran.stdout + ran.stderr


def test_where_there_is_no_answer_the_exit_code_says_so(rlm) -> None:
    assert rlm("research", "Which insurance covers lightning?", str(EXAMPLES / "offers")).code == 1


@pytest.mark.parametrize("command", ["research", "compare"])
def test_an_interrupted_job_is_one_run_that_can_be_resumed(
    rlm, rlm_process, provider_server, command
) -> None:
    """The exit code is 130, the line names `rlm resume`, and that gives the answer of an undisturbed job."""
    offers = str(EXAMPLES / "offers")
    model = f"openai:m@{provider_server.url}/v1"
    asked = (command, "Compare the offers", offers, "--model", model)

    def reply(received) -> str:
        if received.prompt.startswith("Plan research"):
            return "- What does the crane of the northern yard cost?\n- What is the notice?\n"
        if received.prompt.startswith("Below are numbered passages"):
            return "[]"
        if "repl" in received.system:
            code = "peek(0, 9)\nfinalize('It costs 90,000 euros. [1]', evidence=['for 90,000 euros'])"
            return f"```repl\n{code}\n```"
        return 'It costs 90,000 euros. [1]\nEvidence:\n"90,000 euros"'

    stopped = threading.Event()

    def stopping(received) -> Silence | str:
        # Its second part never gets an answer.
        if len(provider_server.requests) > 2:
            stopped.set()
            return Silence()
        return reply(received)

    provider_server.always = stopping
    process = rlm_process(*asked)
    assert stopped.wait(60)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, "")
    last = stderr.strip().splitlines()[-1]
    assert last.startswith("rlm: interrupted; to resume: rlm resume ")
    run_id = last.rpartition(" ")[2]
    (listed,) = rlm("runs", "--json").json
    assert (listed["run_id"], listed["state"], listed["stop_reason"]) == (run_id, "interrupted", "cancelled")
    provider_server.always = reply
    paid = len(provider_server.requests)
    resumed = rlm("resume", run_id, "--json", "--quiet")
    assert resumed.code == 0, resumed.stderr
    again = len(provider_server.requests) - paid
    whole = rlm(*asked, "--json", "--quiet")
    assert len(provider_server.requests) - paid - again > again
    for found in (resumed.json, whole.json):
        # The prompt of the call that was cut off is charged, so the tokens differ.
        for name in ("run_id", "seconds", "usage"):
            found.pop(name, None)
        for part in (*found.get("rows", ()), *found.get("questions", ())):
            for name in ("run_id", "seconds", "usage", "calls", "tokens", "input_tokens"):
                part.pop(name, None)
    assert resumed.json == whole.json
    ended = rlm("resume", run_id, "--quiet")
    assert ended.code == 0
    assert "90,000" in ended.stdout


def test_a_job_is_neither_replayed_nor_asked_on(rlm) -> None:
    """One line says that the run is a job, and what to do with it."""
    done = rlm("research", "What does the crane cost?", str(EXAMPLES / "offers"), "--json", "--quiet")
    run_id = done.json["run_id"]
    for command in (("replay", run_id), ("ask", "And then?", "--continue", run_id)):
        refused = rlm(*command)
        assert refused.code == 2
        assert (
            f"is a research job, not a run of one question. Resume it with rlm resume {run_id}"
            in refused.one_line
        )
    shown = rlm("show", run_id).stdout
    assert "q1: What does the crane cost?" in shown
    assert "q1 ended: finalized" in shown
    planned = rlm("research", "What is it?", str(EXAMPLES / "offers"), "--plan-only", "--quiet")
    assert planned.code == 0
    (run, _) = rlm("runs", "--json").json
    assert "Give the plan to rlm research with --plan FILE" in rlm("resume", run["run_id"]).one_line
