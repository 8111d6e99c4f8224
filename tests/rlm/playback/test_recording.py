"""Test what is read from the events of a journal: what was spent and seen, and the state of the root."""

from __future__ import annotations

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from rlm.driver.root_state import RootState
from rlm.journal import JournalEvent
from rlm.playback.recording import Recording
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
        "asked": key, "spans": [[0, 9]], "finish_reason": "stop", "cost_usd": cost, "cached": cached,
        "usage": {"input_tokens": 3 * (not cached), "output_tokens": 2 * (not cached), "cached_tokens": 1},
    }  # fmt: skip


def failure(asked: str, type_: str = "model") -> dict:
    return {
        "kind": "child",
        "round": 1,
        "asked": asked,
        "error": "down",
        "error_type": type_,
        "spans": [[0, 9]],
    }


def cell(round_: int) -> dict:
    # As JSON returns it: spans are lists.
    result = {**asdict(CELL), "report": {**asdict(CELL.report), "read": [[0, 3]]}}
    return {
        "kind": "cell", "round": round_, "code": f"code {round_}", "prose": "", "mark": "repl",
        "result": result, "answers": [], "feedback": f"output {round_}",
    }  # fmt: skip


def mark(kind: str, **data: object) -> dict:
    return {"kind": kind, **data}


def recording_of(*facts: dict, at: list[float] | None = None) -> Recording:
    times = at or [float(number) for number in range(len(facts))]
    return Recording.of(
        JournalEvent("r", seq + 1, times[seq], fact["kind"], {k: v for k, v in fact.items() if k != "kind"})
        for seq, fact in enumerate(facts)
    )


def test_what_was_spent_is_summed_by_model() -> None:
    """The budget continues from it. An answer of another run cost nothing."""
    spent = recording_of(root(1), child("a"), child("b", cached=True), child("c", cost=None)).spent
    assert (spent.calls, spent.tokens, spent.cost_known) == (2, 11 + 5 + 5, False)
    assert [(one.model, one.calls, one.cost_usd) for one in spent.usage] == [("m", 1, 0.25), ("c", 2, None)]


def test_time_in_which_nobody_ran_it_does_not_count() -> None:
    """A run that is resumed after a night has its remaining seconds."""
    facts = (mark("run_started"), root(1), mark("resumed"), cell(1), mark("resumed"))
    assert recording_of(*facts, at=[0.0, 4.0, 90_000.0, 90_003.0, 200_000.0]).spent.seconds == 7.0


def within(name: str, *facts: dict) -> list[dict]:
    return [{**fact, "within": name} for fact in facts]


def begun(name: str, *stretches: list[int]) -> dict:
    return mark("sub_rlm", within=name, depth=1, prompt="x", stretches=list(stretches))


def test_what_was_seen_is_what_cells_and_children_saw_at_every_depth() -> None:
    """Spans of a sub-RLM are those of its own source, and are mapped to the body."""
    recording = recording_of(
        root(1),
        child("a"),
        child("b"),
        failure("b", "schema"),
        begun("s.1", [0, 100, 5], [6, 200, 20]),
        *within("s.1", child("c"), cell(1)),
        begun("s.1/t.1", [0, 7, 4]),
        *within("s.1/t.1", cell(1)),
    )
    inner = [Span(100, 105), Span(200, 203)]
    assert recording.seen["answered"] == [Span(0, 9), *inner]
    assert recording.seen["sent"] == [Span(0, 9), Span(0, 9), *inner]
    assert recording.seen["failed"] == [Span(0, 9)]
    assert recording.seen["read"] == [Span(100, 103), Span(201, 204)]


def state_of(*facts: dict) -> RootState:
    return RootState.of(
        ((fact["kind"], {k: v for k, v in fact.items() if k != "kind"}) for fact in facts), 8_000
    )


def sent(round_: int, kept: int, *new: str) -> dict:
    messages = [{"role": "user", "content": one} for one in new]
    return {**root(round_), "kept": kept, "messages": messages}


def contents(state: RootState) -> list[str]:
    return [one.content for one in state.messages]


def test_a_cell_that_went_another_way_is_the_last_one() -> None:
    """Everything after it is new; what was before it stays."""
    facts = [sent(1, 0, "task"), cell(1), sent(2, 3, "more"), cell(2), sent(3, 5, "and more")]
    state = state_of(*facts, mark("diverged", round=2))
    before = state_of(*facts[:3])
    assert (contents(state), state.rounds, len(state.cells)) == (contents(before), 2, 1)
    assert state.pending == before.pending
    again = state_of(*facts, mark("diverged", round=2), cell(2), mark("diverged", round=1))
    assert (contents(again), again.rounds, again.cells) == (["task"], 1, [])


FACTS = st.one_of(
    st.builds(root, st.integers(1, 5)),
    st.builds(child, st.sampled_from("ab")),
    st.builds(failure, st.sampled_from("ab")),
    st.just(mark("resumed")),
    st.just(mark("warning", message="w")),
)


@given(st.lists(FACTS, max_size=40))
def test_nothing_that_was_paid_is_forgotten(facts: list[dict]) -> None:
    """Wherever and however often the run was left, each reply is there once."""
    recording = recording_of(mark("run_started"), *facts)
    replies = [fact for fact in facts if "reply" in fact]
    assert recording.spent.tokens == sum(
        fact["usage"]["input_tokens"] + fact["usage"]["output_tokens"] for fact in replies
    )
    assert recording.reply_count == sum(fact["role"] == "child" for fact in replies)
