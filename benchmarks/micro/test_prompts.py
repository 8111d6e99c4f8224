"""Measure the time to assemble ten thousand items, and to count tokens.

Every round starts cold: no cache survives from one assembly to the next.
"""

from __future__ import annotations

import json
import random
from typing import Any, NamedTuple

import pytest

from rlm.prompts import (
    CitedInput,
    CitedPrompt,
    Pack,
    Tile,
    TileConfig,
    TileInput,
    TilePrompt,
    counter_names,
    get_counter,
)

ITEMS = 10_000
SENTENCE = (
    "The quick brown fox jumps over 1234 lazy dogs in foo.bar() again and nobody noticed it until Thursday"
)
WORDS = tuple(SENTENCE.split())


class Drawn(NamedTuple):
    id: str
    text: str
    score: float
    priority: int


@pytest.fixture(scope="module")
def items() -> tuple[Drawn, ...]:
    draw = random.Random(1)
    return tuple(
        Drawn(f"item-{n}", " ".join(draw.choices(WORDS, k=10)), draw.random(), draw.randrange(3))
        for n in range(ITEMS)
    )


@pytest.mark.parametrize("most", [4_096, 10_000_000])
def test_assemble_ten_thousand_tiles(benchmark: Any, items: tuple[Drawn, ...], most: int) -> None:
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
    benchmark: Any, items: tuple[Drawn, ...], style: Any, most: int | None
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
