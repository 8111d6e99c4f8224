"""Test the scoped recipe within its budget: the ladder, the layers that are never dropped, and the meta."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scoped_segments import (
    LAYER_SEGMENTS,
    RULESETS,
    TURN,
    npc_block,
    npcs_at,
    prompt_of,
    segment_of,
    tokens_of,
)

from rlm.prompts import Npc, ScopedInput, ScopedPrompt, get_counter
from rlm.prompts.segments import LAYERS, MemoryAdapter, Segment

LONG = "".join(f"{n:02} words of a sentence. " for n in range(40))


def _at(budget: int, **layers: str) -> Any:
    turn = ScopedInput("e1", "w1", is_first_turn=True, token_budget=budget, **layers)  # type: ignore[arg-type]
    return prompt_of(*LAYER_SEGMENTS[:6]).assemble(turn)


def test_the_ladder_trims_input_first_then_drops_rng_then_trims_player_then_compresses_game_state() -> None:
    layers = {"game_state": LONG, "player": LONG, "rng": "d20: 7 " * 20, "input": LONG}
    whole = _at(8000, **layers).meta.tokens_after
    statics = _at(8000).meta.tokens_after
    fates = []
    for budget in range(whole + 20, statics, -1):  # parts measured apart take a little more
        made = _at(max(budget, 100), **layers)
        assert made.meta.tokens_after <= max(budget, 100)
        step = {d.section: d.status for d in made.report.decisions if d.section in layers}
        if not fates or fates[-1] != step:
            fates.append(step)
    inc, trim, drop = "included", "trimmed", "dropped"
    assert fates[:5] == [
        {"game_state": inc, "player": inc, "rng": inc, "input": inc},
        {"game_state": inc, "player": inc, "rng": inc, "input": trim},
        {"game_state": inc, "player": inc, "rng": drop, "input": trim},
        {"game_state": inc, "player": trim, "rng": drop, "input": trim},
        {"game_state": trim, "player": trim, "rng": drop, "input": trim},
    ]


def test_the_npc_block_goes_down_after_game_state_was_compressed() -> None:
    segments = [*LAYER_SEGMENTS[:1], *npcs_at(0, 1, size=400)]
    turn = ScopedInput("e1", "w1", npcs=(Npc("n1", tier=1),), game_state=LONG, input="I look around.")
    prompt = prompt_of(*segments)
    cut_first = []
    for budget in range(prompt.assemble(turn).meta.tokens_after, 100, -1):
        truncated = prompt.assemble(replace(turn, token_budget=budget)).meta.truncated
        if truncated is not None:
            cut_first.append((truncated.game_state_compressed, bool(truncated.npc_dropped_tiers)))
    assert list(dict.fromkeys(cut_first))[:2] == [(True, False), (True, True)]


def test_input_is_cut_at_the_end_of_a_sentence_past_70_percent() -> None:
    made = _at(250, input=LONG)
    cut = next(section.content for section in made.sections if section.name == "input")
    kept = cut.removeprefix("<input>\n").partition("\n[…")[0]
    assert LONG.startswith(kept)
    assert kept.endswith("sentence.")
    assert made.meta.truncated is not None
    assert made.meta.truncated.input_trimmed


def test_game_state_is_compressed_without_loss_before_any_of_it_is_cut() -> None:
    state = json.dumps({"items": [{"name": "a  rope", "n": n} for n in range(20)]}, indent=4)
    made = _at(330, game_state=state)
    text = next(section.content for section in made.sections if section.name == "game_state")
    inner = text.removeprefix("<game_state>\n").removesuffix("\n</game_state>")
    assert len(inner) < len(state) / 2
    assert json.loads(inner) == json.loads(state)
    assert made.meta.truncated is not None
    assert made.meta.truncated.game_state_compressed
    yaml = "orc:\n  hp:   3\n\n\ngoblin:\n  hp:   3   \n" * 20
    made = _at(220, game_state=yaml)
    assert "orc:\n  hp: 3\ngoblin:\n  hp: 3\norc:" in made.text


def test_core_and_ruleset_are_never_dropped_and_the_prompt_says_that_it_is_over_budget() -> None:
    core, rules = "c" * 2000, "r" * 2000
    made = prompt_of(
        segment_of("c", "core", core), segment_of("r", "ruleset", rules, "dice"), *LAYER_SEGMENTS[3:]
    ).assemble(replace(TURN, token_budget=100, input=LONG))
    assert core in made.text
    assert rules in made.text
    assert made.report.over_budget
    assert made.meta.over_budget
    assert made.meta.truncated is not None
    assert made.meta.truncated.dropped_scopes == (
        "world", "entry", "entry_start", "npc", "game_state", "player", "rng"
    )  # fmt: skip
    assert made.meta.segment_ids_by_scope["core"] == ("c",)
    assert "exceeds its budget of 100 tokens" in made.report.warnings[0]


def test_a_prompt_over_its_budget_still_holds_the_beginning_of_the_request() -> None:
    made = prompt_of(segment_of("c", "core", "c" * 2000)).assemble(
        replace(TURN, token_budget=100, input=LONG)
    )
    assert "<input>\n00 words of a sentence." in made.text
    fate = next(decision for decision in made.report.decisions if decision.section == "input")
    assert (fate.status, fate.tokens_before) == ("trimmed", tokens_of(LONG))
    assert made.meta.truncated is not None
    assert made.meta.truncated.input_trimmed


def _static(entry_start: int, world: int, entry: int) -> ScopedPrompt:
    return prompt_of(
        segment_of("c", "core", "core"),
        segment_of("s", "entry_start", "s" * entry_start * 4, "e1"),
        segment_of("w", "world", "w" * world * 4, "w1"),
        segment_of("e", "entry", "e" * entry * 4, "e1"),
    )


@pytest.mark.parametrize(
    ("sizes", "dropped", "over"),
    [
        ((10, 20, 20), (), False),
        ((30, 50, 30), (), True),  # over, but by less than half
        ((120, 40, 20), ("entry_start",), False),
        ((60, 120, 30), ("entry_start", "world"), False),
        ((60, 80, 200), ("entry_start", "world", "entry"), False),
        ((0, 0, 400), ("entry",), False),
    ],
)
def test_entry_start_world_and_entry_leave_only_above_one_and_a_half_times_the_budget(
    sizes: tuple[int, int, int], dropped: tuple[str, ...], over: bool
) -> None:
    if sizes[:2] == (0, 0):
        prompt = prompt_of(
            segment_of("c", "core", "core"), segment_of("e", "entry", "e" * sizes[2] * 4, "e1")
        )
    else:
        prompt = _static(*sizes)
    made = prompt.assemble(ScopedInput("e1", "w1", is_first_turn=True, token_budget=100))
    truncated = made.meta.truncated
    assert set(truncated.dropped_scopes if truncated else ()) == set(dropped)
    assert made.report.over_budget is over


def test_everything_is_in_tokens_of_the_counter_that_is_named() -> None:
    assert prompt_of().assemble(TURN).report.counter == "chars4_ceil/1"
    adapter = MemoryAdapter(LAYER_SEGMENTS, RULESETS)
    made = ScopedPrompt(adapter, counter=get_counter("chars")).assemble(replace(TURN, token_budget=420))
    assert made.report.counter == "chars/1"
    assert len(made.text) == made.meta.tokens_after <= 420


# 2.10


def test_the_meta_is_complete_and_in_snake_case() -> None:
    made = prompt_of().assemble(TURN)
    assert made.meta.to_json() == {
        "segment_ids_by_scope": {
            "core": ["c"],
            "ruleset": ["r1", "r2"],
            "world": ["w"],
            "entry": ["e"],
            "entry_start": ["s"],
            "npc": ["n"],
        },
        "order": list(LAYERS),
        "tokens_estimated": tokens_of(made.text),
        "tokens_after": tokens_of(made.text),
        "truncated": None,
        "over_budget": False,
        "skipped_npcs": [],
    }
    cut = prompt_of().assemble(replace(TURN, token_budget=150, input=LONG, rng="7 " * 100)).meta.to_json()
    assert cut["truncated"] == {
        "dropped_scopes": ["rng"],
        "npc_dropped_tiers": [],
        "input_trimmed": True,
        "game_state_compressed": False,
        "compressed_scopes": [],
    }
    assert cut["tokens_estimated"] > 150 >= cut["tokens_after"]
    assert set(made.to_json()) == {"prompt", "sections", "meta", "report"}
    assert json.loads(json.dumps(made.to_json())) == made.to_json()


_TEXTS = st.text(st.sampled_from("ab \n.é漢"), max_size=300)


@settings(max_examples=150)
@given(data=st.data())
def test_never_over_budget_unless_flagged_always_the_same_and_the_meta_is_true(data: st.DataObject) -> None:
    draw = data.draw
    segments = []
    for number in range(draw(st.integers(0, 10))):
        scope = draw(st.sampled_from(("core", "ruleset", "world", "entry", "entry_start", "npc")))
        ref = {"core": None, "ruleset": "dice", "world": "w1", "npc": draw(st.sampled_from(("n1", "n2")))}
        content = f"[{number}]" + draw(_TEXTS)
        tier = draw(st.one_of(st.none(), st.integers(0, 3)))
        metadata = {} if tier is None else {"tier": tier}
        segments.append(Segment(f"s{number}", scope, content, ref.get(scope, "e1"), metadata))
    turn = ScopedInput(
        "e1",
        "w1",
        is_first_turn=draw(st.booleans()),
        token_budget=draw(st.integers(100, 400)),
        npc_budget=draw(st.integers(50, 200)),
        npcs=tuple(
            Npc(name, tier=draw(st.integers(0, 3))) for name in draw(st.sampled_from([(), ("n1", "n2", "x")]))
        ),
        **{layer: draw(_TEXTS) for layer in LAYERS[6:]},
    )
    counter = get_counter(draw(st.sampled_from(("chars4_ceil", "estimate", "chars", "bytes4_floor"))))
    made = ScopedPrompt(MemoryAdapter(segments, RULESETS), counter=counter).assemble(turn)
    again = ScopedPrompt(MemoryAdapter(segments[::-1], RULESETS), counter=counter).assemble(turn)
    assert made.to_json() == again.to_json()
    assert made.meta.tokens_after == counter.count(made.text)
    assert made.meta.over_budget == (made.meta.tokens_after > turn.token_budget)
    npcs = npc_block(made)
    assert counter.count(npcs) <= turn.npc_budget
    by_scope = made.meta.segment_ids_by_scope
    sections = {section.name: section.content for section in made.sections}
    for segment in segments:
        inside = segment.id in by_scope[segment.scope]
        assert inside == (segment.content in sections[segment.scope] and f"[{segment.id[1:]}]" in made.text)
    for never in ("core", "ruleset"):
        assert len(by_scope[never]) == sum(segment.scope == never for segment in segments)
    if made.meta.over_budget:
        kept = [
            sections[scope]
            for scope in ("core", "ruleset", "world", "entry", "entry_start")
            if sections[scope]
        ]
        assert counter.count("\n\n".join(kept)) > turn.token_budget * 0.5
    assert (made.meta.truncated is None) == all(d.status == "included" for d in made.report.decisions) or npcs
