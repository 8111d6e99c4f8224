"""Test the function that fits the parts of a prompt to a limit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts import BudgetExceeded, Part, Section, assemble, counter_names, get_counter

CHARS = get_counter("chars")
_PARTS = st.lists(
    st.tuples(st.text(st.sampled_from("ab é漢.\n"), max_size=40), st.none() | st.integers(0, 3)), max_size=4
)
_SECTIONS = st.lists(
    st.tuples(
        _PARTS,
        st.sampled_from(["", "## T\n"]),
        st.sampled_from([None, "head", "tail", "middle", "sentence"]),
        st.sampled_from([-1, 10]),
        st.sampled_from([0, 20]),
    ),
    max_size=4,
)


def _sections(drawn: Any) -> list[Section]:
    return [
        Section(
            f"s{number}",
            "system" if number == 0 else "user",
            [Part(f"p{place}", text, keep) for place, (text, keep) in enumerate(parts)],
            prefix=prefix,
            cut=cut,
            spare=spare,
            floor=floor,
        )
        for number, (parts, prefix, cut, spare, floor) in enumerate(drawn)
    ]


@settings(max_examples=150)
@given(_SECTIONS, st.integers(0, 200), st.sampled_from(counter_names()))
def test_a_prompt_is_within_its_limit_or_names_what_does_not_fit(drawn: Any, limit: int, name: str) -> None:
    sections, counter = _sections(drawn), get_counter(name)
    required = {one.name for one in sections if any(part.keep is None and part.text for part in one.parts)}
    try:
        made = assemble(sections, limit, counter)
    except BudgetExceeded as error:
        refused = error
    else:
        refused = None
    if refused is not None:
        assert set(refused.sections) == required
        assert refused.needed > refused.allowed == limit
        return
    assert counter.count(made.text) == made.report.totals.prompt <= limit
    assert [one.name for one in made.sections] == [one.name for one in sections]
    whole = {(d.section, d.id) for d in made.report.decisions if d.status == "included"}
    for section in sections:
        shown = next(one.content for one in made.sections if one.name == section.name)
        for part in section.parts:
            assert (section.name, part.id) not in whole or part.text in shown
    assert required <= {one.name for one in made.sections if one.content}
    assert assemble(sections, limit, counter).to_json() == made.to_json()


def test_parts_with_a_higher_keep_go_in_first_in_any_section() -> None:
    sections = [
        Section("a", "user", [Part("a1", "x" * 10, keep=1), Part("a2", "y" * 10, keep=3)]),
        Section("b", "user", [Part("b1", "z" * 10, keep=2)]),
    ]
    assert assemble(sections, 22, CHARS).text == "y" * 10 + "\n\n" + "z" * 10
    assert assemble(sections, 10, CHARS).text == "y" * 10


def test_a_floor_keeps_room_for_a_section_and_a_spare_stops_early() -> None:
    log = Section("log", "user", [Part("log", "l" * 100, keep=1)], cut="tail", floor=40)
    notes = Section("notes", "user", [Part("notes", "n" * 100, keep=2)], cut="head")
    made = assemble([notes, log], 100, CHARS)
    assert [section.tokens for section in made.sections] == [58, 40]
    files = Section("files", "user", [Part(f"f{n}", "f" * 10, keep=1) for n in range(9)], spare=50)
    assert assemble([files], 90, CHARS).report.actions == ("files: 90 to 40 tokens",)


def test_a_counter_that_counts_more_for_the_whole_leaves_out_more() -> None:
    from rlm.prompts import Counter

    counter = Counter("borders", "1", lambda text: len(text.split()) + 5 * text.count("\n\n"))
    parts = [Part(f"p{n}", "one two", keep=9 - n) for n in range(9)]
    made = assemble([Section("s", "user", parts)], 20, counter)
    assert made.report.totals.prompt <= 20
    with pytest.raises(BudgetExceeded, match="needs 23 tokens and may take 20: s can't be dropped"):
        assemble([Section("s", "user", [part._replace(keep=None) for part in parts[:4]])], 20, counter)
