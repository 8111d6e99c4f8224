"""Test that a batch costs the driver no time before it is known that it can be sent."""

from __future__ import annotations

import asyncio
import re
import time

from rlm import Limits
from rlm.testing import ScriptedModel

# As hostile code sends it: the helpers of a cell are not asked.
RAW = """
import json, time
sub_query('known', (0, 3))
properties = {f'p{n:03}': {'type': 'string', 'title': 't'} for n in range(380)}
batch = {'prompts': ['q'] * COUNT, 'slices': [None] * COUNT, 'sample': 0, 'numbered': False, 'chunked': False,
         'schema': {'type': 'object', 'properties': properties}}
began = time.monotonic()
try:
    helpers._channel.call('children', batch)
except Exception as error:
    peek(0, 1)
    finalize([str(error), time.monotonic() - began])
"""


async def test_a_batch_beyond_the_limit_of_a_call_is_refused_at_once(run, block) -> None:
    """It kept the driver busy for more than an hour, and no signal ended it."""
    model = ScriptedModel.of(root=[block(RAW.replace("COUNT", "60_000"))], child="x")
    result = await run(model, "one two three")
    reason, seconds = result.answer
    assert "60,000 children in one call are over the limit of 10,000" in reason
    assert seconds < 5
    assert result.sub_calls == 1


async def test_a_batch_beyond_the_calls_left_is_not_looked_into(run, block) -> None:
    """The answer says how many calls are left."""
    model = ScriptedModel.of(root=[block(RAW.replace("COUNT", "9_000"))], child="x")
    result = await run(model, "one two three", limits=Limits(max_calls=10))
    reason, seconds = result.answer
    assert "You asked for 9,000 children, but only 9 child calls are left" in reason
    assert seconds < 5


async def test_a_block_that_waits_for_its_children_ends_with_the_run(run, block) -> None:
    """The clock of the block stands still meanwhile; the run's does not."""

    async def never(_request) -> str:
        await asyncio.sleep(60)
        return "late"

    class Slow(ScriptedModel):
        async def generate(self, request):
            if request.role == "child":
                await never(request)
            return await super().generate(request)

    model = Slow.of(root=block("sub_query('q', (0, 3))"), child="x")
    began = time.monotonic()
    result = await run(model, "one two three", limits=Limits(max_seconds=3.0, cell_seconds=1.0))
    assert result.stop_reason == "time"
    assert time.monotonic() - began < 15


BODY = "".join(f"Record {n}: the value is {n * 7}.\n" for n in range(20_000))


async def test_a_thousand_short_spans_are_one_slice(run, block) -> None:
    code = "finalize(str(sub_query('q', [(50 * n, 50 * n + 1) for n in range(1000)])))"
    model = ScriptedModel.of(root=[block(code)], child="fine")
    assert (await run(model, BODY)).answer == "fine"


async def test_more_than_fit_are_refused_with_a_number_that_fits(run, block) -> None:
    """Nothing is sent, and the root can do what the error says."""
    many = "[(50 * n, 50 * n + 1) for n in range({count})]"
    model = ScriptedModel.of(
        root=lambda request: block(
            f"sub_query('q', {many.format(count=9_000)})"
            if request.round == 1
            else f"finalize(str(sub_query('q', {many.format(count=fitting(request))})))"
        ),
        child="fine",
    )
    result = await run(model, BODY)
    assert (result.answer, result.sub_calls) == ("fine", 1)


def fitting(request) -> int:
    said = request.messages[-1].content
    assert "SliceTooLarge" in said
    return int(re.search(r"give at most ([\d,]+) such pieces", said)[1].replace(",", ""))


async def test_a_prompt_that_is_too_long_is_told_without_a_limit_to_raise(run, block) -> None:
    model = ScriptedModel.of(
        root=[block("sub_query('word ' * 50_000, (0, 9))"), block("peek(0, 1)\nfinalize('no')")],
        child="never",
    )
    result = await run(model, BODY)
    said = model.requests[-1].messages[-1].content
    assert result.sub_calls == 0
    assert "Shorten it, or give its text as a slice" in said
    assert "raise child" not in said
    assert "raise limits" not in said
