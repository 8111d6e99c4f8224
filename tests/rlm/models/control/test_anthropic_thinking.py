"""Test thinking in the Messages API: how it is asked for, read, counted and sent back."""

from __future__ import annotations

import pytest

from rlm.models.base import Message, Request, TokenUsage

SYSTEM = Message("system", "be brief", stable=True)
SIGNED = {"type": "thinking", "thinking": "let me see", "signature": "c2ln"}
REDACTED = {"type": "redacted_thinking", "data": "ZGF0YQ"}


def ask(*turns: Message, most: int = 1_000) -> Request:
    return Request("root", (SYSTEM, *(turns or (Message("user", "hi"),))), most, "task")


async def test_signed_blocks_are_kept_and_sent_back(
    make, provider_server, providers, anthropic_stream
) -> None:
    text = {"type": "text", "text": "```repl\n1\n```"}
    provider_server.play(providers.Raw(anthropic_stream(SIGNED, REDACTED, text)))
    model = make("claude-sonnet-5-5")
    reply = await model.generate(ask())
    assert (reply.text, reply.thinking) == ("```repl\n1\n```", "let me see")
    assert reply.carry == (SIGNED, REDACTED)
    assert reply.usage == TokenUsage(10, 60, reasoning_tokens=45)
    assert (reply.response_id, reply.model) == ("msg_9", "claude-2026")
    said = Message("assistant", reply.text, carry=reply.carry)
    await model.generate(ask(Message("user", "hi"), said, Message("user", "go on")))
    assert provider_server.requests[1].body["messages"][1] == {
        "role": "assistant",
        "content": [SIGNED, REDACTED, {"type": "text", "text": "```repl\n1\n```"}],
    }


async def test_a_block_without_a_signature_is_not_sent_back(
    make, provider_server, providers, anthropic_stream
) -> None:
    unsigned = {"type": "thinking", "thinking": "cut", "signature": ""}
    provider_server.play(providers.Raw(anthropic_stream(unsigned, stop="max_tokens")))
    reply = await make("claude-sonnet-5-5").generate(ask())
    assert (reply.text, reply.thinking, reply.finish_reason, reply.carry) == ("", "cut", "length", ())


async def test_thinking_that_is_not_counted_is_estimated(
    make, provider_server, providers, anthropic_stream
) -> None:
    stream = anthropic_stream(SIGNED, {"type": "text", "text": "x"}, usage={"output_tokens": 9})
    provider_server.play(providers.Raw(stream))
    usage = (await make("claude-sonnet-4-5").generate(ask())).usage
    assert usage.output_tokens == 9
    assert 0 < usage.reasoning_tokens <= 9


@pytest.mark.parametrize(
    ("name", "settings", "asked", "room"),
    [
        ("claude-sonnet-5-5", {}, {}, 33_000),
        ("claude-sonnet-5-5", {"effort": "low"}, {"type": "adaptive", "effort": "low"}, 9_000),
        ("claude-sonnet-5-5", {"effort": "minimal"}, {"type": "adaptive", "effort": "low"}, 3_000),
        ("claude-opus-5-5", {"effort": "max"}, {"type": "adaptive", "effort": "max"}, 65_000),
        ("claude-opus-5", {"thinking": 10_000}, {"type": "adaptive", "effort": "medium"}, 11_000),
        ("claude-haiku-5-5", {"effort": "none"}, {"type": "disabled"}, 1_000),
        ("claude-haiku-5-5", {"thinking": 0}, {"type": "disabled"}, 1_000),
        ("claude-opus-4-7", {}, {}, 1_000),
        ("claude-opus-4-7", {"effort": "none"}, {}, 1_000),
        ("claude-opus-4-7", {"effort": "high"}, {"type": "adaptive", "effort": "high"}, 33_000),
        ("claude-haiku-4-5", {"thinking": 4_000}, {"type": "enabled", "budget_tokens": 4_000}, 5_000),
        ("claude-haiku-4-5", {"thinking": 10}, {"type": "enabled", "budget_tokens": 1_009}, 1_010),
        ("claude-sonnet-4-5", {"effort": "low"}, {"type": "enabled", "budget_tokens": 8_000}, 9_000),
    ],
)
async def test_how_it_is_asked_for(make, provider_server, name, settings, asked, room) -> None:
    """Claude 5 thinks unless it is told not to; models up to 4.5 take a budget, later ones an effort."""
    await make(name, **settings).generate(ask())
    body = provider_server.requests[0].body
    assert body.get("thinking", {}) | body.get("output_config", {}) == asked
    assert body["max_tokens"] == room


async def test_neither_temperature_nor_seed_is_sent(make, provider_server) -> None:
    """The API refuses a temperature of any value since its version 2026-10-21."""
    refused: list[str] = []
    await make("claude-sonnet-5-5", temperature=1.0, seed=1, refused=refused).generate(ask())
    assert not {"temperature", "seed"} & provider_server.requests[0].body.keys()
    assert [line.partition(": ")[0] for line in refused] == [
        "anthropic:claude-sonnet-5-5 is asked without a temperature",
        "anthropic:claude-sonnet-5-5 is asked without a seed",
    ]
