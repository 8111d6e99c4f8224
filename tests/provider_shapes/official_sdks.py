"""Read a provider's answer with its official SDK, to compare it with what we read from the same bytes."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from rlm.models.base import Reply, TokenUsage, ToolCall

__all__ = ["READERS"]

_KEY = "sk-test-0123456789"
_MESSAGES = [{"role": "user", "content": "hello"}]


async def _chat_completions(url: str, *, whole: bool) -> Reply:
    from openai import AsyncOpenAI, ContentFilterFinishReasonError, LengthFinishReasonError

    client: Any = AsyncOpenAI(api_key=_KEY, base_url=f"{url}/v1", max_retries=0)
    asked: dict[str, Any] = {"model": "m", "messages": _MESSAGES}
    async with client:
        if whole:
            completion = await client.chat.completions.create(**asked)
        else:
            async with client.chat.completions.stream(
                **asked, stream_options={"include_usage": True}
            ) as stream:
                # The helper parses no reply with these ends, but it has read it.
                with suppress(LengthFinishReasonError, ContentFilterFinishReasonError):
                    await stream.get_final_completion()
                completion = stream.current_completion_snapshot
    choice, usage = completion.choices[0], completion.usage
    message = choice.message
    calls = [call.function for call in message.tool_calls or ()]
    calls += [message.function_call] if message.function_call else []
    reasons = {"stop": "stop", "length": "length", "content_filter": "refusal"}
    return Reply(
        text=message.content or message.refusal or "",
        finish_reason="refusal" if message.refusal else reasons.get(choice.finish_reason, "other"),  # type: ignore[arg-type]
        usage=TokenUsage() if usage is None else _openai_usage(usage),
        thinking=_thinking(message),
        tool_calls=tuple(ToolCall(call.name, call.arguments) for call in calls),
        response_id=completion.id,
        model=completion.model,
    )


def _thinking(message: Any) -> str:
    extra = message.model_extra or {}
    return extra.get("reasoning_content") or extra.get("reasoning") or ""


def _openai_usage(usage: Any) -> TokenUsage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return TokenUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=(prompt.cached_tokens or 0) if prompt else 0,
        reasoning_tokens=(completion.reasoning_tokens or 0) if completion else 0,
    )


async def _messages(url: str, *, whole: bool) -> Reply:
    from anthropic import AsyncAnthropic

    client: Any = AsyncAnthropic(api_key=_KEY, base_url=url, max_retries=0)
    asked: dict[str, Any] = {"model": "m", "messages": _MESSAGES, "max_tokens": 100}
    async with client:
        if whole:
            message = await client.messages.create(**asked)
        else:
            async with client.messages.stream(**asked) as stream:
                message = await stream.get_final_message()
    usage = message.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    reasons = {
        "end_turn": "stop",
        "max_tokens": "length",
        "model_context_window_exceeded": "length",
        "refusal": "refusal",
    }
    return Reply(
        text="".join(block.text for block in message.content if block.type == "text"),
        finish_reason=reasons.get(message.stop_reason, "other"),  # type: ignore[arg-type]
        usage=TokenUsage(
            usage.input_tokens + read + written,
            usage.output_tokens,
            read,
            written,
            usage.output_tokens_details.thinking_tokens if usage.output_tokens_details else 0,
        ),
        thinking="".join(block.thinking for block in message.content if block.type == "thinking"),
        tool_calls=tuple(
            ToolCall(block.name, json.dumps(block.input))
            for block in message.content
            if block.type == "tool_use"
        ),
        response_id=message.id,
        model=message.model,
    )


async def _responses(url: str, *, whole: bool) -> Reply:
    from openai import AsyncOpenAI

    client: Any = AsyncOpenAI(api_key=_KEY, base_url=f"{url}/v1", max_retries=0)
    async with client:
        if whole:
            response = await client.responses.create(model="m", input="hello")
        else:
            async with client.responses.stream(model="m", input="hello") as stream:
                ends = ("response.completed", "response.incomplete")
                last = [event.response async for event in stream if event.type in ends]
            (response,) = last
    parts = [part for item in response.output if item.type == "message" for part in item.content]
    refusals = [part.refusal for part in parts if part.type == "refusal"]
    thoughts = [item for item in response.output if item.type == "reasoning"]
    cut = response.incomplete_details
    usage = response.usage
    return Reply(
        text=response.output_text or "".join(refusals),
        finish_reason="length" if cut else "refusal" if refusals else "stop",
        usage=TokenUsage(
            usage.input_tokens,
            usage.output_tokens,
            usage.input_tokens_details.cached_tokens,
            reasoning_tokens=usage.output_tokens_details.reasoning_tokens,
        ),
        thinking="".join(part.text for item in thoughts for part in item.summary),
        tool_calls=tuple(
            ToolCall(item.name, item.arguments) for item in response.output if item.type == "function_call"
        ),
        response_id=response.id,
        model=response.model,
    )


READERS = {"chat_completions": _chat_completions, "messages": _messages, "responses": _responses}
"""By protocol: `read(url, whole=...)` asks the server at `url` once and returns what the SDK made of it."""
