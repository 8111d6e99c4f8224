"""Test what each policy does to a section that does not fit."""

from __future__ import annotations

import math

import pytest

from rlm.prompts.assembly.assembler import AssembledPrompt, assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.policy import (
    NEVER,
    Compress,
    Drop,
    Gate,
    Policy,
    Skip,
    StopFirst,
    Summarize,
    TierDown,
    Trim,
)
from rlm.prompts.assembly.section import Item, Section
from rlm.prompts.errors import BudgetExceeded
from rlm.prompts.tokens.counters import get_counter

CHARS = get_counter("chars")


def only(
    items: list[Item], *policy: Policy, total: int, required: bool = False, separator: str = "|"
) -> AssembledPrompt:
    one = Section(
        "s", "user", 0, 0, required=required, policy=policy, items=tuple(items), separator=separator
    )
    return assemble([one], Budget(total, counter=CHARS))


def fates(prompt: AssembledPrompt) -> dict[str, str]:
    return {decision.id: decision.status for decision in prompt.report.decisions}


ITEMS = [Item("a", "aaaa", order=0), Item("b", "b" * 10, order=1), Item("c", "cc", order=2)]


def test_never_goes_in_whole_or_not_at_all() -> None:
    """An optional section is dropped as a whole; a required one is an error."""
    assert only(ITEMS, NEVER, total=18).text == "aaaa|bbbbbbbbbb|cc"
    assert only(ITEMS, NEVER, total=17).text == ""
    with pytest.raises(BudgetExceeded, match="s can't be dropped"):
        only(ITEMS, NEVER, total=17, required=True)


def test_stop_first_tries_nothing_after_the_first_that_does_not_fit() -> None:
    """No later small item is included."""
    prompt = only(ITEMS, StopFirst(), total=10)
    assert prompt.text == "aaaa"
    assert [decision.reason for decision in prompt.report.decisions] == [
        "fits",
        "only 5 tokens were left",
        "an earlier item did not fit",
    ]


def test_skip_tries_the_next_smaller_one() -> None:
    """An item that does not fit does not stop the others."""
    assert only(ITEMS, Skip(), total=10).text == "aaaa|cc"


def test_gate_closes_at_its_mark_even_where_more_would_fit() -> None:
    """Items are included while more than n tokens remain, each only if it fits."""
    letters = [Item(letter, letter * 10, order=n) for n, letter in enumerate("wxyz")]
    assert only(letters, Gate(20), total=100).text.count("|") == 3
    assert only(letters, Gate(20), total=41).text == "w" * 10 + "|" + "x" * 10
    huge_first = [Item("h", "h" * 500, priority=1), *letters]
    assert only(huge_first, Gate(20), total=41).text == "w" * 10 + "|" + "x" * 10


def test_the_most_important_items_enter_first_and_are_rendered_by_order() -> None:
    """They enter by priority, score (NaN last) and order. They are rendered by order alone."""
    items = [
        Item("nan", "1111", score=math.nan, order=0),
        Item("low", "2222", score=0.1, order=1),
        Item("high", "3333", score=0.9, order=2),
        Item("vital", "4444", score=0.0, priority=1, order=3),
    ]
    assert only(items, Skip(), total=4).text == "4444"
    assert only(items, Skip(), total=9).text == "3333|4444"
    assert only(items, Skip(), total=14).text == "2222|3333|4444"
    assert only(items, Skip(), total=19).text == "1111|2222|3333|4444"
    assert only(items[::-1], Skip(), total=19).text == "1111|2222|3333|4444"


def test_a_group_goes_in_or_out_together() -> None:
    """A tool call stays with its result."""
    items = [
        Item("call", "c" * 6, score=2, order=0, group="g"),
        Item("result", "r" * 6, order=1, group="g"),
        Item("other", "oo", score=1, order=2),
    ]
    assert only(items, Skip(), total=12).text == "oo"
    assert only(items, Skip(), total=13).text == "cccccc|rrrrrr"
    assert only(items, Trim(), total=12).text == ""


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("head", "0123456789"),
        ("tail", "defghijklm"),
        ("middle", "01234"),
    ],
)
def test_trim_keeps_the_requested_part_and_marks_the_cut(keep: str, kept: str) -> None:
    """For head, tail and middle."""
    text = "0123456789" * 30 + "abcdefghijklm"
    prompt = only([Item("t", text)], Trim(keep), total=60)  # type: ignore[arg-type]
    assert kept in prompt.text
    assert "characters cut …]" in prompt.text
    assert len(prompt.text) == 60
    assert fates(prompt) == {"t": "trimmed"}
    if keep == "middle":
        assert prompt.text.endswith("ijklm")


