"""Test the pipeline and its invariant: a prompt never exceeds its budget."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts.assembly.assembler import AssembledPrompt, assemble
from rlm.prompts.assembly.budget import Budget
from rlm.prompts.assembly.policy import (
    Compress,
    Drop,
    Gate,
    Never,
    Policy,
    Skip,
    StopFirst,
    Summarize,
    TierDown,
    Trim,
)
from rlm.prompts.assembly.section import Citation, Item, Section
from rlm.prompts.errors import BudgetExceeded, SectionError
from rlm.prompts.tokens.counters import FunctionCounter, get_counter

CHARS = get_counter("chars")


def section(name: str, *texts: str, role: str = "user", order: int = 0, **fields: object) -> Section:
    items = tuple(Item(f"{name}{n}", text, order=n) for n, text in enumerate(texts))
    return Section(name, role, order, **({"priority": 0, "items": items} | fields))  # type: ignore[arg-type]


def half(text: str, tokens: int) -> str:
    return text[: min(len(text) // 2, tokens)]


def words_and_doubled_borders(text: str) -> int:
    """Count joined text higher than its parts, more than a real tokenizer would."""
    return len(text.split()) + text.count("\n\n") * 7


def outcome(made: list[Section], budget: Budget) -> tuple[AssembledPrompt | None, BudgetExceeded | None]:
    try:
        return assemble(made, budget), None
    except BudgetExceeded as error:
        return None, error


COUNTERS = (
    get_counter("estimate"),
    CHARS,
    get_counter("chars4_ceil"),
    get_counter("bytes4_floor"),
    FunctionCounter("borders", "1", words_and_doubled_borders),
)
STEPS: st.SearchStrategy[Policy] = st.sampled_from(
    [
        Never(),
        StopFirst(),
        Skip(),
        Gate(5),
        Trim("head"),
        Trim("tail"),
        Trim("middle"),
        Trim("sentence"),
        Compress(),
        TierDown(),
        Summarize(half),
        Drop(),
    ]
)
TEXTS = st.text(st.sampled_from("ab c.\n9é漢😀"), max_size=60)


@st.composite
def sections(draw: st.DrawFn) -> list[Section]:
    made = []
    for n in range(draw(st.integers(0, 5))):
        required = draw(st.booleans())
        ladder = tuple(draw(st.lists(STEPS, min_size=1, max_size=3)))
        if required:
            ladder = tuple(step for step in ladder if not isinstance(step, Drop | Gate)) or (Never(),)
        items = tuple(
            Item(
                f"i{k}",
                draw(TEXTS),
                variants=tuple(draw(st.lists(TEXTS, max_size=2))),
                score=draw(st.floats(allow_nan=True)),
                priority=draw(st.integers(0, 2)),
                order=draw(st.integers(0, 3)),
                tier=draw(st.none() | st.integers(0, 2)),
                group=draw(st.none() | st.sampled_from("gh")),
            )
            for k in range(draw(st.integers(0, 4)))
        )
        made.append(
            Section(
                f"s{n}",
                role="system" if n == 0 else "user",
                order=n,
                priority=draw(st.integers(0, 3)),
                required=required,
                min_tokens=draw(st.sampled_from([0, 3])),
                max_tokens=draw(st.none() | st.integers(3, 80)),
                policy=ladder,
                stability=draw(st.sampled_from(["static", "session", "turn", "volatile"])),
                items=items,
                prefix=draw(st.sampled_from(["", "# head\n"])),
                separator=draw(st.sampled_from(["\n\n", "\n", " "])),
                pool=draw(st.none() | st.just("pool")),
            )
        )
    return made


@settings(max_examples=300)
@given(
    sections(),
    st.integers(0, 300),
    st.integers(0, 40),
    st.sampled_from(COUNTERS),
    st.sampled_from([1.0, 1.25]),
    st.none() | st.integers(0, 60),
)
def test_a_rendered_prompt_never_exceeds_its_budget(
    made: list[Section],
    total: int,
    headroom: int,
    counter: FunctionCounter,
    factor: float,
    pool: int | None,
) -> None:
    """Measured whole, it takes at most total - headroom, or BudgetExceeded is raised. The report adds up,
    equal input gives equal output, and the input is unchanged."""
    per_section = {"s1": 50} if pool is None else {"s1": 50, "pool": pool}
    budget = Budget(total, headroom, per_section, counter, factor)
    before = copy.deepcopy(made)
    prompt, error = outcome(made, budget)
    if error is not None:
        required = {part.id for part in made if part.required}
        assert set(error.sections) <= required
        assert error.sections or budget.allowed < 0
        assert error.needed > error.allowed
        return
    assert prompt is not None
    assert made == before or any(math.isnan(i.score) for part in made for i in part.items)
    assert counter.count(prompt.text) * factor <= total - headroom

    totals = prompt.report.totals
    assert totals.prompt == counter.count(prompt.text)
    decisions = prompt.report.decisions
    assert len(decisions) == sum(len(part.items) for part in made)
    assert totals.items == sum(decision.tokens_after for decision in decisions)
    assert totals.items + totals.framing == totals.prompt
    assert not prompt.report.over_budget
    for decision in decisions:
        assert (decision.tokens_after == 0) or decision.status != "dropped"
    for part, rendered in zip(made, prompt.sections, strict=True):
        assert rendered.text in prompt.text
        if part.required and any(item.text for item in part.items):
            assert rendered.text
    again = assemble(made, budget)
    assert again.text == prompt.text
    assert again.report.to_json() == prompt.report.to_json()
    json.dumps(prompt.report.to_json())


def test_equality_fits_and_one_token_less_does_not() -> None:
    """The limit is exact if the counter adds up: separators and joiners are counted once."""
    parts = [
        section("rules", "abc", role="system", required=True),
        section("facts", "de", "f", order=1, required=True),
    ]
    whole = "abc\n\nde\n\nf"
    assert assemble(parts, Budget(len(whole), counter=CHARS)).text == whole
    with pytest.raises(BudgetExceeded) as caught:
        assemble(parts, Budget(len(whole) - 1, counter=CHARS))
    assert caught.value.sections == ("facts", "rules")
    assert caught.value.allowed == len(whole) - 1
    assert caught.value.needed > caught.value.allowed


def test_headroom_and_safety_factor_shrink_what_is_allowed() -> None:
    """Allowed is (total - headroom) / safety_factor."""
    assert Budget(100, headroom=10, safety_factor=1.5).allowed == 60
    with pytest.raises(BudgetExceeded, match="headroom is larger"):
        assemble([], Budget(5, headroom=6))


def test_order_sets_the_place_and_priority_the_claim_on_tokens() -> None:
    """A later section with higher priority gets its tokens first and keeps its place."""
    parts = [
        section("early", "E" * 50, order=1, priority=1, policy=Drop()),
        section("late", "L" * 50, order=2, priority=9, policy=Drop()),
    ]
    assert assemble(parts, Budget(60, counter=CHARS)).text == "L" * 50
    both = assemble(parts, Budget(102, counter=CHARS))
    assert both.text == "E" * 50 + "\n\n" + "L" * 50
    assert both.report.order == ("early", "late")


def test_required_sections_are_served_before_others_of_higher_priority() -> None:
    """Room for required sections is reserved before others are filled."""
    parts = [
        section("nice", "n" * 40, order=1, priority=100, policy=Drop()),
        section("must", "m" * 40, order=2, priority=0, required=True),
    ]
    prompt = assemble(parts, Budget(50, counter=CHARS))
    assert prompt.text == "m" * 40
    assert [(d.section, d.status) for d in prompt.report.decisions] == [
        ("nice", "dropped"),
        ("must", "included"),
    ]


def test_the_lowest_priority_is_reduced_first() -> None:
    """Of the required sections that may change, the least important is cut."""
    parts = [
        section("a", "a" * 300, order=1, priority=2, required=True, policy=Trim()),
        section("b", "b" * 300, order=2, priority=1, required=True, policy=Trim()),
    ]
    prompt = assemble(parts, Budget(450, counter=CHARS))
    assert "a" * 300 in prompt.text
    assert [decision.status for decision in prompt.report.decisions] == ["included", "trimmed"]
    assert prompt.report.actions == (f"trim b: 300 to {prompt.sections[1].tokens} tokens",)


def test_min_tokens_are_kept_free_while_others_are_filled() -> None:
    """A section's minimum is reserved before sections of higher priority are filled."""
    greedy = section("greedy", *["g" * 18] * 10, order=1, priority=9, policy=Skip())
    modest = section("modest", "m" * 30, order=2, priority=1, policy=Drop())
    assert "m" not in assemble([greedy, modest], Budget(100, counter=CHARS)).text
    kept = Section(**{**{f: getattr(modest, f) for f in modest.__slots__}, "min_tokens": 32})
    assert "m" * 30 in assemble([greedy, kept], Budget(100, counter=CHARS)).text


