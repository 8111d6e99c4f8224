"""Test answers that are paid for once: within a run, and across runs with `cache`."""

from __future__ import annotations

import asyncio

from rlm import Settings
from rlm.children.child_calls import SharedAnswers, share_answer
from rlm.errors import JournalError
from rlm.journal import Journal
from rlm.models.call_settings import CallSettings
from rlm.sandbox.types import ChildAnswer
from rlm.testing import ScriptedModel

CACHING = Settings(strategy="rlm", cache=True)


def asker(block, *calls: str) -> list[str]:
    return [block(f"said = [{', '.join(calls)}]\nfinalize([[str(one), one.cached] for one in said])")]


def child_requests(model: ScriptedModel) -> int:
    return sum(request.role == "child" for request in model.requests)


async def test_identical_calls_of_a_run_are_answered_once(run, block) -> None:
    """The key is model, parameters and prompt. A sample is another call."""
    calls = ["sub_query('q', (0, 3))"] * 2 + ["sub_query('q', (0, 3), sample=1)", "sub_query('q', (0, 7))"]
    answers = iter("abc")
    model = ScriptedModel.of(root=asker(block, *calls), child=lambda _: next(answers))
    result = await run(model)
    assert result.answer == [["a", False], ["a", True], ["b", False], ["c", False]]
    assert child_requests(model) == 3


async def test_the_cache_keeps_answers_across_runs(run, block) -> None:
    """The option is --cache. Without it every run asks anew."""
    calls = ["sub_query('q', (0, 3))", "sub_query('r', (0, 3))"]
    first = await run(ScriptedModel.of(root=asker(block, calls[0]), child="first"))
    anew = ScriptedModel.of(root=asker(block, *calls), child="second")
    assert (await run(anew)).answer == [["second", False], ["second", False]]
    cached = ScriptedModel.of(root=asker(block, calls[0]), child="third")
    result = await run(cached, settings=CACHING)
    assert result.answer == [["second", True]]
    assert (child_requests(cached), result.sub_calls) == (0, 0)
    assert result.coverage.answered_chars == 3
    assert first.answer == [["first", False]]


async def test_the_cache_knows_the_model_and_forgets_removed_runs(run, block) -> None:
    call = "sub_query('q', (0, 3))"
    first = await run(ScriptedModel.of(root=asker(block, call), child="first"))
    other = ScriptedModel.of(root=asker(block, call), child="other")
    other._name = "scripted:other"
    assert (await run(other, settings=CACHING)).answer == [["other", False]]
    async with Journal.open(run.store) as journal:
        await journal.remove(first.run_id)
    later = ScriptedModel.of(root=asker(block, call), child="later")
    assert (await run(later, settings=CACHING)).answer == [["later", False]]


async def test_an_answer_is_cached_with_the_settings_of_its_model(run, block) -> None:
    """A model that was told to think harder, or has another temperature, may answer something else."""
    call = "sub_query('q', (0, 3))"

    async def ask(effort: str, reply: str) -> list[list[object]]:
        model = ScriptedModel.of(root=asker(block, call), child=reply)
        model.calls = CallSettings(effort=effort, headers={"X-Key": reply})
        return (await run(model, settings=CACHING)).answer

    assert await ask("low", "first") == [["first", False]]
    assert await ask("high", "second") == [["second", False]]
    assert await ask("low", "third") == [["first", True]]
    assert await ask("low", "fourth") == [["first", True]]


async def test_a_failure_is_not_cached(run, block) -> None:
    """A truncated answer is asked again, in a run and across runs. Each is asked for its rest twice."""
    from rlm.models.base import Reply

    cut = ScriptedModel.of(
        root=[block("a = sub_query_batch('q', [(0, 3)] * 2)\nfinalize([one.error for one in a])")],
        child=lambda _: Reply("cut", finish_reason="length"),
    )
    assert (await run(cut)).answer == ["the reply was cut by the output limit"] * 2
    assert child_requests(cut) == 2 * 3
    whole = ScriptedModel.of(root=asker(block, "sub_query('q', (0, 3))"), child="whole")
    assert (await run(whole, settings=CACHING)).answer == [["whole", False]]


async def test_a_cached_answer_is_journalled_with_the_run_that_took_it(run, block) -> None:
    from rlm.replay import replay

    call = "sub_query('q', (0, 3))"
    first = await run(ScriptedModel.of(root=asker(block, call), child="first"))
    second = await run(ScriptedModel.of(root=asker(block, call)), settings=CACHING)
    async with Journal.open(run.store) as journal:
        await journal.remove(first.run_id)
    again = await replay(second.run_id, store=run.store, settings=Settings(sandbox=run.level))
    assert again.equal
    assert again.result.answer == [["first", True]]


class Asked:
    """Counts how often it was asked, and how often it was stopped."""

    def __init__(self, *ends: ChildAnswer | Exception) -> None:
        self.times = self.stopped = 0
        self._ends = list(ends)
        self.may_end = asyncio.Event()

    async def __call__(self) -> ChildAnswer:
        self.times += 1
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        end = self._ends.pop(0)
        if isinstance(end, Exception):
            raise end
        return end


async def begun(known: SharedAnswers, ask: Asked, count: int) -> list[asyncio.Task[ChildAnswer]]:
    tasks = [asyncio.create_task(share_answer(known, "key", ask)) for _ in range(count)]
    await asyncio.sleep(0.01)
    return tasks


async def test_a_caller_that_is_cancelled_takes_no_answer_from_the_others() -> None:
    """The call ends with its caller, and the next one makes it again. One that only waits stops nothing."""
    known: SharedAnswers = {}
    ask = Asked(ChildAnswer("yes", input_tokens=9))
    first, second, third = await begun(known, ask, 3)
    third.cancel()
    first.cancel()
    await asyncio.wait([first, third])
    await asyncio.sleep(0.01)
    assert (ask.times, ask.stopped) == (2, 1)
    ask.may_end.set()
    assert await second == ChildAnswer("yes", input_tokens=9)
    assert await share_answer(known, "key", ask) == ChildAnswer("yes", cached=True)
    assert (ask.times, ask.stopped) == (2, 1)


async def test_forgotten_calls_in_flight_answer_their_callers_alone() -> None:
    known: SharedAnswers = {}
    ask = Asked(ChildAnswer("old"), ChildAnswer("new"))
    callers = await begun(known, ask, 2)
    known.clear()
    callers += await begun(known, ask, 1)
    ask.may_end.set()
    assert [(one.text, one.cached) for one in await asyncio.gather(*callers)] == [
        ("old", False),
        ("old", True),
        ("new", False),
    ]
    assert await share_answer(known, "key", ask) == ChildAnswer("new", cached=True)


async def test_a_call_that_failed_for_another_is_asked_again() -> None:
    """One caller at a time tries until one succeeds. An exception goes to the caller that made the call."""
    failed = ChildAnswer("", error="away", error_type="model", found=False)
    known: SharedAnswers = {}
    ask = Asked(failed, JournalError("full"), ChildAnswer("yes"))
    tasks = await begun(known, ask, 4)
    ask.may_end.set()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(ends[1], JournalError)
    assert [(one.text, one.cached) for one in (ends[0], *ends[2:])] == [
        ("", False),
        ("yes", False),
        ("yes", True),
    ]
    assert (ask.times, list(known)) == (3, ["key"])
