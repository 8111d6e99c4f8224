"""Test the border of a cell: what is recorded, and what a repeated cell gets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.playback.border import MAX_RECORDED, Border, RecordedAnswer, Refusal, read_answers
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.types import (
    ChildAnswer,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    Span,
    ToolCall,
)


class Handler:
    """Answers every call with something new, and counts them."""

    def __init__(self) -> None:
        self.calls = 0
        self.refusal = Refusal("look first", "input", ("nothing was read",), False)

    def count(self) -> int:
        self.calls += 1
        return self.calls

    async def children(self, batch, answered) -> None:
        number = self.count()
        if "too large" in batch.prompts:
            raise BadCall("slice_too_large", f"too large {number}")
        for position, prompt in reversed(list(enumerate(batch.prompts))):
            if prompt == "never":
                await asyncio.Event().wait()
            failed = {"error": "down", "error_type": "model", "found": False} if prompt == "fails" else {}
            text = "" if failed else f"{prompt} {number}"
            await answered(position, ChildAnswer(text, evidence=(Span(0, number),), value=[number], **failed))

    sub_rlms = children

    async def finalize(self, final) -> FinalizeVerdict:
        self.count()
        return FinalizeVerdict(accepted=final.value == "right", reason=self.refusal.reason)

    async def chunk_chars(self) -> int:
        self.count()
        return 20_000

    async def progress(self) -> Progress:
        return Progress(False, {"rounds": {"used": self.count()}}, {}, {})

    async def rank(self, query) -> list[RankedSpan]:
        return [RankedSpan(Span(0, 3), self.count() / 2, ("Title",))]

    async def tool(self, call) -> object:
        if call.name == "breaks":
            raise BadCall("tool", f"broken {self.count()}")
        return {"number": self.count()}


async def ask(border: Border, call: object) -> object:
    """Make a call as a cell does. Return what came of it."""
    got: dict[int, ChildAnswer] = {}

    async def answered(position: int, answer: ChildAnswer) -> None:
        got[position] = answer

    try:
        match call:
            case ChildBatch():
                await border.children(call, answered)
                return got
            case Finalization():
                return await border.finalize(call)
            case RankQuery():
                return await border.rank(call)
            case ToolCall():
                return await border.tool(call)
            case "progress":
                return await border.progress()
            case _:
                return await border.chunk_chars()
    except BadCall as error:
        return (error.type, str(error))


def batch(*prompts: str, sample: int = 0) -> ChildBatch:
    return ChildBatch(prompts, (None,) * len(prompts), sample=sample)


CALLS = st.one_of(
    st.builds(batch, st.sampled_from(["a", "b", "fails", "too large"]), st.sampled_from(["a", "c"])),
    st.builds(Finalization, st.sampled_from(["wrong", 1, None])),
    st.builds(RankQuery, st.sampled_from(["one", "two"]), st.integers(1, 2)),
    st.builds(ToolCall, st.sampled_from(["send", "breaks"]), st.tuples(st.integers(0, 1))),
    st.sampled_from(["progress", "chars"]),
)


@given(st.lists(CALLS, max_size=12))
def test_a_repeated_cell_gets_what_it_got(calls: list[object]) -> None:
    """Through the journal's JSON, whatever it asked, with no call of the handler."""

    async def cell() -> None:
        live = Border(handler := Handler())
        first = [await ask(live, call) for call in calls]
        recorded = [*read_answers(json.loads(json.dumps(live.answers))), *live.tools]
        asked = handler.calls
        again = Border(handler)
        again.repeat(recorded)
        assert [await ask(again, call) for call in calls] == first
        assert (handler.calls, again.diverged) == (asked, False)

    asyncio.run(cell())


async def recorded(*calls: object) -> list[RecordedAnswer]:
    border = Border(Handler())
    for call in calls:
        await ask(border, call)
    return [*read_answers(json.loads(json.dumps(border.answers))), *border.tools]


async def test_a_cell_that_asks_something_else_has_diverged_and_is_answered() -> None:
    border = Border(handler := Handler())
    border.repeat(await recorded(batch("a"), "progress"))
    await ask(border, batch("a"))
    assert not border.diverged
    found = await ask(border, batch("a", sample=1))
    assert border.diverged
    assert (found[0].text, handler.calls) == ("a 1", 1)
    # What it got is recorded anew, what it got before included: it can be repeated once more.
    again = Border(handler)
    again.repeat(read_answers(json.loads(json.dumps(border.answers))))
    assert await ask(again, batch("a")) == await ask(border, batch("a"))
    assert (await ask(again, batch("a", sample=1)))[0].text == "a 1"
    assert (handler.calls, again.diverged) == (1, False)