def test_a_section_over_its_own_budget_is_an_error_never_a_cut() -> None:
    """Budget.per_section and max_tokens limit a section that may not change. At the limit it fits."""
    part = section("system", "x" * 20, role="system", required=True)
    assert assemble([part], Budget(500, per_section={"system": 20}, counter=CHARS)).text == "x" * 20
    with pytest.raises(BudgetExceeded, match="needs 20 tokens and may take 19: system can't be dropped"):
        assemble([part], Budget(500, per_section={"system": 19}, counter=CHARS))


def test_sections_of_a_pool_share_one_bound() -> None:
    """The second section gets what the first leaves in the pool."""
    parts = [
        section("notes", "n" * 30, order=1, priority=2, policy=Drop(), pool="context"),
        section("files", "f" * 30, order=2, priority=1, policy=Drop(), pool="context"),
    ]
    prompt = assemble(parts, Budget(500, per_section={"context": 45}, counter=CHARS))
    assert prompt.text == "n" * 30


def test_may_exceed_flags_instead_of_raising() -> None:
    """With may_exceed, required sections stay whole and the report is flagged."""
    parts = [section("core", "c" * 40, required=True), section("npc", "n" * 9, order=1, policy=Drop())]
    prompt = assemble(parts, Budget(30, counter=CHARS), may_exceed=True)
    assert prompt.text == "c" * 40
    assert prompt.report.over_budget
    assert not assemble(parts, Budget(60, counter=CHARS), may_exceed=True).report.over_budget


