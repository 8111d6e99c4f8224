"""/v1/responses: the same in OpenAI's newer form, also in the background."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from sse_starlette import ServerSentEvent

from rlm.journal.served import ServedRun
from rlm.results import RunResult
from rlm.server.auth import Caller, UserCaller
from rlm.server.errors import ApiError, no_answer, not_there
from rlm.server.native.runs import ERRORS, service_of
from rlm.server.openai.conversation import CONVERSATION, Message, read_conversation, schema_of
from rlm.server.openai.models import check_model
from rlm.server.openai.response_stream import ResponseStream, response_json
from rlm.server.openai.results import answer_of, wait_for
from rlm.server.replies import EventStream, Json
from rlm.server.work.live import Live
from rlm.server.work.request import WorkRequest
from rlm.server.work.service import Service

__all__ = ["router"]

router = APIRouter(prefix="/v1", tags=["openai"], responses=ERRORS)
_PREFIX = "resp_"


class _Text(BaseModel):
    model_config = ConfigDict(extra="ignore")

    format: dict[str, Any] | None = None


class ResponseBody(BaseModel):
    """A response. Parameters of sampling are ignored; tools, images and audio are refused."""

    model_config = ConfigDict(extra="ignore")

    model: Annotated[str, Field(max_length=200)]
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    previous_response_id: Annotated[str, Field(max_length=80)] | None = None
    stream: bool | None = False
    background: bool | None = False
    text: _Text | None = None
    metadata: dict[str, str] | None = None
    tools: list[Any] | None = None


@router.post("/responses", response_class=Response)
async def create_response(body: ResponseBody, request: Request, caller: UserCaller) -> Response:
    """Answer an input over what stands before it. With `background`, read the response later by its id."""
    check_model(body.model)
    if body.tools:
        raise ApiError(
            400, "tools of a request are not supported: its operator gives the server its tools",
            code="unsupported_parameter", param="tools",
        )  # fmt: skip
    service = service_of(request)
    asked = await _request(service, caller, body)
    live = await service.submit(caller, "responses", asked)
    run = await service.get(live.run_id, caller)
    base_url = str(request.base_url)
    if body.stream:
        return EventStream(_events(service, run, live, base_url, stays=bool(body.background)))
    if body.background:
        return Json(_shown(run, base_url))
    result = await wait_for(service, live, request)
    answer_of(result)
    return Json(response_json(await service.get(live.run_id, caller), base_url, result=result))


@router.get("/responses/{response_id}")
async def read_response(response_id: str, request: Request, caller: UserCaller) -> Json:
    """Read a response of yours."""
    return Json(_shown(await _find(service_of(request), response_id, caller), str(request.base_url)))


@router.post("/responses/{response_id}/cancel")
async def cancel_response(response_id: str, request: Request, caller: UserCaller) -> Json:
    """Cancel a response that runs in the background."""
    service = service_of(request)
    await service.cancel(await _find(service, response_id, caller))
    return Json(_shown(await _find(service, response_id, caller), str(request.base_url)))


@router.delete("/responses/{response_id}")
async def delete_response(response_id: str, request: Request, caller: UserCaller) -> Json:
    """Delete a response that has ended."""
    service = service_of(request)
    await service.delete(await _find(service, response_id, caller))
    return Json({"id": response_id, "object": "response", "deleted": True})


async def _find(service: Service, response_id: str, caller: Caller) -> ServedRun:
    run = await service.runs.get(response_id.removeprefix(_PREFIX), caller.user)
    if run is None or run.face != "responses" or not response_id.startswith(_PREFIX):
        raise not_there("response", response_id[:80])
    return run


async def _request(service: Service, caller: Caller, body: ResponseBody) -> WorkRequest:
    given = [{"role": "user", "content": body.input}] if isinstance(body.input, str) else body.input
    messages = [] if body.instructions is None else [Message("developer", (body.instructions,))]
    for place, one in enumerate(given):
        kind, role = one.get("type", "message"), one.get("role")
        if kind == "reasoning":
            continue
        if kind != "message" or role not in ("system", "developer", "user", "assistant"):
            raise ApiError(400, "only messages and reasoning are supported", param=f"input.{place}")
        messages.append(Message.parse(role, one.get("content"), f"input.{place}.content"))
    before: list[dict[str, Any]] = []
    turns: list[dict[str, str]] = []
    if body.previous_response_id is not None:
        before, turns = _history(await _find(service, body.previous_response_id, caller))
    asked = read_conversation(messages, before, turns)
    schema = schema_of(None if body.text is None else body.text.format, "text.format")
    face = {
        "question": asked.question,
        "instructions": body.instructions,
        "previous": body.previous_response_id,
        "background": bool(body.background),
        "metadata": body.metadata or {},
        # The next response may continue this one, so its texts are kept.
        "keeps_texts": True,
    }
    return WorkRequest("run", asked.task, asked.context, schema, face=face)


def _history(run: ServedRun) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the parts of the context of an earlier response, and the messages up to its answer."""
    answer = (run.outcome or {}).get("text")
    if run.state != "finished" or answer is None:
        raise ApiError(
            400, f"the response {_PREFIX}{run.run_id} has no answer: it can't be continued",
            param="previous_response_id",
        )  # fmt: skip
    parts = list(run.request["context"] or ())
    turns: list[dict[str, str]] = []
    for part in [one for one in parts if one.get("name") == CONVERSATION and one.get("kind") == "json"]:
        parts.remove(part)
        turns += json.loads(part["text"])
    turns.append({"role": "user", "content": run.request["face"]["question"]})
    turns.append({"role": "assistant", "content": answer})
    return parts, turns


def _shown(run: ServedRun, base_url: str) -> dict[str, Any]:
    """Return a stored response. One without an answer has failed."""
    result = RunResult.from_json(run.outcome) if run.state == "finished" and run.outcome else None
    error = None
    if result is not None and result.answer is None:
        error = no_answer(result)
    elif run.state == "failed" and run.outcome:
        error = ApiError.from_json(dict(run.outcome))
    return response_json(run, base_url, result=result, error=error)


async def _events(
    service: Service, run: ServedRun, live: Live, base_url: str, *, stays: bool
) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of a response. The run is interrupted if the client leaves, unless it `stays`."""
    try:
        async for one in ResponseStream(run, live, base_url).events():
            yield one
    finally:
        if not stays:
            await service.interrupt(live)
