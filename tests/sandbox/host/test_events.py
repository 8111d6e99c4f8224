"""Test that a broker's words are checked: it may be as hostile as its kernel."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.host.events import checked_event
from rlm.sandbox.in_kernel import wire

RESULT = {
    "event": "result",
    "id": 1,
    "ok": True,
    "stdout": "1\n",
    "stderr": "",
    "result": None,
    "report": "",
    "seconds": 0.5,
    "ename": "",
    "evalue": "",
    "traceback": "",
}
CONFINED = {"event": "confined", "level": 2, "layers": {"seccomp": "on"}}
HONEST = [
    RESULT,
    CONFINED,
    {"event": "refused", "failed": {"landlock": "not there"}},
    {"event": "failed", "detail": "no answer"},
    {"event": "died", "detail": "it ended by itself", "complaint": ""},
    {"event": "connected"},
    {"event": "ended"},
    {"event": "interrupted"},
]


KINDS = [str(event["event"]) for event in HONEST]


@pytest.mark.parametrize("event", HONEST, ids=lambda event: event["event"])
def test_an_honest_event_is_unchanged(event) -> None:
    assert checked_event(event, KINDS) == event


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"event": None},
        {"event": ["confined"]},
        {"event": "hello"},
        {"event": "confined"},
        {"event": "refused"},
        {"event": "refused", "failed": {}},
        {"event": "refused", "failed": ["landlock"]},
        {"event": "refused", "failed": {"landlock": 1}},
        {"event": "refused", "failed": {f"layer {n}": "" for n in range(101)}},
        {"event": "died", "detail": None},
        {**CONFINED, "level": 4},
        {**CONFINED, "level": True},
        {**CONFINED, "level": 10**4_000},
        {**RESULT, "seconds": 10**4_000},
        {**RESULT, "seconds": json.loads("1e999")},
        {**RESULT, "seconds": -1},
        {**RESULT, "seconds": "1"},
        {**RESULT, "id": -1},
        {**RESULT, "ok": 1},
        {**RESULT, "stdout": None},
        {**RESULT, "result": 1},
        {**RESULT, "report": {}},
        {key: value for key, value in RESULT.items() if key != "report"},
    ],
)
def test_words_of_another_shape_break_the_protocol(event) -> None:
    """In the driver they ended as KeyError, OverflowError, or an endless number in a result."""
    with pytest.raises(wire.WireError):
        checked_event(event, KINDS)


def test_texts_are_cut_and_other_fields_dropped() -> None:
    event = checked_event(
        {
            **RESULT,
            "stdout": "x" * 5_000_000,
            "traceback": "y" * 5_000_000,
            "report": "z" * 5_000_000,
            "more": [1],
        },
        KINDS,
    )
    assert len(event["stdout"]) < 1_100_000
    assert len(event["traceback"]) < 10_000
    assert len(event["report"]) < 4_200_000
    assert "more" not in event


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.sampled_from(HONEST), st.data())
def test_any_value_in_any_field(event, data) -> None:
    field = data.draw(st.sampled_from(sorted(event)))
    try:
        checked = checked_event({**event, field: data.draw(VALUES)}, KINDS)
    except wire.WireError:
        return
    json.dumps(checked, allow_nan=False)


def test_a_sender_may_send_its_own_events_only() -> None:
    """A broker can't say that its kernel is confined."""
    with pytest.raises(wire.WireError):
        checked_event(CONFINED, ["connected", "result"])