def test_every_fault_is_listed_at_once() -> None:
    """Validation runs before any measuring and lists all faults."""
    twice = Section("a", "user", 0, 0, items=(Item("i", "x"), Item("i", "y")))
    wrong = [
        twice,
        section("a", "x"),
        section("b", "x", min_tokens=5, max_tokens=4),
        section("c", "x", required=True, policy=Drop()),
        section("d", "x", policy=()),
        section("late-rules", "x", role="system", order=7),
    ]
    with pytest.raises(SectionError) as caught:
        assemble(wrong, Budget(-1, headroom=-1, safety_factor=0.5, per_section={"a": -1}))
    text = str(caught.value)
    for part in (
        "'a' occurs 2 times",
        "holds 'i' more than once",
        "max_tokens below min_tokens",
        "is required but has Drop or Gate",
        "'d' has no policy",
        "comes before a system section",
        "-1 tokens is negative",
        "headroom of -1",
        "safety factor of 0.5",
        "budget of section 'a' is negative",
    ):
        assert part in text


def test_empty_sections_stay_in_the_list_and_leave_no_frame() -> None:
    """An empty section is listed but renders neither heading nor blank lines."""
    parts = [
        section("notes", "", prefix="## Notes\n"),
        section("logs", order=1),
        section("task", "go", order=2),
    ]
    prompt = assemble(parts, Budget(50, counter=CHARS))
    assert prompt.text == "go"
    assert [(part.id, part.text, part.tokens) for part in prompt.sections] == [
        ("notes", "", 0),
        ("logs", "", 0),
        ("task", "go", 2),
    ]


