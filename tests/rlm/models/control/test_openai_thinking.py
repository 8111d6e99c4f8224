"""Test thinking in Chat Completions: how it is asked for, read, counted and sent back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlm.models import CallSettings, ModelOptions, resolve
from rlm.models.base import Message, Reply, Request, TokenUsage
from rlm.models.http.concessions import LIMIT_FIELDS

SYSTEM = Message("system", "be brief")


def ask(*turns: Message, most: int = 1_000) -> Request:
    return Request("root", (SYSTEM, *(turns or (Message("user", "hi"),))), most, "task")


async def reply_to(make, server, providers, stream: bytes, name: str = "qwen3:8b") -> Reply:
    server.play(providers.Raw(stream))
    return await make(name).generate(ask())


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
async def test_both_fields_of_compatible_servers(
    make, provider_server, providers, openai_stream, name
) -> None:
    """vLLM since 2026-01 and Ollama send `reasoning`, DeepSeek and SGLang `reasoning_content`."""
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 30,
        "total_tokens": 39,
        "completion_tokens_details": {"reasoning_tokens": 22},
    }
    stream = openai_stream(
        {name: "first "}, {name: "thoughts"}, {"content": "42"}, {"finish": "stop"}, {"usage": usage}
    )
    reply = await reply_to(make, provider_server, providers, stream)
    assert (reply.text, reply.thinking) == ("42", "first thoughts")
    assert reply.usage == TokenUsage(9, 30, reasoning_tokens=22)
    assert reply.carry == ({name: "first thoughts"},)
    assert (reply.response_id, reply.model) == ("chatcmpl-9", "m-2026")


async def test_it_is_sent_back_in_the_field_in_which_it_came(make, provider_server) -> None:
    model = make("deepseek-v4-pro")
    said = Message("assistant", "```repl\n1\n```", carry=({"reasoning_content": "why"},))
    foreign = Message("assistant", "x", carry=({"type": "thinking", "thinking": "t", "signature": "s"},))
    await model.generate(ask(Message("user", "a"), said, Message("user", "b"), foreign, Message("user", "c")))
    sent = provider_server.requests[0].body["messages"]
    assert sent[2] == {"role": "assistant", "content": "```repl\n1\n```", "reasoning_content": "why"}
    assert sent[4] == {"role": "assistant", "content": "x"}


async def test_details_of_openrouter_are_put_together(
    make, provider_server, providers, openai_stream
) -> None:
    stream = openai_stream(
        {"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a", "index": 0}]},
        {"reasoning": "b", "reasoning_details": [{"type": "reasoning.text", "text": "b", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": "sig", "index": 0, "text": None}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "xyz", "index": 1}]},
        {"content": "ok"},
        {"finish": "stop"},
    )
    reply = await reply_to(make, provider_server, providers, stream)
    assert reply.thinking == "ab"
    assert reply.carry == (
        {
            "reasoning_details": [
                {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "sig"},
                {"type": "reasoning.encrypted", "data": "xyz", "index": 1},
            ]
        },
    )


async def test_parts_of_mistral(make, provider_server, providers, openai_stream) -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    stream = openai_stream(
        {"content": [thinking]}, {"content": [{"type": "text", "text": "so"}]}, {"finish": "stop"}
    )
    reply = await reply_to(make, provider_server, providers, stream, "magistral-small")
    assert (reply.text, reply.thinking) == ("so", "hm")


@pytest.mark.parametrize(
    ("pieces", "text", "thinking", "finish"),
    [
        (["<thi", "nk>a ```repl\n1\n``` b</th", "ink>\n\nreply"], "reply", "a ```repl\n1\n``` b", "stop"),
        (["<think>", "endless thoughts"], "", "endless thoughts", "length"),
        (["thoughts\n</think>\n", "reply"], "reply", "thoughts\n", "stop"),
    ],
)
async def test_tags_in_the_text(
    make, provider_server, providers, openai_stream, pieces, text, thinking, finish
) -> None:
    stream = openai_stream(*({"content": piece} for piece in pieces), {"finish": finish})
    reply = await reply_to(make, provider_server, providers, stream)
    assert (reply.text, reply.thinking, reply.finish_reason) == (text, thinking, finish)
    assert reply.usage.reasoning_tokens > 0
    assert reply.usage.output_tokens >= reply.usage.reasoning_tokens
    assert reply.carry == ()


async def test_a_server_that_counts_thinking_beside_the_reply(
    make, provider_server, providers, openai_stream
) -> None:
    """xAI's completion_tokens leave thinking out, and its total does not: it is charged for."""
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 28,
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    stream = openai_stream({"content": "x"}, {"finish": "stop"}, {"usage": usage})
    reply = await reply_to(make, provider_server, providers, stream, "grok-4")
    assert reply.usage == TokenUsage(5, 23, reasoning_tokens=20)


