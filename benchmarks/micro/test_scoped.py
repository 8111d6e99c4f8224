"""Measure scoped prompts: from a store that has not been read yet, and when only the input is new."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rlm.prompts import Npc, ScopedInput, ScopedPrompt
from rlm.prompts.segments import SegmentStore

NPCS = 20
TURN = ScopedInput(
    "e",
    "w",
    is_first_turn=True,
    npcs=tuple(Npc(f"n{n}", tier=2) for n in range(NPCS)),
    game_state="It is night. " * 100,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SegmentStore]:
    folder: Path = tmp_path_factory.mktemp("segments")
    with SegmentStore.open(folder / "segments.db") as opened:
        for kind, names in {"world": ["w"], "entry": ["e"], "npc": [f"n{n}" for n in range(NPCS)]}.items():
            for name in names:
                opened.add_entity(kind, name)
        places: list[tuple[str, str | None]] = [
            ("core", None),
            ("world", "w"),
            ("entry", "e"),
            ("entry_start", "e"),
        ]
        for scope, ref in [*places, *(("npc", f"n{n}") for n in range(NPCS))]:
            for tier in range(3):
                opened.add(
                    scope, f"{scope} {ref} tells of tier {tier}. " * 10, ref_id=ref, metadata={"tier": tier}
                )
        yield opened


def test_a_prompt_of_a_store_not_read_yet(benchmark: Any, store: SegmentStore) -> None:
    adapter = store.adapter()
    made = benchmark(lambda: ScopedPrompt(adapter).assemble(TURN))
    assert made.meta.tokens_after <= TURN.token_budget


def test_a_prompt_whose_input_alone_is_new(benchmark: Any, store: SegmentStore) -> None:
    prompt, number = ScopedPrompt(store.adapter()), count()
    made = benchmark(lambda: prompt.assemble(replace(TURN, input=f"I open door {next(number)}.")))
    assert made.meta.tokens_after <= TURN.token_budget
