"""Test that every provider of the registry survives what servers do at their worst."""

from __future__ import annotations

import asyncio
import time

import pytest
from conformance_models import VARIANTS, is_first_of_its_class, protocol_of

from rlm.errors import ModelError, ModelProtocolError, ModelUnavailable
from rlm.models.base import Message, Request, TokenUsage
from rlm.models.options import RetryPolicy

REQUEST = Request("child", (Message("user", "hello"),), 1000, "task")


@pytest.fixture(params=filter(is_first_of_its_class, VARIANTS))
def variant(request) -> str:
    return request.param


async def test_a_storm_of_rate_limits_is_ridden_out(make_provider, provider_server, providers, variant):
    """Forty calls at once meet a server that refuses nearly half. All are answered, and no token is counted
    twice."""
    asked = 0

    def answer(received):
        nonlocal asked
        asked += 1
        if asked % 3 == 0:
            return providers.Status(429, "slow down", "rate_limit_error", {"retry-after-ms": "5"})
        if asked % 7 == 0:
            return providers.Status(529 if asked % 2 else 503, "Overloaded", "overloaded_error")
        return providers.Answer("ok", usage=(11, 3, 0))

    provider_server.always = answer
    patient = RetryPolicy(attempts=30, base=0.002, cap=0.02, retry_after_cap=0.01)
    model = make_provider(variant, provider_server.url, retry=patient, concurrency=8)
    replies = await asyncio.gather(*(model.generate(REQUEST) for _ in range(40)))
    assert {reply.text for reply in replies} == {"ok"}
    assert sum((reply.usage for reply in replies), TokenUsage()) == TokenUsage(40 * 11, 40 * 3)


async def test_a_dropped_stream_is_asked_for_again(make_provider, provider_server, providers, variant):
    """After a reset, an end of the connection, and a polite end too soon. A whole reply whose connection is
    cut after it is kept."""
    provider_server.play(
        providers.Dropped(reset=True),
        providers.Dropped(),
        providers.Dropped(politely=True),
        providers.Answer("whole", ended=False),
    )
    patient = RetryPolicy(attempts=5, base=0.001, cap=0.002)
    reply = await make_provider(variant, provider_server.url, retry=patient).generate(REQUEST)
    assert (reply.text, reply.finish_reason) == ("whole", "stop")
    assert len(provider_server.requests) == 4


async def test_a_slow_first_byte_is_waited_for_and_silence_is_not(
    make_provider, provider_server, providers, variant
):
    provider_server.play(providers.Answer("late", delay=0.4))
    patient = make_provider(variant, provider_server.url, idle_seconds=30.0)
    assert (await patient.generate(REQUEST)).text == "late"
    provider_server.always = providers.Silence()
    hasty = make_provider(variant, provider_server.url, idle_seconds=0.3)
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match="fell silent"):
        await hasty.generate(REQUEST)
    assert time.monotonic() - began < 20


async def test_a_huge_reply_is_cut_and_paid_for(make_provider, provider_server, providers, variant):
    """A server that ignores the output limit cannot fill the memory."""
    provider_server.always = providers.Answer("x" * 300_000, piece=5_000)
    reply = await make_provider(variant, provider_server.url).generate(REQUEST)
    assert reply.finish_reason == "length"
    assert len(reply.text) < 100_000


async def test_an_endless_event_is_no_reply(make_provider, provider_server, providers, variant):
    kind = "application/x-ndjson" if protocol_of(variant) == "ollama" else "text/event-stream"
    provider_server.always = providers.Raw(b"data: " + b"x" * (6 * 2**20), kind)
    with pytest.raises(ModelProtocolError, match="more than a reply holds"):
        await make_provider(variant, provider_server.url).generate(REQUEST)


async def test_a_call_that_is_cancelled_hangs_up(make_provider, provider_server, providers, variant):
    provider_server.always = providers.Silence()
    model = make_provider(variant, provider_server.url)
    call = asyncio.create_task(model.generate(REQUEST))
    while not provider_server.requests:
        await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(provider_server.hung_up.wait, 10)


async def test_no_error_of_any_status_names_the_key(make_provider, provider_server, providers, variant):
    key = "sk-PLANTED-key-0123456789"
    model = make_provider(variant, provider_server.url, key=key, retry=RetryPolicy(attempts=1))
    for code in (400, 401, 403, 404, 409, 413, 418, 422, 429, 500, 502, 529):
        provider_server.always = providers.Status(code, f"no, {key} (Bearer {key})", f"kind_{key}")
        with pytest.raises(ModelError) as caught:
            await model.generate(REQUEST)
        assert key not in f"{caught.value!r}{caught.value.__cause__!r}{caught.value.__context__!r}"
