"""/v1/chat/completions: a model with an unbounded prompt."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import ServerSentEvent

from rlm.results import RunResult
from rlm.server.auth import UserCaller
from rlm.server.errors import ApiError, api_error
from rlm.server.native.runs import ERRORS, service_of
from rlm.server.openai.conversation import Message, read_conversation, schema_of
from rlm.server.openai.models import MODEL, check_model
from rlm.server.openai.results import Progress, annotations_of, answer_of, pieces, tokens_of, wait_for
from rlm.server.replies import EventStream, Json, event
from rlm.server.work.live import Live
from rlm.server.work.request import WorkRequest
from rlm.server.work.service import Service

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _ChatMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, Field(pattern="^(system|developer|user|assistant|tool|function)$")]
    content: str | list[dict[str, Any]] | None = None


class ChatBody(BaseModel):
    """A chat completion. Parameters of sampling are ignored; tools, images and audio are refused."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(max_length=200)]
    messages: list[_ChatMessage] = Field(min_length=1, max_length=10_000)
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    response_format: dict[str, Any] | None = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None


@router.post("/chat/completions", response_class=Response)
async def complete_chat(body: ChatBody, request: Request, caller: UserCaller) -> Response:
    """Answer the last user message over all that stands before it. The answer has citations as annotations;
    with `stream`, the progress comes as reasoning."""
    check_model(body.model)
    if body.tools or body.functions:
        raise ApiError(
            400, "tools of a request are not supported: its operator gives the server its tools",
            code="unsupported_parameter", param="tools",
        )  # fmt: skip
    if (body.n or 1) != 1:
        raise ApiError(400, "only one answer is given: leave n out", code="unsupported_parameter", param="n")
    messages = [
        Message.parse(one.role, one.content, f"messages.{place}") for place, one in enumerate(body.messages)
    ]
    asked = read_conversation(messages)
    schema = schema_of(body.response_format, "response_format")
    service = service_of(request)
    live = await service.submit(caller, "chat", WorkRequest("run", asked.task, asked.context, schema))
    base_url = str(request.base_url)
    if body.stream:
        wants_usage = body.stream_options is not None and body.stream_options.include_usage
        return EventStream(_chunks(service, live, base_url, wants_usage=wants_usage))
    result = await wait_for(service, live, request)
    message = {
        "role": "assistant",
        "content": answer_of(result),
        "refusal": None,
        "annotations": _annotations(result, live, base_url),
    }
    return Json(
        {
            "id": f"chatcmpl-{live.run_id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": _usage(result),
        }
    )


async def _chunks(
    service: Service, live: Live, base_url: str, *, wants_usage: bool
) -> AsyncIterator[ServerSentEvent]:
    created = int(time.time())

    def chunk(choices: list[dict[str, Any]], **more: Any) -> ServerSentEvent:
        return event(
            {
                "id": f"chatcmpl-{live.run_id}",
                "object": "chat.completion.chunk",
                "created": created,
                "model": MODEL,
                "choices": choices,
                **more,
            }
        )

    def delta(value: dict[str, Any], finish: str | None = None) -> ServerSentEvent:
        return chunk([{"index": 0, "delta": value, "finish_reason": finish, "logprobs": None}])

    try:
        yield delta({"role": "assistant", "content": ""})
        progress = Progress()
        with live.watch() as channel:
            async for one in channel:
                line = progress.line(one)
                if line is not None:
                    yield delta({"reasoning_content": line})
        try:
            result = await live.outcome()
            # The answer comes when it is final: what was sent can't be taken back.
            for piece in pieces(answer_of(result)):
                yield delta({"content": piece})
        except ApiError as error:
            yield event(api_error(error).body())
            return
        annotations = _annotations(result, live, base_url)
        if annotations:
            yield delta({"annotations": annotations})
        yield delta({}, "stop")
        if wants_usage:
            yield chunk([], usage=_usage(result))
        yield event("[DONE]")
    finally:
        await service.interrupt(live)


def _annotations(result: RunResult, live: Live, base_url: str) -> list[dict[str, Any]]:
    return [
        {"type": one.pop("type"), "url_citation": one}
        for one in annotations_of(result, live.run_id, base_url)
    ]


def _usage(result: RunResult) -> dict[str, Any]:
    tokens = tokens_of(result)
    return {
        "prompt_tokens": tokens["input"],
        "completion_tokens": tokens["output"],
        "total_tokens": tokens["input"] + tokens["output"],
        "prompt_tokens_details": {"cached_tokens": tokens["cached"]},
        "completion_tokens_details": {"reasoning_tokens": tokens["reasoning"]},
    }
