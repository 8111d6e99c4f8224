"""Test that the chunks of the plan fill a child's room, with the tokens that its provider counts."""

from __future__ import annotations

import random

import pytest

from rlm import Limits
from rlm.models.base import ModelWindow, Reply, TokenUsage
from rlm.prompts.tokens.counters import get_counter
from rlm.testing import ScriptedModel

ROOM = 32_000
COUNTER = get_counter("estimate")
CHANCE = random.Random(7)
WORDS = [
    "the", "yard", "was", "closed", "in", "May", "because", "cranes", "and", "ships", "were", "sold",
    "to", "another", "harbour", "far", "away",
]  # fmt: skip
LEVELS = ("INFO", "WARN", "ERROR")
TEXTS = {
    "log": "".join(
        f"2026-05-01T10:{n // 60 % 60:02}:{n % 60:02}Z {CHANCE.choice(LEVELS)} worker-{n % 17} "
        f"request id={CHANCE.getrandbits(64):016x} took {CHANCE.randrange(9000)} ms\n"
        for n in range(9_000)
    ),
    "prose": "".join(
        f"{' '.join(CHANCE.choices(WORDS, k=12)).capitalize()}. " + "\n" * (n % 9 == 0) for n in range(9_000)
    ),
    "chinese": "".join(
        "".join(
            CHANCE.choices(
                "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年", k=30
            )
        )
        + "。\n"
        for _ in range(9_000)
    ),
}
CODE = """
first = sub_query("List every error in this slice.", (0, 9_000))
size = context_meta().recommended_chunk
r = sub_query_batch("List every error in this slice.", chunk(max_chars=size, by="lines"))
finalize([size, len(r), r.failed])
"""


@pytest.mark.parametrize(("kind", "ratio"), [("log", 1.2), ("prose", 0.67), ("chinese", 0.95)])
async def test_chunks_of_the_plan_hold_60_to_90_percent_of_the_room(run, block, kind, ratio) -> None:
    """`ratio` is a real tokenizer's count over our estimate, which is too high on purpose for most."""
    counted: list[int] = []

    def child(request) -> Reply:
        estimated = sum(COUNTER.count(message.content) for message in request.messages)
        counted.append(int(estimated * ratio))
        return Reply("none", usage=TokenUsage(input_tokens=counted[-1], output_tokens=5))

    model = ScriptedModel.of(root=[block(CODE)], child=child)
    result = await run(model, TEXTS[kind], limits=Limits(max_total_tokens=50_000_000))
    assert result.answer is not None, model.requests[-1].messages[-1].content
    assert result.answer[2] == []
    fills = sorted(count / ROOM for count in counted[1:])[1:]  # the smallest is what was left at the end
    assert fills, result.answer
    assert min(fills) >= 0.6, (result.answer, fills)
    assert max(fills) <= 0.9, (result.answer, fills)


async def test_the_room_is_what_a_small_window_leaves_beside_the_reply(run, block) -> None:
    child = ScriptedModel.of(root=[], child="-", window=ModelWindow(8_000, 2_000))
    code = "size = context_meta().recommended_chunk\nr = sub_query_batch('q', chunk(max_chars=size))\n"
    root = ScriptedModel.of(root=[block(f"{code}finalize([size, r.failed])")])
    size, failed = (await run(root, TEXTS["prose"], sub_model=child)).answer
    assert failed == []
    assert COUNTER.count(TEXTS["prose"][:size]) < 6_000
