"""Test the slots that the batches of a tree share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rlm import Limits
from rlm.accounting.budget import Budget
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import MeteredModel
from rlm.accounting.run_context import ConcurrencyLimits, RunContext
from rlm.children.child_calls import ChildCalls
from rlm.children.sub_models import ChildModel, SubModels
from rlm.journal import Journal
from rlm.models.catalog.info import Prices
from rlm.playback.recording import Recording
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.host.compute_clock import ComputeClock, serve_with
from rlm.sandbox.types import ChildAnswer, ChildBatch, ChildSlice, Span
from rlm.settings import ChildSettings
from rlm.testing import ScriptedModel

BATCH = ChildBatch(("q",) * 9, tuple(ChildSlice((Span(n, n + 5),)) for n in range(9)))


async def answer(_request) -> str:
    await asyncio.sleep(0.001)
    return "yes"


@pytest.fixture
async def child_calls(tmp_path: Path) -> AsyncIterator[ChildCalls]:
    """Yield the children of a run with two slots."""
    with ContextFileWriter(tmp_path / "context") as writer:
        writer.begin_document("a.txt")
        writer.write("one two three four five")
        context = writer.finish()
    model = ScriptedModel.of(child=answer)
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "task", {}) as log:
        budget = Budget(Limits())
        metered = MeteredModel(budget, log, Recording(), lambda _: None, Prices({}))
        with context.open() as body:
            run_context = RunContext(
                budget,
                metered,
                CoverageLedger(body.chars),
                log,
                ConcurrencyLimits(2),
                lambda _: None,
            )
            models = SubModels((ChildModel("m", model, 9_000, 900),))
            yield ChildCalls(models, body, run_context=run_context, settings=ChildSettings())


async def test_a_kernel_that_does_not_read_takes_no_slot_from_others(child_calls) -> None:
    """Its own clock runs meanwhile, so that its cell ends in time."""
    may_read, clock = asyncio.Event(), ComputeClock()
    blocked = 0

    async def unread(_position: int, _answer: ChildAnswer) -> None:
        nonlocal blocked
        blocked += 1
        await may_read.wait()

    async def ask_unread() -> list[ChildAnswer]:
        serve_with(clock)
        return await child_calls.ask_all(BATCH, unread)

    waiting = asyncio.ensure_future(ask_unread())
    while blocked < 2:
        await asyncio.sleep(0.01)
    before = clock.seconds
    others = await asyncio.wait_for(child_calls.ask_all(ChildBatch(("w",) * 9, BATCH.slices)), 10)
    assert [one.text for one in others] == ["yes"] * 9
    await asyncio.sleep(0.1)
    assert clock.seconds >= before + 0.1
    assert blocked == 2
    may_read.set()
    assert [one.text for one in await waiting] == ["yes"] * 9


async def test_a_cancelled_batch_gives_all_its_slots_back(child_calls) -> None:
    for _ in range(5):
        asked = asyncio.ensure_future(child_calls.ask_all(BATCH))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([asked])
        assert asked.cancelled()
    assert [one.text for one in await asyncio.wait_for(child_calls.ask_all(BATCH), 10)] == ["yes"] * 9
