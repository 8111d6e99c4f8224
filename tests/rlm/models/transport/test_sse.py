"""Test the decoding of server-sent events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlm.models.http.streaming import EventDecoder


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))), st.data())
def test_events_are_the_same_however_the_stream_is_cut(texts, data):
    """Line ends of any kind, comments and other fields, and data of several lines are accepted."""
    expected, stream = [], b""
    for text in texts:
        end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
        lines = [text] * data.draw(st.integers(1, 3))
        expected.append("\n".join(lines).encode())
        fields = ["event: x", ": a comment", *(f"data: {line}" for line in lines), "id: 7", ""]
        stream += (end.join(fields) + end).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
    decoder = EventDecoder()
    given_out = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        given_out += decoder.feed(stream[start:stop])
    given_out += decoder.feed(b"\n")  # a carriage return at the very end waits for the next byte
    assert given_out == expected
