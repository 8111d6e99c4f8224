"""Test requests that a server refuses because of one field: they are sent again without it, and the refusal
is remembered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm.errors import ModelRejected
from rlm.models.base import Message, Request


def ask(*turns: Message, most: int = 1_000) -> Request:
    return Request("child", turns or (Message("user", "hi"),), most, "task")


def refusal(providers, message: str, status: int = 400, **error: Any) -> Any:
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", **error}})
    return providers.Raw(body.encode(), "application/json", status)


async def answers(server, providers, model, *refusals: Any) -> list[dict[str, Any]]:
    """Play the refusals and then `ok`, twice; return the bodies that were sent."""
    server.play(*refusals)
    for _ in range(2):
        assert (await model.generate(ask())).text == "ok"
    assert len(server.requests) == len(refusals) + 2, "a refusal was not remembered"
    return [one.body for one in server.requests]


async def test_a_refused_field_is_left_out_and_told_once(make, provider_server, providers) -> None:
    refused: list[str] = []
    model = make("llama", temperature=0.3, seed=4, refused=refused)
    message = "Unsupported value: 'temperature' does not support 0.3 with this model."
    bodies = await answers(
        provider_server, providers, model, refusal(providers, message, param="temperature")
    )
    assert "temperature" in bodies[0]
    assert "temperature" not in bodies[1]
    assert "temperature" not in bodies[2]
    assert bodies[2]["seed"] == 4
    assert len(refused) == 1
    assert refused[0].startswith("openai:llama is asked without temperature: 127.0.0.1:")


async def test_the_words_of_a_validator(make, provider_server, providers) -> None:
    """FastAPI quotes the whole request as `input`: only the place of the error counts."""
    body = {
        "detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": "temperature"}]
    }
    validator = providers.Raw(json.dumps(body).encode(), "application/json", 422)
    bodies = await answers(provider_server, providers, make("m", temperature=0.3, seed=4), validator)
    assert "seed" not in bodies[1]
    assert bodies[1]["temperature"] == 0.3


async def test_the_other_name_of_the_output_limit(make, provider_server, providers) -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'."
    )
    bodies = await answers(provider_server, providers, make("m"), refusal(providers, message))
    assert "max_tokens" not in bodies[1]
    assert bodies[1]["max_completion_tokens"] == bodies[2]["max_completion_tokens"] == 1_000


async def test_the_nearest_effort_that_a_model_takes(make, provider_server, providers) -> None:
    message = (
        "Unsupported value: 'minimal' is not supported. Supported values are: 'low', 'medium', and 'high'."
    )
    bodies = await answers(
        provider_server, providers, make("gpt-6.1-sol", effort="minimal"), refusal(providers, message)
    )
    assert [body["reasoning_effort"] for body in bodies] == ["minimal", "low", "low"]


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens: 33000 > 8192, which is the maximum allowed number of output tokens for claude",
        "max_tokens is too large: 33000. This model supports at most 8192 completion tokens.",
    ],
)
async def test_a_smaller_output_limit(make, provider_server, providers, message) -> None:
    model = make("claude-sonnet-5-5")
    bodies = await answers(provider_server, providers, model, refusal(providers, message))
    assert [body["max_tokens"] for body in bodies] == [33_000, 8_192, 8_192]


async def test_a_window_that_is_smaller_than_thought(make, provider_server, providers) -> None:
    """The limit is for that one prompt: a shorter one leaves more room."""
    message = (
        "This model's maximum context length is 16384 tokens. However, you requested 21000 tokens "
        "(4000 in the messages, 17000 in the completion)."
    )
    provider_server.play(refusal(providers, message))
    model = make("qwen3:8b")
    await model.generate(ask())
    await model.generate(ask())
    sent = [one.body["max_tokens"] for one in provider_server.requests]
    assert sent == [17_000, 16_384 - 4_000 - 64, 17_000]


async def test_a_model_that_must_think(make, provider_server, providers) -> None:
    first = refusal(providers, "thinking.type: disabled is not supported on this model")
    second = refusal(providers, "thinking.type: between_tools is not supported on this model")
    model = make("claude-opus-5-5", effort="none")
    bodies = await answers(provider_server, providers, model, first, second)
    assert bodies[0]["thinking"] == {"type": "disabled"}
    assert bodies[1]["thinking"] == {"type": "between_tools"}
    assert "thinking" not in bodies[2]
    assert bodies[2]["output_config"] == {"effort": "low"}


async def test_thinking_of_earlier_rounds_that_is_bound_to_others(make, provider_server, providers) -> None:
    block = {"type": "thinking", "thinking": "t", "signature": "s"}
    said = Message("assistant", "a", carry=(block,))
    message = (
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior`."
    )
    provider_server.play(refusal(providers, message))
    model = make("claude-sonnet-5-5")
    for _ in range(2):
        await model.generate(ask(Message("user", "x"), said, Message("user", "y")))
    contents = [one.body["messages"][1]["content"] for one in provider_server.requests]
    bare = [{"type": "text", "text": "a"}]
    assert contents == [[block, *bare], bare, bare]


async def test_reasoning_that_a_server_does_not_take_back(make, provider_server, providers) -> None:
    said = Message("assistant", "a", carry=({"reasoning_content": "t"},))
    provider_server.play(refusal(providers, "the reasoning_content is an unexpected field of messages[1]"))
    model = make("deepseek-reasoner")
    await model.generate(ask(Message("user", "x"), said, Message("user", "y")))
    assert "reasoning_content" in provider_server.requests[0].body["messages"][1]
    assert "reasoning_content" not in provider_server.requests[1].body["messages"][1]


async def test_what_the_user_wrote_himself_is_not_given_up(make, provider_server, providers) -> None:
    provider_server.play(refusal(providers, "seed is not supported"))
    with pytest.raises(ModelRejected, match="seed is not supported"):
        await make("m", body={"seed": 5}).generate(ask())
    assert len(provider_server.requests) == 1


async def test_a_refusal_of_something_else_stays_one(make, provider_server, providers) -> None:
    provider_server.play(refusal(providers, "your prompt was flagged"))
    with pytest.raises(ModelRejected, match="your prompt was flagged"):
        await make("m", temperature=0.1).generate(ask())
    assert len(provider_server.requests) == 1


async def test_a_server_that_refuses_everything_ends(make, provider_server, providers) -> None:
    provider_server.always = refusal(providers, "temperature seed reasoning_effort stream_options max_tokens")
    with pytest.raises(ModelRejected):
        await make("m", temperature=0.1, seed=1, effort="low").generate(ask())
    assert len(provider_server.requests) <= 7
