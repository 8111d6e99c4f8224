"""Test the scoped recipe with adapters: failures, fetching and caching."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from scoped_segments import LAYER_SEGMENTS, RULESETS, TURN, Asked, prompt_of

from rlm.prompts import Npc, ScopedPrompt
from rlm.prompts.segments import AdapterFailed, EntryRuleset, MemoryAdapter, Segment

# 2.11


@pytest.mark.parametrize("scope", ["core", "ruleset", "world", "entry", "entry_start", "npc"])
def test_a_failing_adapter_is_a_typed_error_that_names_the_scope(scope: str) -> None:
    class Failing(Asked):
        def get_segments(self, asked: str, ref_id: str | None) -> Sequence[Segment]:
            if asked == scope:
                raise OSError("the line is dead")
            return super().get_segments(asked, ref_id)

        def get_segments_of(self, asked: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
            if asked == scope:
                raise OSError("the line is dead")
            return super().get_segments_of(asked, ref_ids)

    with pytest.raises(AdapterFailed, match=f"'{scope}' could not be fetched: OSError: the line") as caught:
        ScopedPrompt(Failing()).assemble(TURN)
    assert caught.value.scope == scope
    assert isinstance(caught.value.__cause__, OSError)


def test_failing_rulesets_are_a_typed_error_that_names_the_scope() -> None:
    class Failing(Asked):
        def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
            raise LookupError("gone")

    with pytest.raises(AdapterFailed, match="'ruleset' could not be fetched"):
        ScopedPrompt(Failing()).assemble(TURN)


def test_an_adapter_of_two_methods_is_enough() -> None:
    class Least:
        def __init__(self) -> None:
            self.calls = 0
            self.get_segments: Callable[..., Any] = self._segments

        def _segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
            self.calls += 1
            return MemoryAdapter(LAYER_SEGMENTS).get_segments(scope, ref_id)

        def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
            return RULESETS[entry_id]

    adapter = Least()
    prompt = ScopedPrompt(adapter)
    assert prompt.assemble(TURN).text == prompt_of().assemble(TURN).text
    prompt.assemble(TURN)
    assert adapter.calls == 14  # it can't say whether something changed, so it is asked every time


# 2.12


def test_static_layers_are_kept_and_dynamic_ones_are_fresh() -> None:
    adapter = Asked()
    prompt = ScopedPrompt(adapter)
    prompt.assemble(TURN)
    asked = list(adapter.asked)
    assert "I run." in prompt.assemble(replace(TURN, input="I run.")).text
    assert adapter.asked == asked
    prompt.assemble(replace(TURN, npcs=(Npc("n1"), Npc("n2"))))
    assert adapter.asked == [*asked, ("npc", "n2")]
    prompt.forget()
    prompt.assemble(TURN)
    assert sorted(adapter.asked[-len(asked) :], key=str) == sorted(asked, key=str)


def test_a_prompt_can_be_rendered_as_a_stream_of_parts() -> None:
    parts = list(prompt_of().stream(TURN))
    assert len(parts) == 10
    assert "".join(parts) == prompt_of().assemble(TURN).text


def test_nothing_that_is_given_is_changed() -> None:
    data = {"entry_point_id": "e1", "world_id": "w1", "npcs": [{"id": "n1"}], "game_state": {"a": [1]}}
    before = json.dumps(data)
    prompt_of().assemble(data)
    assert json.dumps(data) == before
