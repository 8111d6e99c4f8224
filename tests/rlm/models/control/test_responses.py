"""Test OpenAI's Responses API: requests, streams, thinking over rounds, and when it is spoken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm.models.base import Image, Message, Request, TokenUsage
from rlm.models.call_settings import CallSettings
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.providers.openai import OpenAIModel
from rlm.models.providers.openai_responses import OpenAIResponsesModel, make_openai_model
from rlm.models.resolution import resolve

ITEM = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 300,
    "output_tokens_details": {"reasoning_tokens": 256},
    "total_tokens": 350,
}


def stream(*events: dict[str, Any]) -> bytes:
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return "".join(lines).encode()


def created() -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-5-2026", "error": None}}


def text(delta: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "item_id": "msg_1", "delta": delta}


def ended(kind: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "gpt-5-2026", "status": kind, "usage": USAGE, **fields}
    return {"type": f"response.{kind}", "response": response}


def ask(*turns: Message) -> Request:
    return Request(
        "root", (Message("system", "be brief"), *(turns or (Message("user", "hi"),))), 1_000, "task"
    )


@pytest.fixture
async def make(provider_server):
    made = []

    def build(**settings: Any) -> Any:
        options = ModelOptions(
            retry=RetryPolicy(attempts=2, base=0.001, cap=0.002),
            calls=CallSettings(api="responses", **settings),
        )
        endpoint = Endpoint(f"{provider_server.url}/v1", "sk-test-0123456789", "K", private=True)
        made.append(make_openai_model("gpt-5", endpoint, options=options))
        return made[-1]

    yield build
    for model in made:
        await model.aclose()


async def test_a_reply_its_thinking_and_what_goes_back(make, provider_server, providers) -> None:
    unreadable = {"type": "reasoning", "id": "rs_0", "summary": []}
    events = [
        created(),
        {"type": "response.reasoning_summary_text.delta", "delta": "a plan"},
        {"type": "response.output_item.done", "item": {**ITEM, "status": "completed"}},
        {"type": "response.output_item.done", "item": unreadable},
        text("```repl\n1"),
        text("\n```"),
        ended(),
    ]
    provider_server.play(
        providers.Raw(stream(*events)), providers.Raw(stream(created(), text("ok"), ended()))
    )
    model = make(effort="high", temperature=0.5, body={"reasoning": {"summary": "auto"}})
    reply = await model.generate(ask())
    assert (reply.text, reply.finish_reason, reply.thinking) == ("```repl\n1\n```", "stop", "a plan")
    assert reply.usage == TokenUsage(50, 300, cached_tokens=20, reasoning_tokens=256)
    assert (reply.response_id, reply.model, reply.carry) == ("resp_1", "gpt-5-2026", (ITEM,))
    said = Message("assistant", reply.text, carry=reply.carry)
    await model.generate(ask(Message("user", "hi"), said, Message("user", "go on")))
    first, second = provider_server.requests
    assert first.path == "/v1/responses"
    assert first.body == {
        "model": "gpt-5",
        "input": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        "max_output_tokens": 33_000,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high", "summary": "auto"},
    }
    assert second.body["input"][2:4] == [ITEM, {"role": "assistant", "content": "```repl\n1\n```"}]


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "refusal"), ("new", "other")]
)
async def test_a_response_that_is_not_complete(make, provider_server, providers, reason, finish) -> None:
    last = ended("incomplete", incomplete_details={"reason": reason})
    provider_server.play(providers.Raw(stream(created(), text("half"), last)))
    reply = await make().generate(ask())
    assert (reply.text, reply.finish_reason) == ("half", finish)


async def test_a_server_that_sends_the_text_with_the_end_and_counts_nothing(
    make, provider_server, providers
) -> None:
    """No word is lost, and the tokens are estimated."""
    content = [{"type": "output_text", "text": "forty-two"}]
    last = ended(output=[{"type": "message", "content": content}], usage=None)
    provider_server.play(providers.Raw(stream(created(), last)))
    reply = await make().generate(ask())
    assert (reply.text, reply.finish_reason) == ("forty-two", "stop")
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


async def test_thinking_that_the_server_does_not_take_back(make, provider_server, providers) -> None:
    message = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "param": "input"}})
    provider_server.play(
        providers.Raw(body.encode(), "application/json", 400),
        providers.Raw(stream(created(), text("ok"), ended())),
    )
    said = Message("assistant", "a", carry=(ITEM,))
    await make().generate(ask(Message("user", "x"), said, Message("user", "y")))
    assert ITEM not in provider_server.requests[1].body["input"]
    assert len(provider_server.requests[1].body["input"]) == 4


async def test_a_whole_response_and_an_image(make, provider_server, providers) -> None:
    content = [{"type": "output_text", "text": "whole"}]
    answer = {"object": "response", "output": [ITEM, {"type": "message", "content": content}]}
    body = json.dumps({**ended()["response"], **answer}).encode()
    provider_server.play(providers.Raw(body, "application/json"))
    reply = await make().generate(ask(Message("user", "see", images=(Image("image/png", b"x"),))))
    assert (reply.text, reply.carry, reply.usage.output_tokens) == ("whole", (ITEM,), 300)
    assert provider_server.requests[0].body["input"][1]["content"] == [
        {"type": "input_image", "image_url": "data:image/png;base64,eA=="},
        {"type": "input_text", "text": "see"},
    ]


@pytest.mark.parametrize(
    ("name", "env", "api", "kind"),
    [
        ("openai:gpt-6.1-sol", {}, None, OpenAIResponsesModel),
        ("o3", {}, None, OpenAIResponsesModel),
        ("gpt-4.1", {}, None, OpenAIModel),
        ("gpt-5", {}, "chat", OpenAIModel),
        ("gpt-5", {"OPENAI_BASE_URL": "https://gateway.example/v1"}, None, OpenAIModel),
        ("openai:gpt-5@http://127.0.0.1:1/v1", {}, None, OpenAIModel),
        ("openai:gpt-5@http://127.0.0.1:1/v1", {}, "responses", OpenAIResponsesModel),
    ],
)
def test_which_api_is_spoken(name, env, api, kind) -> None:
    options = ModelOptions(calls=CallSettings(api=api))
    assert type(resolve(name, {"OPENAI_API_KEY": "sk-test", **env}, options)) is kind
