"""Test the cost of failed attempts."""

from __future__ import annotations

import pytest

from rlm.errors import ModelUnavailable
from rlm.models.base import Message, Request, TokenUsage
from rlm.models.catalog.info import price
from rlm.models.options import RetryPolicy

REQUEST = Request("child", (Message("user", "hello"),), 100, "task")
POLICY = RetryPolicy(attempts=2, base=0.0)


async def test_an_attempt_that_broke_off_in_mid_stream_is_counted(make_model, provider_server, providers):
    """The provider charges the prompt of a reply that it never finished."""
    model = make_model(provider_server.url, retry=POLICY)
    provider_server.play(providers.StreamError())
    whole = await model.generate(REQUEST)
    assert whole.text == "ok"
    again = await model.generate(REQUEST)
    assert whole.usage.input_tokens > again.usage.input_tokens == 10


async def test_a_call_that_never_succeeds_tells_what_it_cost(make_model, provider_server, providers):
    model = make_model(provider_server.url, retry=POLICY)
    provider_server.play(providers.StreamError(), providers.StreamError())
    with pytest.raises(ModelUnavailable) as failed:
        await model.generate(REQUEST)
    assert failed.value.spent is not None
    assert failed.value.spent.input_tokens > 0


async def test_an_attempt_that_was_refused_at_once_costs_nothing(make_model, provider_server, providers):
    model = make_model(provider_server.url, retry=POLICY)
    provider_server.play(providers.Status(500), providers.Status(500))
    with pytest.raises(ModelUnavailable) as failed:
        await model.generate(REQUEST)
    assert failed.value.spent is None


def test_writing_to_a_cache_has_its_own_price():
    """Anthropic charges a quarter more for writing to its cache, twice as much for keeping it an hour, and a
    tenth for reading from it."""
    name = "anthropic:claude-sonnet-4-5"
    plain = price(name, TokenUsage(input_tokens=1_000))
    written = price(name, TokenUsage(input_tokens=1_000, cache_write_tokens=1_000))
    read = price(name, TokenUsage(input_tokens=1_000, cached_tokens=1_000))
    kept = price(name, TokenUsage(input_tokens=1_000, cache_write_tokens=1_000, cache_write_1h_tokens=1_000))
    assert plain is not None
    assert kept == pytest.approx(2 * plain)
    assert written == pytest.approx(1.25 * plain)
    assert read == pytest.approx(0.1 * plain)


async def test_anthropic_tells_what_it_wrote_to_its_cache(provider_server, providers):
    from rlm.models.http.endpoint import Endpoint
    from rlm.models.providers.anthropic import AnthropicModel

    model = AnthropicModel("m", Endpoint(provider_server.url, "key", "ANTHROPIC_API_KEY"))
    provider_server.play(providers.Answer(usage=(10, 5, 4)))
    try:
        usage = (await model.generate(REQUEST)).usage
    finally:
        await model.aclose()
    assert usage == TokenUsage(input_tokens=10, output_tokens=5, cached_tokens=2, cache_write_tokens=2)