def test_trim_to_a_sentence_ends_at_one_past_seventy_percent() -> None:
    """Without such a sentence, the text ends where the room ends."""
    text = "Short one. " + "x" * 30 + " ends here. " + "y" * 300
    assert only([Item("t", text)], Trim("sentence"), total=90).text.startswith(text[:52] + "\n[…")
    late = "Early end. " + "y" * 300
    assert len(only([Item("t", late)], Trim("sentence"), total=90).text) == 90


def test_trim_leaves_whole_items_and_cuts_only_the_last_that_fits_in_part() -> None:
    prompt = only([ITEMS[0], Item("long", "z" * 500, order=1), ITEMS[2]], Trim(), total=60)
    assert fates(prompt) == {"a": "included", "long": "trimmed", "c": "dropped"}
    assert len(prompt.text) == 60


def test_compress_falls_back_to_variants_least_important_first() -> None:
    """One step at a time, until the section fits."""
    items = [
        Item("hero", "h" * 20, ("h" * 8, "h"), priority=2),
        Item("crowd", "c" * 20, ("c" * 8, "c"), priority=1),
    ]
    assert fates(only(items, Compress(), total=30)) == {"hero": "included", "crowd": "compressed"}
    assert only(items, Compress(), total=18).text == "h" * 8 + "|" + "c" * 8
    assert only(items, Compress(), total=3).text == "h|c"
    assert only(items, Compress(), total=2).text == ""
    assert only(items, Compress(), Skip(), total=2).text == "h"


def test_tier_down_takes_detail_away_level_by_level() -> None:
    """The highest tier is dropped first; the base stays."""
    items = [
        Item("base", "1111"),
        Item("t0", "2222", tier=0),
        Item("t1", "3333", tier=1),
        Item("t2", "4444", tier=2),
    ]
    assert only(items, TierDown(), total=18).text == "1111|2222|3333"
    assert only(items, TierDown(), total=9).text == "1111|2222"
    assert only(items, TierDown(), total=8).text == ""


def test_summarize_replaces_the_items_and_is_asked_once_for_the_same_text() -> None:
    """The summarizer gets its allowance, its result is measured, and it is cached by content."""
    asked = []

    def shorten(text: str, tokens: int) -> str:
        asked.append((text, tokens))
        return "SUMMARY"

    prompt = only(ITEMS, Summarize(shorten), total=12)
    assert prompt.text == "SUMMARY"
    assert asked == [("aaaa|bbbbbbbbbb|cc", 12)]
    assert fates(prompt) == {"a": "summarized", "b": "dropped", "c": "dropped"}
    assert [d.tokens_after for d in prompt.report.decisions] == [7, 0, 0]
    assert only(ITEMS, Summarize(shorten), total=18).text == "aaaa|bbbbbbbbbb|cc"


@pytest.mark.parametrize("summary", ["", "   ", "far too long to be of any use"])
def test_a_summary_that_is_empty_or_too_long_replaces_nothing(summary: str) -> None:
    """The next step of the ladder gets the items unchanged."""
    prompt = only(ITEMS, Summarize(lambda text, tokens: summary), Skip(), total=12)
    assert prompt.text == "aaaa|cc"
    assert "empty or too long" in prompt.report.actions[0]


def test_drop_takes_the_section_and_says_why() -> None:
    prompt = only(ITEMS, Drop(), total=12)
    assert prompt.text == ""
    assert {decision.reason for decision in prompt.report.decisions} == {"its section was dropped"}
    assert prompt.report.actions == ("drop s: 18 to 0 tokens",)


def test_each_step_of_a_ladder_starts_from_the_result_of_the_last() -> None:
    """First compress, then leave out what still does not fit."""
    items = [Item("a", "a" * 50, ("a" * 5,), priority=1), Item("b", "b" * 50), Item("c", "ccc")]
    prompt = only(items, Compress(), Skip(), total=12)
    assert prompt.text == "aaaaa|ccc"
    assert fates(prompt) == {"a": "compressed", "b": "dropped", "c": "included"}
