"""Test sections derived from other sections, and sizes finer than tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts import BudgetExceeded, Item, Section, SectionError, assemble, counter_names, get_counter
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.measure import Measure
from rlm.prompts.assembly.policy import Drop, Policy, Skip, StopFirst
from rlm.prompts.assembly.section import Derived

CHARS = get_counter("chars")


def list_ids(ids: dict[str, None]) -> str:
    return f"in: {', '.join(ids)}" if ids else "none"


def pair(*texts: str, policy: Policy = Skip(), text: Any = list_ids) -> list[Section]:  # noqa: B008
    items = tuple(Item(f"i{n}", text, order=n) for n, text in enumerate(texts))
    return [
        Section("items", "user", 0, 1, policy=policy, items=items, separator="|"),
        Section("list", "user", 1, 0, derived=Derived("items", lambda item: item.id, text)),
    ]


@pytest.mark.parametrize("policy", [Skip(), StopFirst()])
def test_room_is_kept_for_what_is_derived(policy: Policy) -> None:
    whole = "aaaa|bbbb|cccc\n\nin: i0, i1, i2"
    parts = pair("aaaa", "bbbb", "cccc", policy=policy)
    assert assemble(parts, Budget(len(whole), counter=CHARS)).text == whole
    assert assemble(parts, Budget(len(whole) - 1, counter=CHARS)).text == "aaaa|bbbb\n\nin: i0, i1"


def test_skip_continues_where_stop_first_ends() -> None:
    for policy, left in ((Skip(), "aa|cc\n\nin: i0, i2"), (StopFirst(), "aa\n\nin: i0")):
        assert assemble(pair("aa", "b" * 90, "cc", policy=policy), Budget(30, counter=CHARS)).text == left


def test_a_text_that_gets_shorter_as_items_enter_makes_room_for_them() -> None:
    """A tile that removes a warning gets the room of the warning."""

    def missing(ids: dict[str, None]) -> str:
        return " ".join(f"no-{name}" for name in ("i0", "i1") if name not in ids)

    parts = pair("aaaaa", "bbbbb", text=missing)
    assert assemble(parts, Budget(11, counter=CHARS)).text == "aaaaa|bbbbb"  # all that fits goes in
    assert assemble(parts, Budget(10, counter=CHARS)).text == ""
    three = pair("aaaaa", "bbbbb", "c" * 50, text=missing)
    assert assemble(three, Budget(12, counter=CHARS)).text == "aaaaa|bbbbb"


def test_wrong_sources_are_faults() -> None:
    """The source must have items and the policy StopFirst or Skip. The derived section has no items."""
    items, derived = pair("a")
    for parts in (
        [derived],
        pair("a", policy=Drop()),
        [items, Section("list", "user", 1, 0, derived=derived.derived, items=(Item("x", "x"),))],
    ):
        with pytest.raises(SectionError, match="is derived"):
            assemble(parts, Budget(100))


TEXTS = st.text(st.sampled_from("ab é漢😀\n\ud800"), max_size=30)


@settings(max_examples=100)
@given(st.lists(TEXTS, max_size=8), st.integers(0, 120), st.sampled_from(counter_names()), st.booleans())
def test_a_prompt_with_a_derived_section_never_exceeds_its_budget(
    texts: list[str], total: int, counter: str, first: bool
) -> None:
    parts = pair(*texts, policy=StopFirst() if first else Skip())
    made = assemble(parts, Budget(total, counter=get_counter(counter)))
    assert get_counter(counter).count(made.text) <= total
    kept = [d.id for d in made.report.decisions if d.section == "items" and d.status != "dropped"]
    line = next(section.text for section in made.sections if section.id == "list")
    assert line in ("", list_ids(dict.fromkeys(kept)))
    assert assemble(parts, Budget(total, counter=get_counter(counter))).text == made.text


@given(st.lists(TEXTS, max_size=6), st.sampled_from(counter_names()))
def test_sizes_add_up_to_what_the_whole_takes(texts: list[str], name: str) -> None:
    """If a counter has units, parts measured alone add up exactly to the whole."""
    counter = get_counter(name)
    measure = Measure(counter)
    assert [measure.tokens(size) for size in measure.each(texts)] == [counter.count(text) for text in texts]
    if name.startswith(("chars", "bytes")):
        assert measure.tokens(sum(measure.each(texts))) == counter.count("".join(texts))
    for tokens in range(4):
        assert measure.tokens(measure.bound(tokens)) == tokens
        assert measure.tokens(measure.bound(tokens) + 1) == tokens + 1


def test_messages_measured_apart_do_not_pay_for_the_blank_line_between_them() -> None:
    parts = [
        Section("s", "system", 0, 0, required=True, items=(Item("s", "rules"),)),
        Section("u", "user", 1, 0, required=True, items=(Item("u", "question"),)),
    ]
    made = assemble(parts, Budget(13, counter=CHARS, by_message=True))
    assert made.report.totals.prompt == 13
    with pytest.raises(BudgetExceeded):
        assemble(parts, Budget(12, counter=CHARS, by_message=True))
    with pytest.raises(BudgetExceeded):
        assemble(parts, Budget(14, counter=CHARS))
