"""Measure the time to assemble ten thousand items, and to count tokens.

Every round starts cold: no cache survives from one assembly to the next.
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from rlm.prompts import (
    AssembledPrompt,
    Budget,
    CitedInput,
    CitedPrompt,
    Item,
    Pack,
    Section,
    Tile,
    TileConfig,
    TileInput,
    TilePrompt,
    assemble,
    counter_names,
    get_counter,
)
from rlm.prompts.assembly.policy import Compress, Policy, Skip, StopFirst

ITEMS = 10_000
SENTENCE = (
    "The quick brown fox jumps over 1234 lazy dogs in foo.bar() again and nobody noticed it until Thursday"
)
WORDS = tuple(SENTENCE.split())


@pytest.fixture(scope="module")
def items() -> tuple[Item, ...]:
    draw = random.Random(1)
    return tuple(
        Item(
            f"item-{n}",
            " ".join(draw.choices(WORDS, k=10)),
            variants=(WORDS[n % len(WORDS)],),
            score=draw.random(),
            priority=draw.randrange(3),
            order=n,
        )
        for n in range(ITEMS)
    )


@pytest.mark.parametrize("counter", ["estimate", "chars"])
@pytest.mark.parametrize(
    ("total", "policy"),
    [(8_000, Skip()), (8_000, StopFirst()), (8_000, (Compress(), Skip())), (10_000_000, Skip())],
)
def test_assemble_ten_thousand_items(
    benchmark: Any, items: tuple[Item, ...], counter: str, total: int, policy: Policy | tuple[Policy, ...]
) -> None:
    sections = (
        Section("rules", "system", 0, 100, required=True, items=(Item("rules", "Answer from the context."),)),
        Section("context", "user", 1, 1, policy=policy, items=items),
    )
    budget = Budget(total, counter=get_counter(counter))
    prompt: AssembledPrompt = benchmark(assemble, sections, budget)
    assert len(prompt.report.decisions) == ITEMS + 1
    assert prompt.report.totals.prompt <= total


@pytest.mark.parametrize("most", [4_096, 10_000_000])
def test_assemble_ten_thousand_tiles(benchmark: Any, items: tuple[Item, ...], most: int) -> None:
    tiles = tuple(
        Tile(item.id, item.text, item.text, f"domain-{n % 9}", item.score, ("P0", "P1", "P2")[item.priority])
        for n, item in enumerate(items)
    )
    given = TileInput("Who jumped?", tiles, TileConfig(max_tokens=most))
    stats = benchmark(TilePrompt().assemble, given).stats
    assert stats.tiles_included + stats.excluded == ITEMS
    assert stats.total_tokens <= most


@pytest.mark.parametrize("most", [100_000, None])
@pytest.mark.parametrize("style", ["numeric", "footnote"])
def test_assemble_ten_thousand_packs(
    benchmark: Any, items: tuple[Item, ...], style: Any, most: int | None
) -> None:
    packs = tuple(Pack(item.id, f"doc-{n % 9}", item.text, item.score, n) for n, item in enumerate(items))
    given = CitedInput("Who jumped?", packs, citation_style=style, max_tokens=most)
    made = benchmark(CitedPrompt().assemble, given)
    assert most is None or made.tokens_estimated <= most


SAMPLES = {
    "prose": "She had kept the minutes since the flood, and read out the figures without believing them. ",
    "code": "    def add(self, name: str, amount: float) -> bool:\n        return self.total + amount > 0\n",
    "json": json.dumps({"id": 10_431, "lat": 51.50735, "tags": ["indoor", "v2"], "ok": True}) + "\n",
    "chinese": "会议在周四上午重新召开，主席首先宣读了上个月的财务报告。",
    "base64": "kJ7pQz0bX2ZsVn9dT1aYw3uR8eLmC5oHf6gKiNqSxEDvBtPjWAUOlIrGyM4hF+c/",
}


@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("counter", counter_names())
def test_count_a_megabyte(benchmark: Any, counter: str, kind: str) -> None:
    size = len(SAMPLES[kind].encode())
    text = SAMPLES[kind] * (1_000_000 // size)
    assert benchmark(get_counter(counter).count, text) > 0
