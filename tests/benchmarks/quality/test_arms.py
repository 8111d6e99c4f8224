"""Test the arms: what each one asks its model, and that none has a word of its own."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from benchmarks.quality.arms import ARMS, TooLong, find_arm
from benchmarks.quality.item import Item
from benchmarks.quality.scoring import score
from rlm import RLM, Limits, Settings
from rlm.errors import UsageError
from rlm.models.base import ModelWindow, Reply, TokenUsage
from rlm.prompts.templates import texts
from rlm.sandbox.in_kernel.registry import HELPERS
from rlm.testing import ScriptedModel

FACT = "The crane costs 940 euros a day."
ITEM = Item(
    "item-1",
    "What does the crane cost?",
    (f"{FACT}\n" + "The barge is green.\n" * 3_000, "The mast is tall.\n" * 20),
    ("940",),
    "number",
)
WORD = re.compile(r"\b[^\W\d_]{2,}\b")
"""A whole word: the random marks around texts hold digits."""


def words(text: str) -> set[str]:
    return {word.casefold() for word in WORD.findall(text)}


def settings_of(tmp_path, level: int) -> Settings:
    return Settings(sandbox=level, store=tmp_path / "runs.db", store_mb=1 << 30)


def scripted(block, window: ModelWindow | None = None) -> ScriptedModel:
    usage = TokenUsage(100, 10)
    return ScriptedModel.of(
        root=lambda _: Reply(
            block(f"hits = search('crane')\nfinalize('940', evidence=[{FACT!r}])"), usage=usage
        ),
        direct=lambda _: Reply(f'940\nEvidence:\n"{FACT}"', usage=usage),
        child=lambda _: Reply(f'The crane: "{FACT}"', usage=usage),
        window=window,
    )


async def play(arm: str, model: ScriptedModel, tmp_path, level: int, item: Item = ITEM):
    """Run one arm on one item, and return its result, what it said, and its score."""
    result, said = await find_arm(arm).answer(
        model, item, "run-1", settings=settings_of(tmp_path, level), limits=Limits(max_cost=1.0)
    )
    return result, said, score(item.rule, said, item.golds)


@pytest.mark.parametrize("arm", [*ARMS, "auto", "depth-0", "bm25-2"])
async def test_no_prompt_of_an_arm_holds_a_word_that_the_shipped_ones_do_not(
    arm, block, tmp_path, sandbox_level
) -> None:
    """Every word that a model gets is of the prompts that ship, the helpers, the question or the texts; a
    plain run of the same strategy (`RLM.run`) gets the words that code puts in between: names of documents,
    figures of limits."""
    model = scripted(block, ModelWindow(16_000, 2_000))
    item = replace(ITEM, texts=(FACT + "\n", "The mast is tall.\n")) if arm == "direct" else ITEM
    result, _, points = await play(arm, model, tmp_path, sandbox_level, item)
    assert points == 1.0, result
    shipped = words("\n".join(texts().values()))
    shipped |= words("\n".join(f"{one}" for one in HELPERS))
    shipped |= words(ITEM.question) | words("\n".join(ITEM.texts))
    # The preview of a text may begin or end within a word of it.
    shipped |= {
        part
        for word in words("\n".join(ITEM.texts))
        for at in range(len(word))
        for part in (word[:at], word[at:])
    }
    for strategy in ("rlm", "direct", "map-reduce"):
        plain = scripted(block)
        settings = Settings(strategy=strategy, sandbox=sandbox_level, store=tmp_path / "plain.db")
        # Another text and question, so that nothing of the bench is among these words.
        await RLM(plain, settings=settings).run("Which colour has it?", ["The hull is red.", "It sails."])
        for request in plain.requests:
            shipped |= words("\n".join(message.content for message in request.messages))
    for request in model.requests:
        for message in request.messages:
            if message.role != "assistant":
                assert words(message.content) <= shipped


async def test_what_each_arm_gives_its_model(block, tmp_path, sandbox_level) -> None:
    small = ModelWindow(12_000, 2_000)
    seen = {}
    for arm in ("truncated", "bm25-1", "map-reduce"):
        model = scripted(block, small)
        seen[arm] = (await play(arm, model, tmp_path / arm, sandbox_level), model.requests)
    (result, *_), (request,) = seen["truncated"]
    assert (request.role, [usage.calls for usage in result.usage]) == ("direct", [1])
    assert FACT in request.messages[-1].content
    assert "The mast is tall" not in request.messages[-1].content
    _, (request,) = seen["bm25-1"]
    assert FACT in request.messages[-1].content
    assert len(request.messages[-1].content) < 4_000
    _, requests = seen["map-reduce"]
    assert [one.role for one in requests][-1] == "direct"
    assert [one.role for one in requests].count("child") > 1


async def test_a_text_that_fits_no_prompt_scores_nothing_and_asks_nobody(
    block, tmp_path, sandbox_level
) -> None:
    model = scripted(block, ModelWindow(12_000, 2_000))
    with pytest.raises(TooLong, match="tokens of text"):
        await play("direct", model, tmp_path, sandbox_level)
    assert model.requests == []


async def test_a_killed_run_is_resumed_by_its_name(block, tmp_path, sandbox_level) -> None:
    """A run that was stopped between two rounds keeps the round that it has paid for."""
    reached = asyncio.Event()

    async def second(_):
        reached.set()
        await asyncio.sleep(600)

    model = ScriptedModel.of(root=[block("x = 940\nprint(peek(0, 9))"), second])
    running = asyncio.create_task(play("code", model, tmp_path, sandbox_level))
    await asyncio.wait_for(reached.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    rest = ScriptedModel.of(root=[block(f"finalize(str(x), evidence=[{FACT!r}])")])
    result, said, _ = await play("code", rest, tmp_path, sandbox_level)
    assert (said, result.rounds, len(rest.requests)) == ("940", 2, 1)


async def test_code_without_children_cannot_ask_any(block, tmp_path, sandbox_level) -> None:
    cells = iter(["try:\n    sub_query('?')\nexcept Exception as error:\n    print(error)", "finalize('x')"])
    model = ScriptedModel.of(root=lambda _: block(next(cells, "finalize('x', evidence=[])")), child="940")
    await play("code", model, tmp_path, sandbox_level)
    assert {one.role for one in model.requests} == {"root"}


def test_depths_differ_in_their_depth_alone() -> None:
    for depth in (0, 1, 2, 3):
        arm = find_arm(f"depth-{depth}")
        assert arm.limits(Limits()) == replace(Limits(), max_depth=depth)
        assert arm.settings(Settings()) == replace(Settings(), strategy="rlm")


async def test_an_answer_that_our_gate_withholds_is_scored(tmp_path, sandbox_level) -> None:
    """A single call is judged by what it said, and not by whether its quotes are verified."""
    model = ScriptedModel.of(direct=['940\nEvidence:\n"The crane is expensive."'])
    result, said, points = await play("truncated", model, tmp_path, sandbox_level)
    assert (result.stop_reason, said, points) == ("unverified", "940", 1.0)
    assert not result.citations


@pytest.mark.parametrize("name", ["depth-9", "attempts-1", "bm25-0", "depth", "plan", "DIRECT"])
def test_unknown_arms_are_refused(name) -> None:
    with pytest.raises(UsageError, match=r"the arms are|out of range"):
        find_arm(name)
