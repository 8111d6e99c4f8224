"""Test that a batch costs the driver no time before it is known that it can be sent."""

from __future__ import annotations

import asyncio
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
