"""/v1/runs: start, read, watch, cancel and resume runs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sse_starlette import ServerSentEvent

from rlm.escaping import json_bytes
from rlm.results import RunResult
from rlm.runs.stored_run import stored_result
from rlm.server.contexts import ContextPart, Part
from rlm.server.errors import ApiError, not_there
from rlm.server.live import LiveRun, RequestLimits, Runs
from rlm.server.replies import ERRORS, EventStream, Json, event

__all__ = ["check_schema", "router", "runs_of"]

_TASK_SHOWN = 2_000
_POLL_SECONDS = 1.0
_MAX_PARTS = 1_000
_MAX_SCHEMA = 256 * 1024
_Text = Annotated[str, Field(min_length=1)]
_Parts = Annotated[list[ContextPart], Field(max_length=_MAX_PARTS)]
router = APIRouter(prefix="/v1", tags=["runs"], responses=ERRORS)


def check_schema(schema: Any) -> Any:
    """Return the schema. Raises ValueError if it is too large: checking one takes its time."""
    if schema is not None and len(json_bytes(schema)) > _MAX_SCHEMA:
        raise ValueError(f"the schema is above {_MAX_SCHEMA >> 10} kB")
    return schema


class RunBody(BaseModel):
    """A question. Without a context, the model reasons and computes, and says so."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    task: Annotated[str, Field(min_length=1, max_length=200_000)]
    context: (
        Annotated[str, Field(min_length=1)]
        | Annotated[list[ContextPart], Field(max_length=_MAX_PARTS)]
        | None
    ) = Field(default=None, description="A text, or a list of parts.")
    answer_schema: Annotated[dict[str, Any] | None, AfterValidator(check_schema)] = Field(
        default=None, alias="schema", description="A JSON Schema for the answer."
    )
    limits: RequestLimits = Field(default_factory=RequestLimits)

    def parts(self) -> tuple[Part, ...] | None:
        """Return the parts of the context."""
        if self.context is None or isinstance(self.context, str):
            return None if self.context is None else ({"text": self.context},)
        return tuple(part.model_dump(exclude_none=True) for part in self.context) or None


class Run(BaseModel):
    """A run. `result` is there once it has ended: the result as `rlm ask --json` prints it."""

    id: str
    object: Literal["run"] = "run"
    status: Literal["queued", "running", "finished", "failed", "cancelled", "interrupted"]
    task: str
    created_at: float
    doing: str | None
    cost_usd: float | None
    result: dict[str, Any] | None
    error: dict[str, Any] | None


def runs_of(request: Request) -> Runs:
    """Return the runs of the application."""
    runs: Runs = request.app.state.runs
    return runs


@router.post("/runs", status_code=202, response_model=Run)
async def start_run(body: RunBody, request: Request) -> Json:
    """Ask a question over a context. The answer comes later: watch the events, or read the run."""
    runs = runs_of(request)
    run = await runs.submit(body.task, body.parts(), body.answer_schema, body.limits)
    return Json(await _describe(runs, run.run_id), 202, headers={"location": f"/v1/runs/{run.run_id}"})


@router.get("/runs/{run_id}", response_model=Run)
async def read_run(run_id: str, request: Request) -> Json:
    """Read a run, with its result once it has ended."""
    return Json(await _describe(runs_of(request), run_id))


@router.post("/runs/{run_id}/cancel", response_model=Run)
async def cancel_run(run_id: str, request: Request) -> Json:
    """Cancel a run. One that has ended stays as it is."""
    runs = runs_of(request)
    if (run := runs.live(run_id)) is not None:
        await runs.stop_run(run, "cancelled")
    return Json(await _describe(runs, run_id))


@router.post("/runs/{run_id}/resume", status_code=202, response_model=Run)
async def resume_run(run_id: str, request: Request) -> Json:
    """Resume a run that was cancelled or interrupted, or whose provider failed. Paid replies are reused."""
    runs = runs_of(request)
    await runs.resume(run_id)
    return Json(await _describe(runs, run_id), 202)


@router.get(
    "/runs/{run_id}/events",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {"text/event-stream": {}}, "description": "The events as they happen."}},
)
async def watch_run(
    run_id: str, request: Request, last_event_id: Annotated[str | None, Header()] = None
) -> EventStream:
    """Watch a run. Events with an id are the steps in its journal, from the first or behind `Last-Event-ID`.
    Those named `progress` have none: they say what the run does now, and are not repeated. The last event is
    `end`, with the run."""
    runs = runs_of(request)
    await _describe(runs, run_id)
    after = 0
    if last_event_id:
        if not re.fullmatch(r"[0-9]{1,9}", last_event_id):
            raise ApiError(400, "Last-Event-ID is not the id of an event", param="Last-Event-ID")
        after = int(last_event_id)
    return EventStream(_events(runs, run_id, after))


async def _describe(runs: Runs, run_id: str) -> dict[str, Any]:
    """Return a run as its clients read it. Raises ApiError (404)."""
    live = runs.live(run_id)
    summary = await runs.journal.get(run_id) if await runs.holds(run_id) else None
    if live is not None:
        state, task, created_at = live.state, live.task, live.created_at
    elif summary is not None:
        state, task, created_at = summary.state, summary.task, summary.started_at
    else:
        raise not_there("run", run_id[:80])
    result = await _result(runs, run_id, live) if state == "finished" else None
    return {
        "id": run_id,
        "object": "run",
        "status": state,
        "task": task[:_TASK_SHOWN],
        "created_at": created_at,
        "doing": runs.redaction.blank(live.status.line) if live is not None and state == "running" else None,
        "cost_usd": (await runs.statuses.read(summary)).cost_usd if summary is not None else 0.0,
        "result": None if result is None else {**result.to_json(), "text": result.text},
        "error": None if live is None or live.error is None else live.error.body()["error"],
    }


async def _result(runs: Runs, run_id: str, live: LiveRun | None) -> RunResult | None:
    if live is not None and live.result is not None:
        return live.result
    return stored_result(run_id, await runs.journal.events(run_id))


async def _events(runs: Runs, run_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    """Yield the steps behind `after` and what happens meanwhile, to the end of the run."""
    if (live := runs.live(run_id)) is not None:
        with live.watch() as channel:
            is_open = True
            while is_open:
                events, is_open = await channel.wait(_POLL_SECONDS)
                async for step in _steps(runs, run_id, after):
                    after = int(step.id or after)
                    yield step
                for one in events:
                    yield event(runs.as_progress(one), name="progress")
    async for step in _steps(runs, run_id, after):
        yield step
    yield event(await _describe(runs, run_id), name="end")


async def _steps(runs: Runs, run_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    if not await runs.journal.holds(run_id):
        return
    for step in await runs.journal.events(run_id, after=after):
        yield event({"at": step.at, "kind": step.kind, **step.data}, name=step.kind, id=step.seq)
