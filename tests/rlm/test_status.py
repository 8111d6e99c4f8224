"""Test the status of a run: the same figures from the events of observers and from those of the journal."""

from __future__ import annotations

import pytest

from rlm import events
from rlm.events import ChildEnded, ChildrenStarted, ModelAnswered, RoundStarted, RunStarted
from rlm.journal import Journal
from rlm.status import RunStatus, StatusReader, describe

USAGE = {"input_tokens": 30, "output_tokens": 10}


def test_events_of_a_run_add_up() -> None:
    status = RunStatus()
    for event in (
        RunStarted("r1", "rlm", "m"), RoundStarted(2, 30, final=False),
        ModelAnswered("root", "m", 2, 30, 10, 0, 0.25, "stop", 1.0), ChildrenStarted(4, 0.5),
        ChildEnded(True, False, 3, 4, 40, 0.25, 50, 100),
    ):  # fmt: skip
        status.on_event(event)
    assert (status.run_id, status.round, status.done, status.asked) == ("r1", 2, 3, 4)
    assert status.line == "asking 4 children, about $0.5000 · 3 of 4 children · $0.2500 · 50.0 % covered"
    status.on_event(ModelAnswered("child", "m", 0, 1, 1, 0, None, "stop", 1.0))
    assert status.cost_usd is None


def stored(*events: tuple[str, dict]) -> RunStatus:
    status = RunStatus()
    for kind, data in events:
        status.apply(kind, data)
    return status


def test_the_journal_of_a_run_adds_up() -> None:
    """Children of a round that has not ended count, and a refused reply is no second child."""
    call = {"role": "root", "round": 2, "usage": USAGE, "cost_usd": 0.5}
    child = {"asked": "a", "usage": USAGE, "cost_usd": 0.25, "reply": "x"}
    seen = stored(
        ("run_started", {"settings": {"context_chars": 9, "documents": 1}}), ("model_call", call),
        ("child", child), ("child", {**child, "asked": "b"}), ("child", {"asked": "a", "error": "refused"}),
    )  # fmt: skip
    assert (seen.round, seen.done, seen.calls, seen.tokens, seen.cost_usd) == (2, 2, 3, 120, 1.0)
    assert seen.state == "running"


@pytest.mark.parametrize(
    ("data", "state"),
    [
        ({"answer": "# Head\nIt is 7.\nMore"}, "answered"),
        ({"answer": "It is 7.", "found": False}, "not found"),
        ({"answer": None}, "stopped"),
    ],
)
def test_an_end_has_one_of_three_words(data, state) -> None:
    seen = stored(("finished", {**data, "rounds": 3, "sub_calls": 4, "cost_usd": 1.5}))
    assert (seen.state, seen.round, seen.done, seen.cost_usd) == (state, 3, 4, 1.5)
    assert seen.answer == ("It is 7." if data["answer"] else "")


def test_a_line_is_one_line_without_control_characters() -> None:
    line = describe(events.CellRun(1, "\n# a\x1b[2J b" + "c" * 500, "running"))
    assert line.startswith("round 1: a")
    assert "\x1b" not in line
    assert len(line) <= 160


async def test_a_list_of_runs_counts_the_children_of_an_unfinished_round(tmp_path) -> None:
    async with Journal.open(tmp_path / "r.db") as journal:
        reader = StatusReader(journal)
        async with journal.run("r1", "Which?", {"model": "m"}) as log:
            await log.append("model_call", {"role": "root", "round": 1, "usage": USAGE, "cost_usd": 0.5})
            for name in "ab":
                await log.append("child", {"round": 1, "asked": name, "usage": USAGE, "cost_usd": 0.25})
                (row,) = await journal.runs()
                status = await reader.read(row)
        assert (status.state, status.round, status.done, status.cost_usd) == ("running", 1, 2, 1.0)
        (row,) = await journal.runs()
        assert (await reader.read(row)).state == "stopped"
