"""Events as they happen. `async for event in rlm.stream(task, context=ctx)`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from rlm import RLM, Settings
from rlm.errors import UsageError
from rlm.events import CellEnded, CellStarted, RoundStarted, RunFinished, RunStarted
from rlm.testing import ScriptedModel

SETTINGS = Settings(strategy="rlm")


@pytest.fixture
def settings(sandbox_level, tmp_path):
    return replace(SETTINGS, sandbox=sandbox_level, store=tmp_path / "rlm.db")


async def test_events_come_as_they_happen_and_the_result_last(settings, block) -> None:
    rlm = RLM(ScriptedModel.of(root=[block("x = peek(0, 3)"), block("finalize(x)")]), settings=settings)
    events = [event async for event in rlm.stream("What?", "one two three")]
    assert isinstance(events[-1], RunFinished)
    assert events[-1].result.answer == "one"
    kinds = [type(event) for event in events if isinstance(event, RoundStarted | CellStarted | CellEnded)]
    assert kinds == [RoundStarted, CellStarted, CellEnded] * 2


async def test_closing_the_stream_cancels_the_run(settings, block) -> None:
    """No task or kernel is left."""
    asked, cancelled = asyncio.Event(), asyncio.Event()

    async def never(request: object) -> str:
        asked.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    rlm = RLM(ScriptedModel.of(root=never), settings=settings)
    async with aclosing(rlm.stream("What?", "one two three")) as events:
        async for event in events:
            if isinstance(event, RoundStarted):
                await asyncio.wait_for(asked.wait(), 5)
                break
    await asyncio.wait_for(cancelled.wait(), 5)


async def test_the_stream_raises_the_error_of_its_run(settings) -> None:
    rlm = RLM(ScriptedModel.of(), settings=settings)
    with pytest.raises(UsageError, match="question is empty"):
        async for _ in rlm.stream(" ", "one"):
            pass


async def test_two_streams_of_one_object_are_separate(settings, block) -> None:
    rlm = RLM(ScriptedModel.of(root=lambda request: block("finalize(peek(0, 3))")), settings=settings)

    async def ids(text: str) -> tuple[set[str], str]:
        events = [event async for event in rlm.stream("What?", text)]
        assert isinstance(events[-1], RunFinished)
        started = {event.run_id for event in events if isinstance(event, RunStarted)}
        return started, events[-1].result.run_id

    for started, run_id in await asyncio.gather(ids("one"), ids("two")):
        assert started == {run_id}
