"""Test that a server cannot make the driver hold more than a reply needs."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from rlm.errors import ModelError, ModelProtocolError
from rlm.models.base import Message, Request
from rlm.models.http import reply_limits
from rlm.models.http.reply_limits import MAX_COUNT, MAX_EVENT
from rlm.models.options import RetryPolicy

MB = 2**20
REQUEST = Request("child", (Message("user", "hello"),), 100, "task")


def chunk(**delta: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


TOO_MUCH = {
    "a line without end": b"data: " + b"x" * (12 * MB),
    "an event of many lines": b"data: x\n" * (3 * MB // 2),
    "a stream of nothing": b": keep-alive\n\n" * MB,
    "tiny events": b"data: 1\n\n" * MB,
    "an event of many lists": b"data: {" + b'"a":' + b"[" * MB + b"\n\n",
    "an event of many objects": b'data: {"a":[' + b"{}," * MB + b"{}]}\n\n",
}


@pytest.mark.parametrize("body", TOO_MUCH.values(), ids=TOO_MUCH)
async def test_a_stream_that_is_no_reply_is_given_up_at_once(
    *, make_model, provider_server, providers, monkeypatch, body
):
    """It is not asked for again, and takes little memory."""
    monkeypatch.setattr(reply_limits, "_STREAM_BASE", MB // 2)  # else it takes half a minute
    provider_server.always = providers.Raw(body)
    model = make_model(provider_server.url)
    with pytest.raises(ModelError):  # the first call imports the SDK
        await model.generate(REQUEST)
    provider_server.requests.clear()
    tracemalloc.start()
    with pytest.raises(ModelProtocolError, match="more than a reply holds"):
        await model.generate(REQUEST)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(provider_server.requests) == 1
    assert peak < 40 * MB + len(body)  # the server keeps the body in this process


@pytest.mark.parametrize("code", [200, 400, 500])
@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=punycode"])
async def test_a_body_without_end(make_model, provider_server, providers, code, content_type):
    body = b'{"error": {"message": "' + b"x" * (8 * MB) + b'"}}'
    provider_server.always = providers.Raw(body, content_type, code)
    with pytest.raises(ModelProtocolError, match="more than a reply holds"):
        await make_model(provider_server.url).generate(REQUEST)


@pytest.mark.parametrize("code", [200, 400])
async def test_a_compressed_bomb_is_not_unpacked(make_model, provider_server, providers, code):
    body = gzip.compress(b"data: " + b"x" * (300 * MB), 1)
    headers = {"content-encoding": "gzip"}
    provider_server.always = providers.Raw(body, "text/event-stream", code, headers)
    model = make_model(provider_server.url)
    tracemalloc.start()
    with pytest.raises(ModelProtocolError, match="more than a reply holds"):
        await model.generate(REQUEST)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60 * MB


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "x" * 5_000])
async def test_an_encoding_that_was_not_asked_for(make_model, provider_server, providers, encoding):
    provider_server.always = providers.Raw(b"x", headers={"content-encoding": encoding})
    with pytest.raises(ModelProtocolError, match="content encoding"):
        await make_model(provider_server.url).generate(REQUEST)


async def test_a_broken_compression_is_a_broken_reply(make_model, provider_server, providers):
    provider_server.always = providers.Raw(b"no gzip", headers={"content-encoding": "gzip"})
    with pytest.raises(ModelError, match="before it was whole"):
        await make_model(provider_server.url, retry=RetryPolicy(attempts=1)).generate(REQUEST)


@pytest.mark.parametrize("count", [10**400, 2**63, -5, True, 1.5, "many", None])
async def test_token_counts_that_are_none(make_model, provider_server, providers, count):
    """They must not break the sums of a run."""
    events = providers.anthropic_events if make_model.protocol == "anthropic" else providers.openai_events
    stream = b"".join(events(providers.Answer("ok", usage=(777_777, 777_777, 0))))
    provider_server.always = providers.Raw(stream.replace(b"777777", json.dumps(count).encode()))
    reply = await make_model(provider_server.url).generate(REQUEST)
    assert reply.text == "ok"
    for tokens in (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens):
        assert 0 <= tokens <= 3 * MAX_COUNT


async def test_a_large_but_honest_event_is_read(make_model, provider_server, providers):
    """Some servers send a whole reply in one event."""
    text = "word " * (MAX_EVENT // 20)
    provider_server.always = providers.Answer(text, piece=len(text))
    request = Request("child", (Message("user", "hello"),), 100_000, "task")
    assert (await make_model(provider_server.url).generate(request)).text == text
