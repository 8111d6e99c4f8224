from __future__ import annotations

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.in_kernel import wire

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def split(frame: bytes) -> bytes:
    assert wire.body_size(frame[: wire.HEADER_SIZE]) == len(frame) - wire.HEADER_SIZE
    return frame[wire.HEADER_SIZE :]


@given(JSON)
def test_what_is_sent_is_what_arrives(value: object) -> None:
    assert wire.decode(split(wire.encode({"value": value}))) == {"value": value}


def test_lone_surrogates_can_cross() -> None:
    assert wire.decode(split(wire.encode({"text": "a\ud800b"}))) == {"text": "a\ud800b"}


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_wire_error(data: bytes) -> None:
    """Malformed frames are an error of the wire, never a crash."""
    with suppress(wire.WireError):
        assert isinstance(wire.decode(data), dict)


@pytest.mark.parametrize(
    "bomb", [b"[" * 100_000, b'{"a":' * 50_000, b"[" * 10_000 + b"]" * 10_000, b"9" * 10_000]
)
def test_nested_and_endless_json_is_refused(bomb: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(bomb)


def test_a_size_is_checked_before_anything_is_allocated() -> None:
    with pytest.raises(wire.WireError, match="limit"):
        wire.body_size(struct.pack("<I", 2**32 - 1))


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), b"bytes"])
def test_what_json_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(wire.WireError):
        wire.encode({"value": value})


def test_what_does_not_fit_a_frame_is_refused() -> None:
    with pytest.raises(wire.WireError, match="do not fit"):
        wire.encode({"value": "x" * (wire.MAX_FRAME + 1)})


@pytest.mark.parametrize("piece", [b"[],", b"{},", b'{"a":1},', b'"ab",', b"[1],", b'["",1],'])
def test_many_small_pieces_are_refused_before_they_are_made(piece: bytes) -> None:
    """The decoded size of a frame is bounded, too."""
    body = b'{"x":[' + piece * (wire.MAX_CALL // len(piece) - 10) + b"0]}"
    with pytest.raises(wire.WireError, match="pieces"):
        wire.decode(body)


def test_a_text_full_of_marks_weighs_nothing() -> None:
    text = 'a,b,{"c":[1,2]},\\"' * 200_000
    assert wire.decode(split(wire.encode({"text": text, "more": [1, 2]})))["text"] == text


def test_a_large_honest_batch_fits() -> None:
    call = {"prompts": ["what does it say?"] * 50_000, "slices": [[[n, n + 20_000]] for n in range(50_000)]}
    assert wire.decode(split(wire.encode(call, wire.MAX_CALL)))


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity"])
def test_numbers_that_json_lacks_are_refused(number: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(b'{"x":' + number + b"}")
