"""Test the cost of failed attempts."""

from __future__ import annotations

import pytest

from rlm.errors import ModelUnavailable
from rlm.models.base import Message, Request
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
