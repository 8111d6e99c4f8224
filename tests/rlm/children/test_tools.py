"""Test functions of the host that cells call."""

from __future__ import annotations

import asyncio
import threading
from datetime import date
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.errors import UsageError
from rlm.events import ToolEnded
from rlm.journal import Journal
from rlm.replay import replay
from rlm.testing import ScriptedModel


def price(item: str, count: int = 1) -> float:
    """What so many of an item cost.

    This line is not told.
    """
    return {"nut": 0.5, "bolt": 2.0}[item] * count


async def days(start: date, end: date) -> int:
    """Days between two dates."""
    await asyncio.sleep(0)
    return (end - start).days


async def ask(run, block, tools, *codes: str, **options: Any):
    """Return the answer of a run of these cells, one a round."""
    model = ScriptedModel.of(root=[block(code) for code in codes])
    return (await run(model, tools=tools, **options)).answer, model


async def test_sync_and_async_functions_are_called_from_cells(run, block) -> None:
    """The driver runs the functions."""
    code = """
peek(0, 1)
finalize([price('nut', count=3), days('2026-01-01', '2026-03-01'), helpers.price('bolt')])"""
    answer, _ = await ask(run, block, [price, days], code)
    assert answer == [1.5, 59, 2.0]
    assert [event.name for event in run.seen(ToolEnded)] == ["price", "days", "price"]


async def test_the_root_sees_name_signature_and_first_line(run, block) -> None:
    _, model = await ask(run, block, [price, days], "peek(0, 1)\nfinalize(price.__doc__)")
    system = model.requests[0].messages[0].content
    assert "- `price(item: str, count: int = 1) -> float`: What so many of an item cost.\n" in system
    assert "- `days(start: datetime.date, end: datetime.date) -> int`: Days between two dates." in system
    assert "not told" not in system
    _, without = await ask(run, block, [], "peek(0, 1)\nfinalize(1)")
    assert "ToolError" not in without.requests[0].messages[0].content


def sql(query: str) -> str:
    """What the database of the host says."""
    return f"host: {query}"


async def test_a_tool_takes_the_place_of_a_helper_that_yields(run, block) -> None:
    """The root is told of the tool and not of the helper. The other helpers stay."""
    code = "peek(0, 1)\nfinalize([sql('select 1'), [one.name for one in tables()]])"
    answer, model = await ask(run, block, [sql], code)
    assert answer == ["host: select 1", []]
    system = model.requests[0].messages[0].content
    assert "- `sql(query: str) -> str`: What the database of the host says.\n" in system
    assert system.count("`sql(") == 1


async def test_a_failing_tool_is_a_tool_error_in_the_cell(run, block, monkeypatch) -> None:
    """The text is bounded and redacted, in the error and in the value. The cell continues."""
    monkeypatch.setenv("SOME_API_KEY", "sk-planted-0123456789")

    def leak() -> str:
        """Gives what it must not."""
        return "the key is sk-planted-0123456789"

    def fail() -> None:
        """Fails at length."""
        raise RuntimeError("x" * 1_960 + " sk-planted-0123456789 " + "y" * 9_000)

    code = """
peek(0, 1)
try:
    fail()
except ToolError as error:
    said = str(error)
finalize([said, leak()])"""
    (message, leaked), _ = await ask(run, block, [fail, leak], code)
    assert message.startswith("fail() failed: RuntimeError: xxx")
    assert len(message) <= 2_001
    assert "sk-pl" not in message
    assert leaked == "the key is [redacted]"
    assert b"sk-planted" not in run.store.read_bytes()


async def test_a_tool_that_takes_too_long_is_ended_and_its_cell_continues(run, block) -> None:
    """The timeout holds for sync and async functions."""
    ended = threading.Event()

    def sleep() -> None:
        """Sleeps."""
        ended.wait(30)

    async def never() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    code = """
peek(0, 1)
said = []
for tool in (sleep, never):
    try:
        tool()
    except ToolError as error:
        said.append(str(error))
finalize(said)"""
    settings = Settings(strategy="rlm", tool_seconds=0.3)
    try:
        answer, _ = await ask(run, block, [sleep, never], code, settings=settings)
    finally:
        ended.set()
    assert answer == ["sleep() gave no result within 0.3 s", "never() gave no result within 0.3 s"]


async def test_the_cells_clock_stands_still_while_a_tool_runs(run, block) -> None:

    async def slow() -> int:
        """Takes longer than a cell may compute."""
        await asyncio.sleep(1.5)
        return 7

    code = "peek(0, 1)\nfinalize(slow())"
    answer, _ = await ask(run, block, [slow], code, limits=Limits(cell_seconds=1.0))
    assert answer == 7


