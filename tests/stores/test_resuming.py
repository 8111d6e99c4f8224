"""Test runs and jobs that were killed at commit 806c0b8: they are resumed, and nothing is paid twice.

The scripts hold only the replies that the killed process had not received. A repeated call has no reply.
"""

from __future__ import annotations

import lzma
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.journal import Journal
from rlm.testing import ScriptedModel


def block(code: str) -> str:
    return f"```repl\n{code}\n```"


@pytest.fixture
def paid_replies(rlm) -> Callable[[str], Counter[str]]:
    """Return the replies in the journal of a run, by role."""

    def count(run: str) -> Counter[str]:
        events = rlm("export", run).lines
        return Counter(event["data"]["role"] for event in events if "reply" in event["data"])

    return count


# The run, the remaining replies, the journalled replies, the answer, rounds and children.
LEFT: list[tuple[str, list[tuple[str, str]], dict[str, int], Any, int, int]] = [
    (
        "killed",
        [("root", block("finalize([*said, more, size])"))],
        {"root": 2, "child": 3},
        ["southern", "eastern", "northern", 2],
        3,
        3,
    ),
    (
        "interrupted",
        [("child", "answer 2"), ("child", "answer 3")],
        {"root": 1, "child": 2},
        ["answer 0", "answer 1", "answer 2", "answer 3"],
        1,
        4,
    ),
    (
        "continued_killed",
        [("root", block("finalize([word, size, both])"))],
        {"root": 1, "child": 1},
        ["southern", 8, "southerneastern"],
        2,
        1,
    ),
]
SCRIPTS = {"continued_killed": "continued"}


@pytest.mark.parametrize(("name", "missing", "had", "answer", "rounds", "children"), LEFT)
def test_a_run_is_resumed_and_pays_only_what_is_missing(
    rlm, store, run_ids, script, paid_replies, name, missing, had, answer, rounds, children
) -> None:
    before = rlm("export", run_ids[name]).lines
    assert paid_replies(run_ids[name]) == had
    script(SCRIPTS.get(name, name), *missing)
    ran = rlm("resume", run_ids[name], "--json")
    assert ran.code == 0, ran.stderr
    assert (ran.json["run_id"], ran.json["answer"]) == (run_ids[name], answer)
    assert (ran.json["rounds"], ran.json["sub_calls"]) == (rounds, children)
    assert ran.json["warnings"] == []
    assert paid_replies(run_ids[name]) - Counter(had) == Counter(role for role, _ in missing)
    after = rlm("export", run_ids[name]).lines
    assert after[: len(before)] == before
    assert [event["kind"] for event in after].count("resumed") == 1
    replayed = rlm("replay", run_ids[name], "--json")
    assert (replayed.code, replayed.json["answer"]) == (0, answer), replayed.stderr


async def test_a_run_is_resumed_from_python(store, run_ids, sandbox_flag) -> None:
    model = ScriptedModel.of(root=[block("finalize([*said, more, size])")])
    model._name = "scripted:killed.jsonl"
    level = 0 if sandbox_flag == "0" else "auto"
    rlm = RLM(model, settings=Settings(store=store, sandbox=level))
    try:
        result = await rlm.resume(run_ids["killed"])
    finally:
        await rlm.aclose()
    assert result.answer == ["southern", "eastern", "northern", 2]
    assert [request.role for request in model.requests] == ["root"]
    # Its history is that of the journal, word for word: two rounds and their feedback.
    async with Journal.open(store) as journal:
        events = await journal.events(run_ids["killed"])
    replies = [event.data["reply"] for event in events if event.data.get("role") == "root"]
    assert [one.content for one in model.requests[0].messages if one.role == "assistant"] == replies[:2]


def test_a_question_continues_an_old_run(rlm, store, run_ids, script) -> None:
    """The variables of three old questions are there, with the second text. No child is asked again."""
    script("continued", ("root", block("finalize([word, size, len(documents()), peek(-6, 10**9)])")))
    ran = rlm("ask", "What is left?", "--continue", run_ids["grown"], "--strategy", "rlm", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["answer"] == ["southern", 8, 2, "crane.\n"[-6:]]
    assert (ran.json["rounds"], ran.json["sub_calls"]) == (1, 0)


def test_a_research_is_resumed_and_asks_only_the_question_that_was_left(
    rlm, store, run_ids, script, paid_replies
) -> None:
    had = paid_replies(run_ids["research_killed"])
    assert had == {"direct": 2}
    found = (
        "peek(0, 9)\nfinalize('The notice is three months. [1]', evidence=['The notice is three months.'])"
    )
    script("research_killed", ("root", block(found)), ("summary", "It costs 90,000 euros [1]."))
    ran = rlm("resume", run_ids["research_killed"])
    assert ran.code == 0, ran.stderr
    assert "- The crane costs 90,000 euros. [1]" in ran.stdout
    assert "- The notice is three months." in ran.stdout
    assert paid_replies(run_ids["research_killed"]) - had == {"root": 1, "summary": 1}


def test_a_research_that_ended_is_printed_again(rlm, store, run_ids, script, old) -> None:
    script("research")
    ran = rlm("resume", run_ids["research"])
    assert ran.code == 0, ran.stderr
    assert ran.stdout.strip() == (old / "report.md").read_text().strip()


def test_a_comparison_that_ended_is_printed_again(rlm, store, run_ids) -> None:
    ran = rlm("resume", run_ids["compare"], "--json")
    assert ran.code == 0, ran.stderr
    assert len(ran.json["rows"]) == 4


@pytest.mark.parametrize(
    ("name", "tokens", "missing"), [("summarize", "400", 0), ("summarize_killed", "401", 4)]
)
def test_a_summary_is_resumed_with_the_paid_replies(
    rlm, store, run_ids, script, paid_replies, work, old, name, tokens, missing
) -> None:
    """With `--since`, the folded chunks are not folded again."""
    (work / "chat.log").write_bytes(lzma.decompress((old / "chat.log.xz").read_bytes()))
    (work / "talk.toml").write_text('[models."scripted:talk.jsonl"]\nwindow = 16_000\noutput = 1_000\n')
    assert paid_replies(run_ids[name]) == {"summary": 6 - missing}
    script("talk", *[("summary", "## Task Summary\n- Ben read a part [m1]")] * missing)
    asked = ("summarize", "chat.log", "--model", "scripted:talk.jsonl", "--tokens", tokens)
    ran = rlm(*asked, "--config", "talk.toml", "--since", run_ids[name], "--json")
    assert ran.code == 0, ran.stderr
    assert paid_replies(ran.json["run_id"]) == ({"summary": missing} if missing else {})
    assert "- Ben read a part [m1]" in ran.json["summary"]
