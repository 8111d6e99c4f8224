"""Events as they happen. `async for event in rlm.stream(task, context=ctx)`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace

import pytest

from rlm import RLM, Settings
from rlm.errors import UsageError
from rlm.events import (
    CellRun,
    Retrying,
    RoundStarted,
    RunFinished,
    RunStarted,
    TextDelta,
)
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.providers.openai import OpenAIModel
from rlm.runs.event_queue import EventQueue
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
    kinds = [type(event) for event in events if isinstance(event, RoundStarted | CellRun)]
    assert kinds == [RoundStarted, CellRun, CellRun] * 2


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


@pytest.fixture
def direct(provider_server, settings):
    """A runtime whose model is reached over HTTP and answers in one call."""
    model = OpenAIModel(
        "m",
        Endpoint(f"{provider_server.url}/v1", "k", "OPENAI_API_KEY"),
        options=ModelOptions(retry=RetryPolicy(attempts=2, base=0.0)),
    )
    return RLM(model, settings=replace(settings, strategy="direct"))


TEXT = "The crane of the northern yard costs 41,000 euros."
ANSWER = f'It costs 41,000 euros,\nas the offer says.\n\nEvidence:\n- "{TEXT}"'


def shown(events: list[object]) -> list[str]:
    """Return what a reader of the answer's deltas shows after each of them."""
    texts: list[str] = []
    for event in events:
        if isinstance(event, TextDelta) and event.is_answer:
            before = "" if event.restarted or not texts else texts[-1]
            texts.append(before + event.text)
    return texts


async def test_the_answer_comes_while_it_is_written(direct, provider_server, providers) -> None:
    """Without the reasoning before it and the quotes after it."""
    text = f"<think>Let me see: 41,000?</think>\n{ANSWER}"
    provider_server.play(providers.Answer(text, piece=4, step=0.02))
    events = [event async for event in direct.stream("What does it cost?", TEXT)]
    assert events[-1].result.answer == "It costs 41,000 euros,\nas the offer says."
    texts = shown(events)
    assert len(texts) > 3
    assert texts[-1] == events[-1].result.answer
    assert all(texts[-1].startswith(one) for one in texts)
    assert not any(isinstance(event, TextDelta) and event.is_answer and event.restarted for event in events)


async def test_a_dropped_stream_restarts_the_answer(direct, provider_server, providers) -> None:
    provider_server.play(providers.Dropped("It costs nothing at"), providers.Answer(ANSWER))
    events = [event async for event in direct.stream("What does it cost?", TEXT)]
    texts = shown(events)
    # What came before the drop was shown, all of it or its beginning, and then taken back.
    assert "It costs nothing at".startswith(texts[0])
    assert texts[0]
    assert "" in texts
    assert texts[-1] == events[-1].result.answer
    retried = [event for event in events if isinstance(event, Retrying)]
    assert [event.reason for event in retried] == ["dropped"]


async def test_an_answer_that_is_not_accepted_is_withdrawn(direct, provider_server, providers) -> None:
    provider_server.always = 'It costs 7 euros.\n\nEvidence:\n- "It costs 7 euros, all included."'
    events = [event async for event in direct.stream("What does it cost?", TEXT)]
    assert events[-1].result.answer is None
    assert "It costs 7 euros." in shown(events)
    assert shown(events)[-1] == ""


async def test_the_text_can_be_printed_as_it_comes(direct, provider_server, providers) -> None:
    hostile = "It costs \x1b]8;;http://evil\x1b\\41,000\x1b[0m\u202e euros."
    provider_server.play(providers.Answer(f'{hostile}\n\nEvidence:\n- "{TEXT}"', piece=1, step=0.002))
    events = [event async for event in direct.stream("What does it cost?", TEXT)]
    assert shown(events)[-1] == "It costs ]8;;http://evil\\41,000[0m euros."


async def test_roots_and_children_are_told_apart(settings, block) -> None:
    """The code of a root is no answer, and a model that does not stream gives its text at once."""
    code = block("finalize(str(sub_query('what?', peek(0, 3))))")
    model = ScriptedModel.of(root=[code], child=lambda request: "a note")
    events = [event async for event in RLM(model, settings=settings).stream("What?", "one two three")]
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert [(delta.role, delta.text) for delta in deltas] == [("root", code), ("child", "a note")]
    assert len({delta.call for delta in deltas}) == 2
    assert not any(event.is_answer for event in deltas)


async def test_a_slow_reader_gets_fewer_and_longer_pieces() -> None:
    queue = EventQueue()
    for event in (
        TextDelta("a", role="child", call=1),
        TextDelta("b", role="child", call=1),
        TextDelta("c", role="child", call=2),
        TextDelta("d", is_answer=True),
        TextDelta("e", is_answer=True, restarted=True),
        TextDelta("f", is_answer=True),
    ):
        queue.put(event)
    queue.close()
    assert [event async for event in queue] == [
        TextDelta("ab", role="child", call=1),
        TextDelta("c", role="child", call=2),
        TextDelta("ef", is_answer=True, restarted=True),
    ]


async def test_observers_get_no_text_unless_they_ask_for_it(direct, provider_server) -> None:
    provider_server.always = ANSWER
    heard: list[object] = []
    rlm = RLM(direct.model, settings=direct.settings, observe=heard.append)
    await rlm.run("What does it cost?", TEXT)
    assert not shown(heard)
    texts: list[object] = []
    rlm = RLM(direct.model, settings=direct.settings, observe_text=texts.append)
    result = await rlm.run("What does it cost?", TEXT)
    assert shown(texts)[-1] == result.answer
