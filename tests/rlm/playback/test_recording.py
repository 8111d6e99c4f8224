"""Test the recording of a journal's events, in any order, and what it serves."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.journal import JournalEvent
from rlm.playback.cursor import ReplayCursor
from rlm.playback.recording import RecordedFailure, Recording
from rlm.sandbox.types import CellReport, CellResult, Span, VariableInfo

CELL = CellResult(
    "ok",
    stdout="said",
    seconds=0.5,
    report=CellReport(read=(Span(0, 3),), changed=(VariableInfo("x", "int"),), rebound=("peek",)),
)


def root(round_: int, *, final: bool = False, tokens: int = 10) -> dict:
    return {
        "kind": "model_call", "role": "root", "model": "m", "round": round_, "kept": 0,
        "messages": [{"role": "user", "content": f"prompt {round_}"}],
        "reply": f"reply {round_}", "finish_reason": "stop", "final": final, "key": None, "cost_usd": 0.25,
        "usage": {"input_tokens": tokens, "output_tokens": 1, "cached_tokens": 0},
    }  # fmt: skip


def child(key: str, *, cached: bool = False, cost: float | None = 0.5) -> dict:
    return {
        "kind": "child", "role": "child", "model": "c", "round": 1, "reply": f"to {key}", "key": key,
        "finish_reason": "stop", "cost_usd": cost, "cached": cached,
        "usage": {"input_tokens": 3 * (not cached), "output_tokens": 2 * (not cached), "cached_tokens": 1},
    }  # fmt: skip


def failure(round_: int, key: str | None) -> dict:
    return {
        "kind": "child",
        "round": round_,
        "key": key,
        "error": "down",
        "error_type": "model",
        "asked": "",
        "spans": [],
    }


def cell(round_: int) -> dict:
    # As JSON returns it: spans are lists.
    result = {**asdict(CELL), "report": {**asdict(CELL.report), "read": [[0, 3]]}}
    return {"kind": "cell", "round": round_, "code": "x", "prose": "", "mark": "repl", "result": result}


def helper(round_: int, order: int, value: int) -> dict:
    return {"kind": "helper", "round": round_, "helper": "progress", "order": order, "result": {"v": value}}


def mark(kind: str, **data: object) -> dict:
    return {"kind": kind, **data}


def recording_of(*facts: dict, at: list[float] | None = None) -> Recording:
    times = at or [float(number) for number in range(len(facts))]
    return Recording.of(
        JournalEvent("r", seq + 1, times[seq], fact["kind"], {k: v for k, v in fact.items() if k != "kind"})
        for seq, fact in enumerate(facts)
    )


def test_rounds_have_their_cells() -> None:
    recording = recording_of(mark("run_started"), root(1), cell(1), root(2, final=True))
    assert [(past.number, past.messages, past.reply.text, past.final) for past in recording.rounds] == [
        (1, (("user", "prompt 1"),), "reply 1", False),
        (2, (("user", "prompt 2"),), "reply 2", True),
    ]
    assert [past.cell for past in recording.rounds] == [CELL, None]


def test_what_was_spent_is_summed_by_model() -> None:
    """The budget continues from it. An answer of another run cost nothing."""
    spent = recording_of(root(1), child("a"), child("b", cached=True), child("c", cost=None)).spent
    assert (spent.calls, spent.tokens, spent.cost_known) == (2, 11 + 5 + 5, False)
    assert [(one.model, one.calls, one.cost_usd) for one in spent.usage] == [("m", 1, 0.25), ("c", 2, None)]


def test_time_in_which_nobody_ran_it_does_not_count() -> None:
    """A run that is resumed after a night has its remaining seconds."""
    facts = (mark("run_started"), root(1), mark("resumed"), cell(1), mark("resumed"))
    assert recording_of(*facts, at=[0.0, 4.0, 90_000.0, 90_003.0, 200_000.0]).spent.seconds == 7.0


def test_an_unfinished_cell_gets_new_facts() -> None:
    """Helpers and failures count only in cells that ended."""
    ended = (root(1), helper(1, 0, 1), failure(1, "k"), cell(1))
    begun = (root(2), helper(2, 0, 2), failure(2, "k"))
    before = recording_of(*ended, *begun)
    assert set(before.helpers) == {(1, "progress", 0), (2, "progress", 0)}
    for event in (mark("resumed"), mark("kernel_died", round=2, reason="")):
        after = recording_of(*ended, *begun, event)
        assert set(after.helpers) == {(1, "progress", 0)}
        assert set(after.failures) == {(1, "k")}
    assert set(recording_of(*ended, mark("kernel_died", round=1, reason="")).helpers) == {(1, "progress", 0)}


def test_the_events_of_a_run_are_parted_by_its_sub_rlms() -> None:
    """The journal is read once, however many sub-RLMs there are."""
    whole = recording_of(
        mark("run_started"),
        root(1),
        mark("sub_rlm", within="a.1", depth=1, prompt="x"),
        {**root(1), "within": "a.1"},
        {**child("k"), "within": "a.1/b.1"},
        {**child("k"), "within": "a.10"},
        mark("sub_rlm_ended", name="a.10", error="too long", error_type="limit"),
        mark("sub_rlm_ended", name="a.1", error=None, error_type=None),
    )
    inner = whole.part("a.1")
    assert [past.number for past in inner.rounds] == [1]
    assert (set(inner.below), set(inner.replies), set(inner.part("b.1").replies)) == ({"b.1"}, set(), {"k"})
    assert inner.part("b.1").within == "a.1/b.1"
    assert whole.ended == {"a.1": None, "a.10": RecordedFailure("limit", "too long")}
    assert whole.part("never begun").rounds == ()


def test_what_ended_above_ended_what_is_below() -> None:
    """After the kernel above died or the whole run was left, the cells below are unfinished."""
    begun = [
        {**fact, "within": "a.1"} for fact in (root(1), helper(1, 0, 1), cell(1), root(2), helper(2, 0, 2))
    ]
    assert set(recording_of(*begun).part("a.1").helpers) == {(1, "progress", 0), (2, "progress", 0)}
    for event in (mark("resumed"), mark("kernel_died", round=7, reason="")):
        assert set(recording_of(*begun, event).part("a.1").helpers) == {(1, "progress", 0)}
    aside = mark("kernel_died", round=2, reason="", within="b.1")
    assert len(recording_of(*begun, aside).part("a.1").helpers) == 2


def test_what_followed_a_cell_that_went_another_way_is_void() -> None:
    """Everything after it is live, but a paid reply stays usable."""
    recording = recording_of(
        root(1), cell(1), child("a"), root(2), cell(2), root(3), mark("diverged", round=2)
    )
    assert [(past.number, past.cell) for past in recording.rounds] == [(1, CELL), (2, None)]
    assert set(recording.replies) == {"a"}
    assert recording.spent.calls == 1


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=40))
def test_a_reply_is_given_as_often_as_it_was_paid_for(paid: list[str], asked: list[str]) -> None:
    """It is served neither more nor less often than it was paid for."""
    playback = ReplayCursor(recording_of(*map(child, paid)))
    assert playback.unserved == len(paid)
    given_ = [key for key in asked if playback.reply(key) is not None]
    for key in "abcd":
        assert given_.count(key) == min(paid.count(key), asked.count(key))
    assert playback.unserved == len(paid) - len(given_)


FACTS = st.one_of(
    st.builds(root, st.integers(1, 5)),
    st.builds(cell, st.integers(1, 5)),
    st.builds(child, st.sampled_from("ab")),
    st.builds(failure, st.integers(1, 5), st.sampled_from(["a", None])),
    st.builds(helper, st.integers(1, 5), st.integers(0, 2), st.integers()),
    st.builds(lambda n: mark("diverged", round=n), st.integers(1, 5)),
    st.builds(lambda n: mark("kernel_died", round=n, reason=""), st.integers(1, 5)),
    st.just(mark("resumed")),
    st.just(mark("warning", message="w")),
)


@given(st.lists(FACTS, max_size=40))
def test_nothing_that_was_paid_is_forgotten(facts: list[dict]) -> None:
    """Wherever and however often the run was left, each round is there once, in order."""
    recording = recording_of(mark("run_started"), *facts)
    replies = [fact for fact in facts if "reply" in fact]
    assert recording.spent.tokens == sum(
        fact["usage"]["input_tokens"] + fact["usage"]["output_tokens"] for fact in replies
    )
    assert sum(map(len, recording.replies.values())) == sum(fact["role"] == "child" for fact in replies)
    numbers = [past.number for past in recording.rounds]
    assert numbers == sorted(set(numbers))


def test_a_miss_in_a_cell_whose_end_is_known_is_another_way() -> None:
    """A replay that diverges is detected. A new cell may ask anything."""
    playback = ReplayCursor(recording_of(root(1), child("a"), cell(1)))
    playback.begin(1, CELL)
    assert playback.repeating
    assert playback.reply("a") is not None
    assert playback.repeating
    assert playback.reply("b") is None
    assert playback.diverged
    assert not playback.repeating
    playback.begin(2, None)
    assert playback.reply("c") is None
    assert not playback.diverged


@pytest.mark.parametrize(("status", "type_"), [("timeout", "cancelled"), ("ok", None)])
def test_what_an_interrupted_cell_still_waited_for_stays_unanswered(status: str, type_: str | None) -> None:
    """Nothing is paid for a reply that the cell never got."""
    playback = ReplayCursor(recording_of(root(1), cell(1)))
    playback.begin(1, CellResult(status))  # type: ignore[arg-type]
    failed = playback.failure("never answered")
    assert (failed and failed.type) == type_


def test_a_reply_is_found_by_its_key_first_and_else_by_its_question_once() -> None:
    """After a change of the prompt's words the keys of two replies to one question no longer match."""
    first, second, other = (
        {**child(key), "asked": asked} for key, asked in (("a", "q"), ("b", "q"), ("c", "p"))
    )
    playback = ReplayCursor(recording_of(mark("run_started"), root(1), first, second, other, cell(1)))
    question = "q"
    playback.begin(1, CELL)
    found = [playback.reply("b", question), playback.reply("new", question)]
    assert [past and past.reply.text for past in found] == ["to b", "to a"]
    assert not playback.has_reply("new", question)
    assert not playback.diverged
    assert playback.reply("new", question) is None
    assert playback.diverged
    assert playback.reply("c", "p").reply.text == "to c"
    assert playback.unserved == 0
