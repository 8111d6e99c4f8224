"""Test a journal of commit 806c0b8: it opens, lists, shows, exports and replays as before."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from rlm.journal import EventKind, Journal

ANSWERS: dict[str, Any] = {
    "deep": {"yards": ["southern", "eastern", "northern"], "deep": "10 cranes, southern"},
    "direct": "Three months. [1]",
    "limit": "at the limit",
    "unanswered": None,
    "session": "southern",
    "continued": ["southern", 8],
    "grown": ["southern", 8, 2],
    "folded": 66,
    "kernel_died": "southern",
    "batch_1": "It is 1.",
    "charged": "nothing came back",
}
LISTED = {
    # state, stop reason, rounds, children
    "deep": ("finished", "finalized", 4, 5),
    "direct": ("finished", "finalized", 0, 1),
    "killed": ("interrupted", None, 2, 3),
    "interrupted": ("interrupted", "cancelled", 1, 3),
    "resumed": ("finished", "finalized", 3, 3),
    "limit": ("finished", "finalized", 3, 0),
    "unanswered": ("finished", "rounds", 2, 0),
    "session": ("finished", "finalized", 1, 1),
    "continued": ("finished", "finalized", 1, 0),
    "grown": ("finished", "finalized", 1, 0),
    "continued_killed": ("interrupted", None, 1, 1),
    "folded": ("finished", "finalized", 12, 0),
    "kernel_died": ("finished", "finalized", 3, 1),
    "refused": ("finished", "finalized", 5, 0),
    "extractive": ("finished", "finalized", 5, 1),
    "research": ("finished", "finalized", 1, 4),
    "research_killed": ("interrupted", None, 0, 1),
    "compare": ("finished", "finalized", 5, 12),
    "plan": ("finished", "finalized", 0, 0),
    "summarize": ("finished", "finalized", 0, 0),
    "summarize_killed": ("interrupted", None, 0, 0),
    "batch_1": ("finished", "finalized", 1, 1),
    "batch_2": ("finished", "finalized", 1, 1),
    "batch_3": ("interrupted", None, 1, 1),
    "charged": ("finished", "finalized", 2, 2),
    "big": ("finished", "finalized", 5, 1),
}
KINDS = {
    "model_call": 84, "cell": 61, "run_started": 26, "child": 25, "finished": 20, "part": 8, "part_ended": 7,
    "helper": 6, "limit": 3, "compaction": 3, "interrupted": 2, "kernel_died": 2, "warning": 2, "charge": 2,
    "sub_rlm": 1, "sub_rlm_ended": 1, "resumed": 1, "diverged": 1,
}  # fmt: skip


def test_every_run_is_listed_as_it_was(rlm, store, run_ids) -> None:
    listed = rlm("runs", "--limit", "100", "--json").json
    fields = ("state", "stop_reason", "rounds", "sub_calls")
    found = {one["run_id"]: tuple(one[field] for field in fields) for one in listed}
    assert found == {run_ids[name]: facts for name, facts in LISTED.items()}
    times = [one["started_at"] for one in listed]
    assert times == sorted(times, reverse=True)
    assert {one["run_id"]: one["task"] for one in listed}[run_ids["killed"]] == "Which yards come first?"


def test_a_run_of_another_machine_may_still_be_running(rlm, away, run_ids) -> None:
    listed = {one["run_id"]: one["state"] for one in rlm("runs", "--limit", "100", "--json").json}
    assert listed[run_ids["killed"]] == "running"
    assert rlm("resume", run_ids["killed"]).code == 2


async def test_every_kind_of_event_is_read_as_it_was_written(store: Path, run_ids: dict[str, str]) -> None:
    kinds: Counter[str] = Counter()
    async with Journal.open(store) as journal:
        for name in run_ids.values():
            events = await journal.events(name)
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert events[0].kind == "run_started"
            kinds.update(event.kind for event in events)
    assert kinds == KINDS
    # One event of each kind. A renamed kind must fail here; an added one need not be here.
    assert set(KINDS) <= set(get_args(EventKind))


def test_a_run_is_exported_byte_for_byte_as_it_was(rlm, store, run_ids, old) -> None:
    exported = (old / "deep-export.jsonl").read_text()
    assert rlm("export", run_ids["deep"]).stdout == exported
    assert rlm("show", run_ids["deep"], "--json").lines == list(map(json.loads, exported.splitlines()))


def test_a_run_is_shown_round_by_round(rlm, store, run_ids) -> None:
    shown = rlm("show", run_ids["deep"])
    assert shown.code == 0
    for part in (
        "Which yards are there, and how many cranes?",
        "print(peek(0, 72))",
        "01 The southern yard has crane 01, and its notice is 2 months",
        "said = sub_query_batch('Which yard is this?', [(0, 72), (72, 144), (144, 216)])",
        "deep = sub_rlm('How many cranes are there?', (0, 720))",
        "10 cranes, southern",
    ):
        assert part in shown.stdout
    places = [shown.stdout.index(f"round {number}") for number in (1, 2, 3, 4)]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["folded", "research", "summarize_killed", "resumed"])
def test_runs_and_jobs_of_every_make_are_shown(rlm, store, run_ids, name) -> None:
    assert rlm("show", run_ids[name]).code == 0


def test_the_result_of_a_run_is_printed_again_key_by_key(rlm, store, run_ids, old) -> None:
    again = rlm("resume", run_ids["deep"], "--json")
    assert again.code == 0, again.stderr
    result = json.loads((old / "deep-result.json").read_text())
    result["usage"] = [{**one, "reasoning_tokens": 0} for one in result["usage"]]
    result["citations"] = [
        {**one, "seen": False, "cell_place": None, "part": None, "rows_place": None}
        for one in result["citations"]
    ]
    result["coverage"]["pages_looked"] = 0
    added = {"found": True, "unread": [], "gates": [], "degradations": [], "scaffold": "", "support": None}
    text = again.json.pop("text")
    assert json.loads(text) == result["answer"]
    assert again.json == {**result, **added}
    assert list(again.json) == [*result, *added]


@pytest.mark.parametrize("name", ANSWERS)
def test_a_run_is_replayed_to_the_same_answer_without_its_model(rlm, store, run_ids, name) -> None:
    """There is no script, so a reply that the journal lacks would fail. Nothing is written either."""
    before = rlm("export", run_ids[name]).stdout
    ran = rlm("replay", run_ids[name], "--json")
    answer = ANSWERS[name]
    assert ran.code == (0 if answer is not None else 1), ran.stderr
    assert ran.json["answer"] == answer
    assert (ran.json["rounds"], ran.json["sub_calls"]) == LISTED[name][2:]
    assert ran.json["stop_reason"] == LISTED[name][1]
    assert rlm("export", run_ids[name]).stdout == before


def test_a_run_whose_finalize_was_refused_is_replayed(rlm, store, run_ids) -> None:
    """Its block read the text only just before the refused `finalize`, which counts in the replay, too."""
    assert rlm("replay", run_ids["refused"], "--json").json["answer"] == "A"


def test_a_run_that_asked_the_clock_is_printed_and_its_replay_says_what_became_of_it(
    rlm, store, run_ids
) -> None:
    assert rlm("resume", run_ids["resumed"], "--json").json["answer"] == "southern"
    ran = rlm("replay", run_ids["resumed"], "--json")
    assert (ran.code, ran.json["answer"]) == (4, None)


@pytest.mark.parametrize("name", ["extractive", "big"])
def test_extracts_are_replayed_word_for_word(rlm, store, run_ids, name) -> None:
    ended = rlm("resume", run_ids[name], "--json")
    ran = rlm("replay", run_ids[name], "--json")
    assert (ended.code, ran.code) == (0, 0), ran.stderr
    assert ran.json["answer"] == ended.json["answer"]
    assert ended.json["answer"].startswith("Extracts")


def test_the_replies_of_a_run_are_given_to_another(rlm, store, run_ids, work, old) -> None:
    (work / "notes.txt").write_bytes((old / "notes.txt").read_bytes())
    asked = ("ask", "Which yards are there, and how many cranes?", "notes.txt", "--strategy", "rlm")
    ran = rlm(*asked, "--model", f"replay:{run_ids['deep']}", "--json")
    assert ran.code == 0, ran.stderr
    assert ran.json["answer"] == ANSWERS["deep"]


def test_an_old_run_is_removed(rlm, store, run_ids) -> None:
    assert rlm("runs", "rm", run_ids["folded"]).code == 0
    assert rlm("show", run_ids["folded"]).code == 2
    assert len(rlm("runs", "--limit", "100", "--json").json) == len(LISTED) - 1
