"""Test shared clients and their connections: opened on demand, reused, closed."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys

import pytest

from rlm.models.base import Message, Request
from rlm.models.options import ModelOptions
from rlm.models.resolution import resolve


def ask(content: str = "hello") -> Request:
    return Request("child", (Message("user", content),), 100, "task")


def test_nothing_of_http_is_imported_before_the_first_call():
    """It costs time and memory."""
    code = (
        "import sys; from rlm.models import resolve, price, window_of\n"
        "env = {'ANTHROPIC_API_KEY': 'k', 'OPENAI_API_KEY': 'k'}\n"
        "resolve('claude-sonnet-5-5', env); resolve('gpt-5', env)\n"
        "print([m for m in ('anthropic', 'openai', 'httpx2', 'aiohttp', 'tenacity') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


async def test_fifty_calls_share_one_client(make_model, provider_server):
    provider_server.always = lambda received: received.prompt
    model, twin = make_model(provider_server.url), make_model(provider_server.url)
    replies = await asyncio.gather(*((model if n % 2 else twin).generate(ask(str(n))) for n in range(50)))
    assert [reply.text for reply in replies] == [str(n) for n in range(50)]
    # The next calls find connections to reuse.
    before = provider_server.connections
    await asyncio.gather(*(model.generate(ask("again")) for _ in range(50)))
    assert provider_server.connections == before <= ModelOptions().concurrency
    assert (await model._lease.get()) is (await twin._lease.get())


async def test_as_many_calls_as_are_allowed_are_in_flight(make_model, provider_server, providers):
    """Only the limiter limits concurrency."""
    provider_server.always = providers.Silence()
    model = make_model(provider_server.url, concurrency=150)
    calls = [asyncio.create_task(model.generate(ask())) for _ in range(150)]
    async with asyncio.timeout(60):
        while len(provider_server.requests) < 150:
            await asyncio.sleep(0.01)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_client_outlives_all_but_its_last_user(make_model, provider_server):
    first, second = make_model(provider_server.url), make_model(provider_server.url)
    await asyncio.gather(first.generate(ask()), second.generate(ask()))
    shared = await second._lease.get()
    await first.aclose()
    await first.aclose()
    assert not shared._session.closed
    assert (await second.generate(ask())).text == "ok"
    await second.aclose()
    assert shared._session.closed
    # A closed model takes a new client.
    assert (await second.generate(ask())).text == "ok"


def test_one_model_serves_one_event_loop_after_another(provider_server):
    model = resolve(f"openai:m@{provider_server.url}/v1", {})

    async def once():
        reply = await model.generate(ask())
        await model.aclose()
        return reply.text

    assert [asyncio.run(once()) for _ in range(2)] == ["ok", "ok"]


def test_connections_end_with_their_loop_though_nobody_closed_the_model(provider_server, caplog):
    """A model that is never closed causes no warning of unclosed sessions at the exit."""
    model = resolve(f"openai:m@{provider_server.url}/v1", {})

    async def once():
        await model.generate(ask())
        return await model._lease.get()

    assert asyncio.run(once())._session.closed
    gc.collect()
    assert "nclosed" not in caplog.text


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_a_connection_is_used_again_after_a_stream(make_model, provider_server, providers, pause):
    """The end of a chunked answer may come after its last event."""
    model = make_model(provider_server.url)
    provider_server.play(providers.Answer(pause=pause), providers.Answer(pause=pause))
    await model.generate(ask())
    await model.generate(ask())
    assert provider_server.connections == 1


async def test_a_complete_reply_without_an_end_is_accepted(make_model, provider_server, providers):
    """A server or a gateway may keep the connection open after the last event, or break it. The call is
    not paid for again.
    """
    provider_server.play(providers.Answer("all", pause=90), providers.Answer("all", pause=0.1, ended=False))
    model = make_model(provider_server.url, idle_seconds=80)
    async with asyncio.timeout(60):
        assert [(await model.generate(ask())).text for _ in range(2)] == ["all", "all"]
    assert len(provider_server.requests) == 2
