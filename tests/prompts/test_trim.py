"""Test cutting a text to a number of tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.prompts.fitting import Keep, trim_text
from rlm.prompts.tokens.counters import counter_names, get_counter


@given(
    st.text(st.sampled_from("ab .\n9漢"), max_size=3_000),
    st.integers(0, 400),
    st.sampled_from(["head", "tail", "middle", "sentence"]),
    st.sampled_from(counter_names()),
)
def test_what_comes_back_fits_and_says_how_much_is_gone(
    text: str, allowance: int, keep: Keep, name: str
) -> None:
    count = get_counter(name).count
    cut = trim_text(text, allowance, keep, count)
    if cut is None:
        assert count(text) > allowance
        return
    assert count(cut) <= allowance
    if count(text) <= allowance:
        assert cut == text
    else:
        assert "characters cut …]" in cut


@pytest.mark.parametrize("keep", ["head", "tail", "middle", "sentence"])
def test_a_text_that_exactly_fits_is_left_alone_at_any_size(keep: Keep) -> None:
    for size in (10, 4_096, 4_097, 8_192, 100_000):
        text = "x" * size
        assert trim_text(text, size, keep, len) == text


def test_the_room_is_used_to_within_two_percent() -> None:
    for allowance in (100, 5_000, 60_000):
        cut = trim_text("word " * 200_000, allowance, "head", len)
        assert cut is not None
        assert allowance * 0.98 - 40 <= len(cut) <= allowance


def test_the_work_is_that_of_what_fits_not_of_the_whole_text() -> None:
    """A small cut of ten million characters counts only a few of them."""
    seen = 0

    def counting(text: str) -> int:
        nonlocal seen
        seen += len(text)
        return len(text)

    assert trim_text("x" * 10_000_000, 1_000, "head", counting) is not None
    assert seen < 100_000
