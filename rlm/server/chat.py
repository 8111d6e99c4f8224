"""/v1/models and /v1/chat/completions: one model with an unbounded prompt."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sse_starlette import ServerSentEvent

from rlm.results import RunResult
from rlm.server.conversation import Message, read_conversation, schema_of
from rlm.server.errors import ApiError, api_error
from rlm.server.live import LiveRun, Runs
from rlm.server.native import check_schema, runs_of
from rlm.server.replies import ERRORS, EventStream, Json, event
from rlm.server.results import Progress, annotations_of, answer_of, pieces, usage_of, wait_for

__all__ = ["router"]

MODEL = "rlm"
_ENTRY = {"id": MODEL, "object": "model", "created": 1_767_225_600, "owned_by": "rlm"}
router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)


class _StreamOptions(BaseModel):
    include_usage: bool = False


class _ChatMessage(BaseModel):
    role: Annotated[str, Field(pattern="^(system|developer|user|assistant|tool|function)$")]
    content: str | list[dict[str, Any]] | None = None


class ChatBody(BaseModel):
    """A chat completion. Parameters of sampling are ignored; tools, images and audio are refused."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(max_length=200)]
    messages: list[_ChatMessage] = Field(min_length=1, max_length=10_000)
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    response_format: Annotated[dict[str, Any] | None, AfterValidator(check_schema)] = None
    n: int | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None


@router.get("/models")
async def list_models() -> Json:
    """List the models: `rlm`."""
    return Json({"object": "list", "data": [_ENTRY]})


@router.get("/models/{model}")
async def read_model(model: str) -> Json:
    """Read what is known of a model."""
    _check_model(model)
    return Json(_ENTRY)


@router.post("/chat/completions", response_class=Response)
async def complete_chat(body: ChatBody, request: Request) -> Response:
    """Answer the last user message over all that stands before it. The answer has citations as annotations;
    with `stream`, the progress comes as reasoning."""
    _check_model(body.model)
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
    conversation = read_conversation(messages)
    schema = schema_of(body.response_format, "response_format")
    runs = runs_of(request)
    run = await runs.submit(conversation.task, conversation.context, schema)
    base_url = str(request.base_url)
    if body.stream:
        wants_usage = body.stream_options is not None and body.stream_options.include_usage
        return EventStream(_chunks(runs, run, base_url, wants_usage=wants_usage))
    result = await wait_for(runs, run, request)
    message = {
        "role": "assistant",
        "content": answer_of(result),
        "refusal": None,
        "annotations": _annotations(result, run, base_url),
    }
    return Json(
        {
            "id": f"chatcmpl-{run.run_id}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
            "usage": usage_of(result),
        }
    )


async def _chunks(
    runs: Runs, run: LiveRun, base_url: str, *, wants_usage: bool
) -> AsyncIterator[ServerSentEvent]:
    created = int(time.time())

    def chunk(choices: list[dict[str, Any]], **more: Any) -> ServerSentEvent:
        return event(
            {
                "id": f"chatcmpl-{run.run_id}",
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
        with run.watch() as channel:
            async for one in channel:
                line = progress.line(one)
                if line is not None:
                    yield delta({"reasoning_content": runs.redaction.blank(line)})
        try:
            result = await run.outcome()
            # The answer comes when it is final: what was sent can't be taken back.
            for piece in pieces(answer_of(result)):
                yield delta({"content": piece})
        except ApiError as error:
            yield event(api_error(error).body())
            return
        annotations = _annotations(result, run, base_url)
        if annotations:
            yield delta({"annotations": annotations})
        yield delta({}, "stop")
        if wants_usage:
            yield chunk([], usage=usage_of(result))
        yield event("[DONE]")
    finally:
        await runs.stop_run(run, "interrupted")


def _annotations(result: RunResult, run: LiveRun, base_url: str) -> list[dict[str, Any]]:
    return [
        {"type": "url_citation", "url_citation": one} for one in annotations_of(result, run.run_id, base_url)
    ]


def _check_model(model: str) -> None:
    """Raise ApiError for a model that is not there. The models behind `rlm` are the operator's choice."""
    if model != MODEL:
        raise ApiError(
            404,
            f"there is no model {model[:100]!r} here: use {MODEL!r}",
            code="model_not_found",
            param="model",
        )
