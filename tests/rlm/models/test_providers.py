"""Test AnthropicModel and OpenAIModel against a real server: requests and parsed replies."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest

from rlm.errors import ModelProtocolError, ModelRejected
from rlm.models.base import Image, Message, ModelWindow, ReplyListener, Request, TokenUsage, call_key
from rlm.models.catalog.info import ModelInfo
from rlm.models.http.endpoint import Endpoint
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.models.resolution import resolve


def ask(*contents: str, most: int = 100) -> Request:
    messages = tuple(Message("user", content) for content in contents or ("hello",))
    return Request("child", (Message("system", "be brief"), *messages), most, "task")


async def test_a_streamed_reply_is_put_together_with_its_usage(make_model, provider_server, providers):
    """The messages go to the provider; text and tokens come back whole."""
    text = "Ἑλλάς 🙂 " * 50
    provider_server.play(providers.Answer(text, usage=(1000, 42, 600), piece=3))
    model = make_model(provider_server.url)
    reply = await model.generate(ask("what?", most=77))
    assert reply.text == text
    assert reply.finish_reason == "stop"
    # The fake splits Anthropic's cached tokens into read and written halves: only read ones are cached.
    cached, written = (300, 300) if make_model.protocol == "anthropic" else (600, 0)
    assert reply.usage == TokenUsage(1000, 42, cached, written)
    (sent,) = provider_server.requests
    assert (sent.system, sent.prompt) == ("be brief", "what?")
    assert sent.body["stream"] is True
    assert sent.body["max_tokens"] == 77
    assert model.name == f"{make_model.protocol}:m"


async def test_pictures_reach_the_provider(make_model, provider_server):
    """Their bytes come before the text, in order; a message without pictures stays as it was."""
    pictures = (Image("image/png", b"\x89PNG one", 3, 4), Image("image/jpeg", b"\xff\xd8 two"))
    request = replace(
        ask(), messages=(Message("system", "be brief"), Message("user", "what?", images=pictures))
    )
    await make_model(provider_server.url).generate(request)
    (sent,) = provider_server.requests
    assert sent.images == [("image/png", b"\x89PNG one"), ("image/jpeg", b"\xff\xd8 two")]
    assert (sent.system, sent.prompt) == ("be brief", "what?")
    assert sent.body["messages"][-1]["content"][-1]["type"] == "text"


async def test_merged_messages_keep_their_pictures(provider_server):
    one, two = (Image("image/png", name) for name in (b"one", b"two"))
    request = replace(
        ask(), messages=(Message("user", "first", images=(one,)), Message("user", "then", images=(two,)))
    )
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    await model.generate(request)
    (sent,) = provider_server.requests
    assert (sent.prompt, [data for _, data in sent.images]) == ("first\n\nthen", [b"one", b"two"])
    await model.aclose()


async def test_a_server_that_counts_no_tokens_is_not_counted_the_bytes_of_pictures(
    provider_server, providers
):
    provider_server.play(providers.Answer("answer", usage=None))
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    picture = Image("image/png", b"x" * 100_000)
    request = replace(ask(), messages=(Message("user", "what?", images=(picture,)),))
    assert (await model.generate(request)).usage.input_tokens < 100
    await model.aclose()


def test_pictures_are_part_of_the_key_of_a_call():
    def key(*pictures: Image) -> str:
        return call_key("m", replace(ask(), messages=(Message("user", "what?", images=pictures),)))

    assert key() == call_key("m", replace(ask(), messages=(Message("user", "what?"),)))
    assert len({key(), key(Image("image/png", b"a")), key(Image("image/png", b"b"))}) == 3


async def test_a_slow_stream_reports_what_has_arrived(provider_server, providers):
    """About once a second, in pieces; what arrived after the last report is not repeated."""
    provider_server.play(providers.Answer("one two three four five six", piece=5, step=0.3))
    reported: list[int] = []
    model = OpenAIModel("m", Endpoint(f"{provider_server.url}/v1", "k", "OPENAI_API_KEY"))
    request = replace(ask(), listener=ReplyListener(on_tokens=reported.append))
    assert (await model.generate(request)).text == "one two three four five six"
    assert reported
    assert 2 <= sum(reported) <= 9
    await model.aclose()


async def test_a_compressed_reply_is_read(make_model, provider_server, providers):
    """The SDKs accept compression, and some gateways use it."""
    events = providers.anthropic_events if make_model.protocol == "anthropic" else providers.openai_events
    stream = gzip.compress(b"".join(events(providers.Answer("forty-two"))))
    provider_server.play(providers.Raw(stream, headers={"content-encoding": "gzip"}))
    assert (await make_model(provider_server.url).generate(ask())).text == "forty-two"
    assert "gzip" in provider_server.requests[0].headers["accept-encoding"]


async def test_anthropic_marks_stable_prefixes_for_its_cache(provider_server):
    """At most four: the first and the latest. Empty messages, which the API refuses, are dropped."""
    messages = [Message("system", "rules", stable=True), Message("user", "")]
    messages += [Message("assistant" if n % 2 else "user", f"turn {n}", stable=True) for n in range(6)]
    model = AnthropicModel("m", Endpoint(provider_server.url, "k", "ANTHROPIC_API_KEY"))
    await model.generate(Request("root", tuple(messages), 10, "task"))
    await model.aclose()
    body = provider_server.requests[0].body
    assert body["system"] == [{"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}]
    marked = [
        turn["content"][0]["text"] for turn in body["messages"] if "cache_control" in turn["content"][0]
    ]
    assert marked == ["turn 3", "turn 4", "turn 5"]
    assert len(body["messages"]) == 6


@pytest.mark.parametrize("host", ["https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_openai_itself_is_given_max_completion_tokens(host):
    body = OpenAIModel("m", Endpoint(host, "k", "OPENAI_API_KEY")).body(ask(most=9))
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


async def test_other_servers_are_given_max_tokens_and_asked_for_usage(provider_server):
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    await model.generate(ask(most=9))
    await model.aclose()
    body = provider_server.requests[0].body
    assert body["max_tokens"] == 9
    assert "max_completion_tokens" not in body
    assert body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "\ud83d\ude42"])
async def test_text_that_utf_8_cannot_carry_is_sent_all_the_same(make_model, provider_server, text):
    await make_model(provider_server.url).generate(ask(text))
    expected = {"\ud800": "\ufffd", "a\udc00b": "a\ufffdb", "\ud83d\ude42": "🙂"}[text]
    assert provider_server.requests[0].prompt == expected


def test_a_window_given_in_the_options_wins(make_model):
    assert make_model("http://localhost:1", info=ModelInfo(window=7, output=3)).window == ModelWindow(7, 3)
    assert make_model("http://localhost:1").window == ModelWindow(128_000, 8_000, known=False)


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b'{"choices": 5}', b'{"models": []}'])
async def test_json_that_is_no_completion_is_no_reply(provider_server, providers, body):
    provider_server.always = providers.Raw(body, "application/json")
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    with pytest.raises(ModelProtocolError, match="answers with 'application/json', not with a stream"):
        await model.generate(ask())
    await model.aclose()


async def test_a_media_type_may_be_in_capitals(make_model, provider_server, providers):
    events = providers.anthropic_events if make_model.protocol == "anthropic" else providers.openai_events
    stream = b"".join(events(providers.Answer("forty-two")))
    provider_server.always = providers.Raw(stream, "Text/Event-Stream; Charset=UTF-8")
    assert (await make_model(provider_server.url).generate(ask())).text == "forty-two"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("STOP", "stop"), ("eos", "stop"), ("end_turn", "stop"), ("max_tokens", "length"), ("new", "other")],
)
async def test_other_servers_words_and_numbers(provider_server, providers, finish, reason):
    """They name the end in other words, send numbers as floats, a byte order mark before the stream, and
    blanks around its end mark. Nothing of a reply that was paid for is lost."""
    last = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": finish}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 9.0, "completion_tokens": 3.0}}
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in (last, usage))
    stream = f"\ufeff{events}data:  [DONE] \n\n"
    provider_server.always = providers.Raw(stream.encode())
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    reply = await model.generate(ask())
    await model.aclose()
    assert (reply.text, reply.finish_reason, reply.usage) == ("x", reason, TokenUsage(9, 3))


async def test_an_error_with_a_status_of_success_is_told(make_model, provider_server, providers):
    """Some gateways answer 200 and put the error into the body."""
    error = {"message": "this model was retired", "code": 404, "type": "not_found_error"}
    provider_server.always = providers.Raw(json.dumps({"error": error}).encode(), "application/json")
    with pytest.raises(ModelRejected, match="this model was retired"):
        await make_model(provider_server.url).generate(ask())
