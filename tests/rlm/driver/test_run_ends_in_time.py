"""Test that a run ends near its seconds when the provider asks to wait for an hour."""

from __future__ import annotations

import asyncio
import time

from rlm import Limits

HOUR = {"retry-after": "3600"}


async def test_a_root_that_is_rate_limited_ends_with_its_seconds(run, provider_server, providers) -> None:
    """The last round does not wait out its two minutes: a short run gets a short one."""
    provider_server.always = providers.Status(429, headers=HOUR)
    began = time.monotonic()
    result = await run(f"openai:m@{provider_server.url}/v1", limits=Limits(max_seconds=2))
    assert (result.answer, result.stop_reason) == (None, "time")
    assert time.monotonic() - began < 2 + 3 + 3


async def test_children_that_are_rate_limited_end_with_the_runs_seconds(
    run, block, provider_server, providers
) -> None:
    """The pause of the endpoint holds for the root's last round, too."""

    def reply(received):
        if "careful reader" in received.system:
            return providers.Status(429, headers=HOUR)
        return block("b = sub_query_batch('q', [(0, 3), (4, 7)])\nprint(b.failed)")

    provider_server.always = reply
    began = time.monotonic()
    result = await run(f"openai:m@{provider_server.url}/v1", limits=Limits(max_seconds=3))
    assert (result.answer, result.stop_reason) == (None, "time")
    assert time.monotonic() - began < 3 + 3 + 3


async def test_the_last_round_of_another_limit_may_use_the_time_that_is_left(run, block) -> None:
    from rlm.testing import ScriptedModel

    async def reply(request):
        await asyncio.sleep(4 if request.final else 0)
        return block("peek(0, 1)\nx = 1" if not request.final else "finalize(x)")

    result = await run(ScriptedModel.of(root=reply), limits=Limits(max_rounds=2, max_seconds=15))
    assert (result.answer, result.forced) == (1, True)
