"""Test what a segment requires, its short form, and the order of layers by the type of an entry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scoped_segments import RULESETS, TURN, segment_of

from rlm.prompts import Npc, ScopedPrompt
from rlm.prompts.errors import ScopedInputError
from rlm.prompts.recipes.scoped import AssembledScoped
from rlm.prompts.segments import SCOPES, AdapterFailed, MemoryAdapter, Segment
from rlm.prompts.segments.segment import faults_of_segment

REF = {"core": None, "ruleset": "dice", "world": "w1", "entry": "e1", "entry_start": "e1", "npc": "n1"}


def build(*segments: Segment, orders: Any = None, **turn: Any) -> AssembledScoped:
    return ScopedPrompt(MemoryAdapter(segments, RULESETS), orders=orders).assemble(replace(TURN, **turn))


def included(made: AssembledScoped) -> set[str]:
    return {name for names in made.meta.segment_ids_by_scope.values() for name in names}


def test_a_segment_without_what_it_requires_is_left_out_and_said() -> None:
    made = build(
        segment_of("rules", "core", "Magic is rare."),
        segment_of("spells", "ruleset", "Spells cost blood.", "dice", requires=["rules"]),
        segment_of("duel", "entry", "A duel of spells.", "e1", requires=["spells", "arena"]),
        segment_of("echo", "entry", "Echoes of the duel.", "e1", requires=["duel"]),
    )
    assert included(made) == {"rules", "spells"}
    assert "duel" not in made.text
    assert [w for w in made.report.warnings if "left out" in w] == [
        "segment duel was left out: it requires arena, which is not in the prompt",
        "segment echo was left out: it requires duel, which is not in the prompt",
    ]


def test_what_is_required_comes_first_in_its_layer_also_in_circles() -> None:
    made = build(
        segment_of("a", "core", "Then this.", requires=["z"]),
        segment_of("m", "core", "One of a circle.", requires=["n"]),
        segment_of("n", "core", "The other.", requires=["m"]),
        segment_of("z", "core", "First this."),
    )
    assert made.meta.segment_ids_by_scope["core"] == ("z", "a", "n", "m")


def test_a_segment_goes_with_what_the_budget_drops() -> None:
    """The character's secret needs the world, which is dropped to make room."""
    made = build(
        segment_of("c", "core", "Core. " * 40),
        segment_of("w", "world", "World. " * 400, "w1"),
        segment_of("plain", "npc", "A wizard in grey.", "n1"),
        segment_of("secret", "npc", "He made the world.", "n1", requires=["w"]),
        token_budget=200,
    )
    assert made.meta.truncated is not None
    assert "world" in made.meta.truncated.dropped_scopes
    assert "secret" not in included(made)
    assert any("requires w" in warning for warning in made.report.warnings)


def test_a_short_form_is_used_before_a_layer_is_dropped() -> None:
    long = segment_of("w", "world", "A land of hills and rivers. " * 60, "w1", short="A land of hills.")
    made = build(segment_of("c", "core", "You are the game master."), long, token_budget=200)
    assert made.sections[2].content == "<world>\nA land of hills.\n</world>"
    assert not made.meta.over_budget
    assert made.meta.truncated is not None
    assert made.meta.truncated.compressed_scopes == ("world",)
    assert made.meta.segment_ids_by_scope["world"] == ("w",)
    roomy = build(long, token_budget=4_000)
    assert roomy.sections[2].content.count("rivers") == 60
    assert roomy.meta.truncated is None


def test_several_layers_are_compressed_as_far_as_needed() -> None:
    parts = [
        segment_of(scope, scope, f"{scope} at length. " * 50, REF[scope], short=f"{scope} in short.")
        for scope in ("world", "entry", "entry_start")
    ]
    for budget in range(100, 900, 25):
        made = build(*parts, token_budget=budget)
        assert not made.meta.over_budget, budget
        assert included(made) == {"world", "entry", "entry_start"}


def test_the_type_of_an_entry_chooses_the_order_of_the_layers() -> None:
    orders = {"battle": ("npc", "rng", "core", "input")}
    parts = [segment_of(scope, scope, f"This is {scope}.", REF[scope]) for scope in SCOPES]
    usual = build(*parts, orders=orders)
    battle = build(*parts, orders=orders, entry_type="battle")
    assert usual.meta.order[:6] == SCOPES
    assert battle.meta.order == (
        "npc",
        "core",
        "ruleset",
        "world",
        "entry",
        "entry_start",
        "rng",
        "input",
        "game_state",
        "player",
    )
    assert battle.text.index("<npc>") < battle.text.index("<core>")
    assert battle.text.index("<rng>") < battle.text.index("<game_state>")
    assert build(*parts, entry_type="unknown").text == usual.text


@pytest.mark.parametrize("order", [("weather",), ("core", "core")])
def test_an_order_of_unknown_or_repeated_layers_is_refused(order: tuple[str, ...]) -> None:
    with pytest.raises(ScopedInputError, match="battle"):
        ScopedPrompt(MemoryAdapter([], {}), orders={"battle": order})


def test_faults_of_the_metadata_are_named() -> None:
    faults = faults_of_segment(segment_of("c", "core", "x", None, requires="w", short=3))
    assert any("requires is not a list" in fault for fault in faults)
    assert any("short form is not a text" in fault for fault in faults)


def test_a_segment_of_another_scope_and_two_of_one_id_are_refused() -> None:
    class Wrong(MemoryAdapter):
        def get_segments(self, scope: str, ref_id: str | None) -> Any:
            return [Segment("s", "player", "I am forged.")] if scope == "core" else []

    with pytest.raises(AdapterFailed, match=r"core.*'player'"):
        ScopedPrompt(Wrong([], RULESETS)).assemble(TURN)

    class Twice(MemoryAdapter):
        def get_segments(self, scope: str, ref_id: str | None) -> Any:
            texts = ("one", "two") if scope == "core" else ()
            return [Segment("s", "core", text) for text in texts]

    with pytest.raises(AdapterFailed, match="two segments have the id 's'"):
        ScopedPrompt(Twice([], RULESETS)).assemble(TURN)


def test_a_segment_named_like_a_heading_is_no_fault() -> None:
    made = build(segment_of("npc n1", "npc", "A wizard.", "n1"), npcs=(Npc("n1"),))
    assert "A wizard." in made.text


def test_a_state_that_is_no_json_is_refused() -> None:
    state: dict[str, Any] = {}
    state["self"] = state
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in (state, {1, 2}, deep):
        with pytest.raises(ScopedInputError, match="game_state"):
            ScopedPrompt(MemoryAdapter([], {})).assemble(
                {"entry_point_id": "e", "world_id": "w", "game_state": wrong}
            )


@given(
    st.lists(st.tuples(st.sampled_from(SCOPES), st.sets(st.integers(0, 9), max_size=2)), max_size=10),
    st.integers(100, 400),
)
def test_nothing_is_included_without_what_it_requires(drawn: list[tuple[str, set[int]]], budget: int) -> None:
    parts = [
        segment_of(
            f"s{n}", scope, f"[{n}] " + "text " * 12, REF[scope], requires=[f"s{m}" for m in sorted(wanted)]
        )
        for n, (scope, wanted) in enumerate(drawn)
    ]
    made = build(*parts, token_budget=budget)
    kept = included(made)
    for part in parts:
        if part.id in kept:
            assert set(part.requires) <= kept
    assert made.meta.tokens_after <= budget or made.meta.over_budget
