"""Test that a run ends near its seconds when the provider asks to wait for an hour."""

from __future__ import annotations

import asyncio
import time

import pytest

from rlm import Limits
from rlm.driver import loop
from rlm.testing import ScriptedModel

HOUR = {"retry-after": "3600"}


@pytest.fixture(autouse=True)
def _short_last_round(monkeypatch) -> None:
    monkeypatch.setattr(loop, "LAST_ROUND_MIN_SECONDS", 0.5)


@pytest.mark.parametrize("who", ["root", "children"])
async def test_a_run_that_is_rate_limited_ends_with_its_seconds(
    run, block, provider_server, providers, who
) -> None:
    """The last round does not wait out its two minutes. The pause of the endpoint holds for it, too."""

    def reply(received):
        if who == "root" or "careful reader" in received.system:
            return providers.Status(429, headers=HOUR)
        return block("b = sub_query_batch('q', [(0, 3), (4, 7)])\nprint(b.failed)")

    provider_server.always = reply
    began = time.monotonic()
    result = await run(f"openai:m@{provider_server.url}/v1", limits=Limits(max_seconds=1.5))
    assert (result.answer, result.stop_reason) == (None, "time")
    assert time.monotonic() - began < 1.5 + 0.5 + 3


async def test_the_last_round_of_another_limit_may_use_the_time_that_is_left(run, block) -> None:
    async def reply(request):
        await asyncio.sleep(2 if request.final else 0)
        return block("peek(0, 1)\nx = 1" if not request.final else "finalize(x)")

    result = await run(ScriptedModel.of(root=reply), limits=Limits(max_rounds=2, max_seconds=8))
    assert (result.answer, result.forced) == (1, True)
