"""Streams of providers, built from their events, and models of several names at one server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rlm.models.call_settings import CallSettings
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel

KEY = "sk-test-0123456789"


def _openai_stream(*chunks: dict[str, Any]) -> bytes:
    """Return a stream of Chat Completions. A chunk is a delta, or holds `finish` or `usage`."""
    lines = []
    for chunk in chunks:
        base: dict[str, Any] = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "model": "m-2026"}
        if "usage" in chunk:
            lines.append({**base, "choices": [], "usage": chunk["usage"]})
        else:
            delta = {name: value for name, value in chunk.items() if name != "finish"}
            finish = chunk.get("finish")
            lines.append({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    return "".join(f"data: {json.dumps(line)}\n\n" for line in lines).encode() + b"data: [DONE]\n\n"


def _anthropic_stream(
    *blocks: dict[str, Any], stop: str = "end_turn", usage: dict[str, Any] | None = None
) -> bytes:
    """Return a stream of the Messages API with whole blocks of content."""
    start = {
        "id": "msg_9",
        "type": "message",
        "role": "assistant",
        "model": "claude-2026",
        "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(blocks):
        kind = block["type"]
        empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}}.get(kind, block)
        begun = {"type": kind, **empty}
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        if kind == "thinking":
            half = len(block["thinking"]) // 2
            pieces = [{"type": "thinking_delta", "thinking": block["thinking"][:half]}]
            pieces.append({"type": "thinking_delta", "thinking": block["thinking"][half:]})
            pieces.append({"type": "signature_delta", "signature": block.get("signature", "")})
        else:
            pieces = [{"type": "text_delta", "text": block["text"]}] if kind == "text" else []
        events += [{"type": "content_block_delta", "index": index, "delta": piece} for piece in pieces]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop},
            "usage": usage or {"output_tokens": 60, "output_tokens_details": {"thinking_tokens": 45}},
        }
    )
    events.append({"type": "message_stop"})
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()


@pytest.fixture
def openai_stream() -> Callable[..., bytes]:
    return _openai_stream


@pytest.fixture
def anthropic_stream() -> Callable[..., bytes]:
    return _anthropic_stream


@pytest.fixture
async def make(provider_server: Any) -> AsyncIterator[Callable[..., Any]]:
    """Yield `make(name, **settings)`: a model of that provider's name at the server, with settings of its
    calls. `refused` collects what it says that it gave up."""
    made: list[Any] = []

    def build(name: str, *, refused: list[str] | None = None, private: bool = True, **settings: Any) -> Any:
        options = ModelOptions(
            retry=RetryPolicy(base=0.001, cap=0.002),
            calls=CallSettings(**settings),
            on_refused=None if refused is None else refused.append,
        )
        if name.startswith("claude"):
            made.append(AnthropicModel(name, Endpoint(provider_server.url, KEY, "K"), options=options))
        else:
            endpoint = Endpoint(f"{provider_server.url}/v1", KEY, "K", private=private)
            made.append(OpenAIModel(name, endpoint, options=options))
        return made[-1]

    yield build
    for model in made:
        await model.aclose()