@pytest.mark.parametrize(
    ("name", "settings", "room"),
    [
        ("llama3.1:8b", {}, 1_000),
        ("qwen3:8b", {}, 17_000),
        ("gpt-5", {}, 17_000),
        ("gpt-5", {"effort": "high"}, 33_000),
        ("gpt-5", {"effort": "none"}, 1_000),
        ("gpt-5", {"thinking": 5_000}, 6_000),
        ("gpt-5-chat-latest", {}, 1_000),
        ("llama3.1:8b", {"effort": "low"}, 9_000),
    ],
)
async def test_room_for_thinking_is_on_top_of_the_reply(make, provider_server, name, settings, room) -> None:
    model = make(name, **settings)
    await model.generate(ask())
    assert provider_server.requests[0].body["max_tokens"] == room
    assert model.window.thinking == room - 1_000


async def test_options_are_in_the_request(make, provider_server) -> None:
    settings = {
        "effort": "low",
        "temperature": 0.5,
        "seed": 3,
        "body": {"top_p": 0.9},
        "headers": {"X-Team": "law"},
    }
    await make("gpt-oss:20b", **settings).generate(ask())
    sent = provider_server.requests[0]
    asked = {key: sent.body[key] for key in ("reasoning_effort", "temperature", "seed", "top_p")}
    assert asked == {"reasoning_effort": "low", "temperature": 0.5, "seed": 3, "top_p": 0.9}
    assert sent.headers["x-team"] == "law"
    assert sent.headers["authorization"] == "Bearer sk-test-0123456789"


async def test_a_plain_request_has_no_new_field(make, provider_server) -> None:
    await make("llama3.1:8b").generate(ask())
    assert set(provider_server.requests[0].body) == {
        "model",
        "messages",
        "max_tokens",
        "stream",
        "stream_options",
    }


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "gpt-5", "gemini:gemini-3.8-flash"])
@pytest.mark.parametrize("thinking", [32_000, 500_000])
def test_the_longest_reply_leaves_room_for_thinking(name: str, thinking: int) -> None:
    """The provider counts both against one limit: the thinking would else cut the text."""
    env = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}
    calls = CallSettings(output=64_000, thinking=thinking)
    model = resolve(name, env, ModelOptions(calls=calls))
    longest = replace(ask(), max_output_tokens=model.window.output)
    body = model.body(longest)  # type: ignore[attr-defined]
    sent = next(body[field] for field in LIMIT_FIELDS if field in body)
    assert sent == model.window.output + model.window.thinking
    assert model.window.output >= 32_000


async def test_no_thinking_for_a_model_of_ones_own(make, provider_server) -> None:
    await make("qwen3:8b", thinking=0).generate(ask())
    body = provider_server.requests[0].body
    assert body["reasoning_effort"] == "none"
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["max_tokens"] == 1_000


async def test_a_temperature_is_not_sent_to_models_that_think(make, provider_server) -> None:
    refused: list[str] = []
    model = make("gpt-5", temperature=0.0, refused=refused)
    await model.generate(ask())
    await model.generate(ask())
    assert all("temperature" not in one.body for one in provider_server.requests)
    assert refused == ["openai:gpt-5 is asked without a temperature: models that think take none"]
    await make("gpt-5", temperature=0.0, effort="none").generate(ask())
    assert provider_server.requests[-1].body["temperature"] == 0.0


@pytest.mark.parametrize("name", ["gpt-5-mini", "claude-sonnet-5-5"])
async def test_a_user_s_zero_is_obeyed_by_every_protocol(make, provider_server, name) -> None:
    """Also by a follow-up, which asks for a low effort."""
    await make(name, thinking=0).generate(replace(ask(), effort="low"))
    body = provider_server.requests[0].body
    assert (body.get("reasoning_effort", "none"), body.get("output_config")) == ("none", None)
    assert body.get("max_completion_tokens", body.get("max_tokens")) == 1_000


@pytest.mark.parametrize(
    ("name", "number", "effort"),
    [
        ("gpt-5-mini", 2_000, "low"),
        ("gpt-5-mini", 16_000, "medium"),
        ("o3", 40_000, "high"),
        ("some-model", 2_000, "low"),
        ("gpt-5-chat-latest", 2_000, None),
    ],
)
async def test_a_number_of_tokens_is_sent_as_the_nearest_effort(
    make, provider_server, name, number, effort
) -> None:
    """The protocol takes no number. Without an effort the model would think at its default into the room."""
    await make(name, thinking=number).generate(ask())
    body = provider_server.requests[0].body
    assert body.get("reasoning_effort") == effort
    assert body["max_tokens"] == 1_000 + number