def test_messages_follow_the_roles_and_text_is_their_sum() -> None:
    """Consecutive sections of a role form one message."""
    parts = [
        section("s1", "rules", role="system"),
        section("s2", "more", role="system", order=1),
        section("u", "question", order=2),
        section("a", "answer", role="assistant", order=3),
        section("u2", "again", order=4),
    ]
    prompt = assemble(parts, Budget(100))
    assert [(m.role, m.content) for m in prompt.messages] == [
        ("system", "rules\n\nmore"),
        ("user", "question"),
        ("assistant", "answer"),
        ("user", "again"),
    ]
    assert prompt.system == "rules\n\nmore"
    assert prompt.user == "question\n\nagain"
    assert prompt.text == "\n\n".join(m.content for m in prompt.messages)


def test_cache_borders_are_where_stability_ends_and_disorder_is_a_warning() -> None:
    """There are at most four borders. A volatile section before a stable one is a warning."""
    ordered = [
        section("core", "core", role="system", stability="static"),
        section("rules", "rules", role="system", order=1, stability="session"),
        section("state", "state", order=2, stability="turn"),
        section("input", "input", order=3, stability="volatile"),
    ]
    prompt = assemble(ordered, Budget(100))
    assert prompt.report.cache_borders == ("core", "rules", "state")
    assert prompt.report.warnings == ()
    assert [message.stable for message in prompt.messages] == [True, False]

    changed = [*ordered[:2], section("state", "other", order=2, stability="turn")]
    assert assemble(changed, Budget(100)).report.prefix_hash == prompt.report.prefix_hash
    renamed = [section("core", "kore", role="system", stability="static"), *ordered[1:]]
    assert assemble(renamed, Budget(100)).report.prefix_hash != prompt.report.prefix_hash

    mixed = [section("now", "x", stability="volatile"), section("rules", "y", order=1, stability="static")]
    report = assemble(mixed, Budget(100)).report
    assert report.cache_borders == ()
    assert report.warnings == (
        "section 'now' (volatile) comes before 'rules' (static): the text after it is not cached",
    )


def test_citations_are_those_of_the_items_that_went_in() -> None:
    """Every citation has its text in the prompt, and every text its citation."""
    items = tuple(
        Item(f"p{n}", "x" * 20, citation=Citation(f"[{n}]", f"p{n}", "doc"), order=n) for n in range(4)
    )
    prompt = assemble(
        [Section("packs", "user", 0, 0, policy=StopFirst(), items=items)], Budget(50, counter=CHARS)
    )
    assert [citation.marker for citation in prompt.citations] == ["[0]", "[1]"]


def test_texts_that_cost_nothing_alone_are_still_bounded_together() -> None:
    """A quarter of a byte, rounded down, is 0. A hundred of them are not."""
    counter = get_counter("bytes4_floor")
    parts = [section(f"s{n}", "abc", order=n, policy=Drop()) for n in range(100)]
    prompt = assemble(parts, Budget(10, counter=counter))
    assert counter.count(prompt.text) <= 10
    required = [section(f"s{n}", "abc", order=n, required=True) for n in range(100)]
    with pytest.raises(BudgetExceeded):
        assemble(required, Budget(10, counter=counter))
    assert assemble(parts, Budget(0, counter=counter)).text in ("", "abc")


def test_a_counter_for_which_the_whole_is_more_than_its_parts_is_still_obeyed() -> None:
    """The render is measured again, and more is dropped if it is too large."""
    counter = FunctionCounter(
        "joins", "1", lambda text: len(text.split()) + 3 * max(0, len(text.split()) - 1)
    )
    parts = [section("words", *["w"] * 50, policy=Skip(), separator=" ")]
    prompt = assemble(parts, Budget(40, counter=counter))
    assert 0 < counter.count(prompt.text) <= 40


def test_values_that_are_no_role_policy_or_text_are_refused() -> None:
    """Each would else be ignored, or end up in the prompt as it is."""
    for wrong, part in (
        ({"policy": "nosuch"}, "policy 'nosuch'"),
        ({"role": "robot"}, "role 'robot'"),
        ({"stability": "foo"}, "stability 'foo'"),
        ({"order": "1"}, "order '1'"),
        ({"items": (Item("i", None),)}, "holds NoneType and no text"),  # type: ignore[arg-type]
    ):
        with pytest.raises(SectionError, match=part):
            assemble([replace(section("a", "x"), **wrong)], Budget(100))