async def test_without_a_handler_what_is_new_is_refused() -> None:
    """The cells of an earlier question spend nothing."""
    border = Border()
    border.repeat(await recorded(Finalization("right")))
    assert (await ask(border, Finalization("right"))).accepted
    assert await ask(border, batch("a")) == ("value", "no question is being asked now")
    assert border.diverged


async def test_an_accepted_answer_is_judged_again() -> None:
    """Its citations are looked up in the body, and are not taken from the journal."""
    border = Border(handler := Handler())
    border.repeat(await recorded(Finalization("wrong"), Finalization("right")))
    assert not (await ask(border, Finalization("wrong"))).accepted
    assert handler.calls == 0
    assert (await ask(border, Finalization("right"))).accepted
    assert (handler.calls, border.diverged) == (1, False)


async def test_an_interrupted_cell_is_interrupted_where_it_waited() -> None:
    """The answers that had come are there, and nothing is paid for the others."""
    live = Border(Handler())
    running = asyncio.ensure_future(ask(live, batch("never", "came")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    (answer,) = read_answers(json.loads(json.dumps(live.answers)))
    assert [one and one.text for one in answer.value] == [None, "came 1"]
    interrupted = asyncio.Event()

    async def interrupt() -> None:
        interrupted.set()

    border = Border(handler := Handler())
    border.repeat([answer], interrupt)
    again = asyncio.ensure_future(ask(border, batch("never", "came")))
    await asyncio.wait_for(interrupted.wait(), 5)
    assert not again.done()
    again.cancel()
    border.repeat([answer], interrupt)
    interrupted.clear()
    other = asyncio.ensure_future(ask(border, batch("was never asked")))
    await asyncio.wait_for(interrupted.wait(), 5)
    other.cancel()
    assert handler.calls == 0


async def test_the_effects_of_a_tool_happen_once_for_each_call() -> None:
    """A second try of a cell gets the results of the first, and no more of them than there were."""
    border = Border(handler := Handler())
    border.begin(await recorded(ToolCall("send"), ToolCall("send")))
    call = ToolCall("send")
    found = [await ask(border, call) for _ in range(3)]
    assert found == [{"number": 1}, {"number": 2}, {"number": 1}]
    assert (handler.calls, border.diverged, len(border.tools)) == (1, False, 3)


async def test_a_loop_is_recorded_up_to_a_limit() -> None:
    """What is beyond it is no other way: it is the last answer, or is computed again."""
    calls = [*["progress"] * MAX_RECORDED, *["progress", RankQuery("late", 1)]]
    found = await recorded(*calls)
    assert len(found) == MAX_RECORDED + 1  # and that there was more
    border = Border(handler := Handler())
    border.repeat(found)
    again = [await ask(border, call) for call in calls]
    assert again[-2] == again[-3]
    assert (handler.calls, border.diverged) == (1, False)
    assert len(await recorded(*["chars"] * 50)) == 1


@pytest.mark.parametrize("value", [None, 7, {"no": "field"}, [["x"]]])
async def test_an_answer_of_a_strangers_journal_is_refused_in_one_line(value: object) -> None:
    border = Border(Handler())
    await ask(border, "progress")
    await ask(border, RankQuery("one", 1))
    border.repeat([replace(one, value=value) for one in read_answers(border.answers)])
    for call in ("progress", RankQuery("one", 1)):
        assert "is damaged" in (await ask(border, call))[1]


@pytest.mark.parametrize(
    "record",
    [{}, {"call": "a", "refused": ["x"]}, {"call": "a", "children": 1}, {"call": "a", "children": [{"x": 1}]},
     {"call": "a", "refusal": {}}],
)  # fmt: skip
def test_answers_of_another_shape_are_damage(record: dict) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_answers([record])


async def test_answers_that_cost_nothing_do_not_fill_the_journal(monkeypatch) -> None:
    """The same batch is recorded once, other batches of known answers up to a limit, and paid ones always."""
    monkeypatch.setattr("rlm.playback.border.MAX_KNOWN", 3)

    class Known(Handler):
        async def children(self, batch, answered) -> None:
            for position, prompt in enumerate(batch.prompts):
                await answered(position, ChildAnswer(prompt, cached=prompt != "paid"))

    border = Border(Known())
    calls = [batch("a", "a"), batch("a", "a"), batch("b", "b"), batch("c", "c"), batch("paid", "paid")]
    for call in calls:
        await ask(border, call)
    found = read_answers(json.loads(json.dumps(border.answers)))
    assert [one.call for one in found].count("more") == 1
    texts = [[answer.text for answer in one.value] for one in found if one.value]
    assert texts == [["a", "a"], ["paid", "paid"]]
    again = Border(Known())
    again.repeat(found)
    assert [(await ask(again, call))[0].text for call in calls] == ["a", "a", "b", "c", "paid"]
    assert not again.diverged