async def test_cancelling_a_run_cancels_its_tools(run, block) -> None:
    """Nothing is orphaned."""
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        """Waits."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    running = asyncio.ensure_future(ask(run, block, [wait], "wait()"))
    await asyncio.wait_for(begun.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cancelled.is_set()


async def test_tools_are_there_for_sub_rlms(run, block) -> None:
    codes = {
        "How many?": "finalize(str(sub_rlm('inner', (0, 3))))",
        "inner": "peek(0, 1)\nfinalize(price('nut'))",
    }
    model = ScriptedModel.of(root=lambda request: block(codes[request.task]))
    assert (await run(model, tools=[price])).answer == "0.5"
    assert "price(item" in model.requests[1].messages[0].content


async def test_what_a_tool_gave_is_in_the_journal_and_a_replay_does_not_run_it(run, block) -> None:
    """Each result is an event. The replay is offline and needs no function."""
    counts = iter(range(100))

    def tick() -> int:
        """Counts."""
        return next(counts)

    model = ScriptedModel.of(
        root=[block("a = [tick(), tick()]\nprice('nut')"), block("peek(0, 1)\nfinalize([a, tick()])")]
    )
    result = await run(model, tools=[tick, price])
    assert result.answer == [[0, 1], 2]
    async with Journal.open(run.store) as journal:
        events = [event.data for event in await journal.events(result.run_id) if event.kind == "tool"]
    kept = [(event["round"], event["tool"], event["value"]) for event in events]
    assert kept == [(1, "tick", 0), (1, "tick", 1), (1, "price", 0.5), (2, "tick", 2)]
    again = await replay(result.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert again.equal
    assert again.result.warnings == result.warnings
    assert next(counts) == 3


async def test_a_tool_is_not_run_again_when_its_kernel_dies(run, block) -> None:
    """A tool is run once, even in the cell that ended its kernel."""
    calls = []

    def send(text: str) -> int:
        """Sends."""
        calls.append(text)
        return len(calls)

    die = "import os\nb = send('b')\nos._exit(1)"
    answer, _ = await ask(run, block, [send], "a = send('a')", die, "peek(0, 1)\nfinalize([a, send('c')])")
    assert answer == [1, 3]
    assert calls == ["a", "b", "c"]


async def test_a_resumed_run_needs_its_tools_and_does_not_repeat_them(run, block) -> None:
    """Journalled calls are not run again. Without the functions the run is refused."""
    calls = []
    reached = asyncio.Event()

    def send(text: str) -> int:
        """Sends."""
        calls.append(text)
        return len(calls)

    async def stop(_request: object) -> str:
        reached.set()
        await asyncio.Event().wait()
        return ""

    running = asyncio.ensure_future(run(ScriptedModel.of(root=[block("a = send('a')"), stop]), tools=[send]))
    await asyncio.wait_for(reached.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with Journal.open(run.store) as journal:
        (summary,) = await journal.runs()
    settings = Settings(sandbox=run.level, store=run.store)
    model = ScriptedModel.of(root=[block("peek(0, 1)\nfinalize([a, send('b')])")])
    with pytest.raises(UsageError, match=r"tools that are missing or changed: send"):
        await RLM(model, settings=settings).resume(summary.run_id)
    result = await RLM(model, settings=settings, tools=[send]).resume(summary.run_id)
    assert result.answer == [1, 2]
    assert calls == ["a", "b"]


async def test_calls_in_a_round_and_what_they_give_in_a_run_are_bounded(run, block, monkeypatch) -> None:
    """The journal keeps it all."""
    monkeypatch.setattr("rlm.children.tool_calls.MAX_CALLS", 3)
    monkeypatch.setattr("rlm.children.tool_calls.MAX_BYTES", 2**20)

    def give(size: int) -> str:
        """Gives so much."""
        return "x" * size

    first = """
def attempt(size):
    try:
        return len(give(size))
    except ToolError as error:
        return str(error)
calls = [attempt(1) for _ in range(4)]"""
    second = "peek(0, 1)\nfinalize([calls, [attempt(600_000) for _ in range(3)]])"
    (calls, sizes), _ = await ask(run, block, [give], first, second)
    assert calls == [1, 1, 1, "3 calls of tools in one block are the limit; continue in the next block"]
    assert sizes == [600_000, 600_000, "tools have returned 1 MB in this run, which is the limit"]


async def test_a_tool_ends_with_the_time_of_its_run(run, block) -> None:
    """Even if the tool's own timeout is longer."""

    async def never() -> None:
        """Never ends."""
        await asyncio.Event().wait()

    code = "peek(0, 1)\nsaid = ''\ntry:\n    never()\nexcept ToolError as error:\n    said = str(error)"
    limits = Limits(max_seconds=8)
    answer, _ = await ask(run, block, [never], code, "finalize(said)", limits=limits)
    assert "the run's 8 seconds are used up" in answer
