"""Test that the messages of calls are read from a journal as they were sent."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rlm.models.base import Message, Request, SliceText
from rlm.playback.sent_messages import ReadMessages, SentMessages, text_of
from rlm.sandbox.types import Span

BODY = "The heron fishes at dawn. " * 20
TEXTS = st.sampled_from(["", "a", "Read this:", "heron", "Read this:\n"])
SPANS = st.tuples(st.integers(0, 300), st.integers(0, 200)).map(lambda at: (at[0], at[0] + at[1]))


@st.composite
def requests(draw) -> Request:
    """Draw a request whose messages hold pieces of BODY, some of them as slices."""
    messages, slices = [], []
    for _ in range(draw(st.integers(1, 5))):
        text = draw(TEXTS)
        for start, end in draw(st.lists(SPANS, max_size=2)):
            piece = BODY[start:end]
            slices.append(SliceText(piece, draw(st.sampled_from([Span(start, end), None]))))
            text += piece + draw(TEXTS)
        messages.append(Message(draw(st.sampled_from(["system", "user", "assistant"])), text))
    role = draw(st.sampled_from(["root", "child"]))
    return Request(role, tuple(messages), 10, "", tuple(draw(st.permutations(slices))))


@given(st.lists(requests(), max_size=6), st.booleans())
def test_what_is_read_is_what_was_sent(asked: list[Request], has_spans: bool) -> None:
    sent, read = SentMessages(has_spans=has_spans), ReadMessages()
    for request in asked:
        data = json.loads(json.dumps({"role": request.role, **sent.fields(request)}))
        found = [
            (one["role"], text_of(one["content"], lambda span: BODY[span.start : span.end]))
            for one in read.read(data)
        ]
        assert found == [(one.role, one.content) for one in request.messages]


def test_a_message_is_written_once_and_a_slice_as_its_span() -> None:
    rules, piece = Message("system", "Rules"), SliceText(BODY, Span(0, len(BODY)))
    sent = SentMessages(has_spans=True)
    ask = Request("child", (rules, Message("user", f"Text: {BODY} End")), 10, "", (piece,))
    assert sent.fields(ask) == {
        "kept": 0,
        "messages": [
            {"role": "system", "content": "Rules"},
            {"role": "user", "content": ["Text: ", [0, len(BODY)], " End"]},
        ],
    }
    again = Request("child", (rules, Message("user", "And now?")), 10, "")
    assert sent.fields(again) == {"kept": 1, "messages": [{"role": "user", "content": "And now?"}]}
