"""/v1/runs, /v1/summaries and /v1/research: start, list, watch, cancel and resume runs."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from sse_starlette import ServerSentEvent

from rlm.events import Event
from rlm.journal import Journal
from rlm.journal.served import ServedRun
from rlm.server.auth import UserCaller
from rlm.server.errors import ApiError, not_there
from rlm.server.native.schemas import (
    ErrorBody,
    ResearchBody,
    Run,
    RunBody,
    Runs,
    SummaryBody,
    Usage,
    parts_of,
)
from rlm.server.replies import EventStream, Json, event
from rlm.server.work.live import Live
from rlm.server.work.request import WorkRequest
from rlm.server.work.service import ENDED, Service

__all__ = ["ERRORS", "router"]

_TASK_SHOWN = 2_000
_POLL_SECONDS = 1.0
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503)
}
router = APIRouter(prefix="/v1", tags=["runs"], responses=ERRORS)


def service_of(request: Request) -> Service:
    """Return the service of the application."""
    service: Service = request.app.state.service
    return service


@router.post("/runs", status_code=202, response_model=Run)
async def start_run(body: RunBody, request: Request, caller: UserCaller) -> Json:
    """Ask a question over a context. The answer comes later: watch the events, or read the run."""
    options = {"attempts": body.attempts} if body.attempts > 1 else {}
    asked = WorkRequest("run", body.task, parts_of(body.context), body.answer_schema, body.limits, options)
    return await _accept(request, caller, asked)


@router.post("/summaries", status_code=202, response_model=Run)
async def start_summary(body: SummaryBody, request: Request, caller: UserCaller) -> Json:
    """Summarize a context. The summary is `result.summary` of the run."""
    options: dict[str, Any] = {"kind": body.kind, "tokens": body.tokens, "focus": body.focus}
    asked = WorkRequest("summary", "summarize", parts_of(body.context), None, body.limits, options)
    return await _accept(request, caller, asked)


@router.post("/research", status_code=202, response_model=Run)
async def start_research(body: ResearchBody, request: Request, caller: UserCaller) -> Json:
    """Research a task. The report is `result.report` of the run."""
    asked = WorkRequest(
        "research", body.task, parts_of(body.context), None, body.limits, {"most": body.questions}
    )
    return await _accept(request, caller, asked)


@router.get("/runs", response_model=Runs)
async def list_runs(
    request: Request,
    caller: UserCaller,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
    before: Annotated[str | None, Query(max_length=64)] = None,
) -> Json:
    """List your runs, newest first, without their results."""
    found = await service_of(request).runs.list(caller.user, limit=limit + 1, before=before)
    shown = [_to_json(run, full=False) for run in found[:limit]]
    return Json({"object": "list", "data": shown, "has_more": len(found) > limit})


@router.get("/runs/{run_id}", response_model=Run)
async def read_run(run_id: str, request: Request, caller: UserCaller) -> Json:
    """Read a run of yours, with its result once it has ended."""
    return Json(_to_json(await service_of(request).get(run_id, caller)))


@router.delete("/runs/{run_id}")
async def delete_run(run_id: str, request: Request, caller: UserCaller) -> Json:
    """Delete a run that has ended, with its steps. What it cost still counts."""
    service = service_of(request)
    await service.delete(await service.get(run_id, caller))
    return Json({"id": run_id, "object": "run", "deleted": True})


@router.post("/runs/{run_id}/cancel", response_model=Run)
async def cancel_run(run_id: str, request: Request, caller: UserCaller) -> Json:
    """Cancel a run. One that has ended stays as it is."""
    service = service_of(request)
    await service.cancel(await service.get(run_id, caller))
    return Json(_to_json(await service.get(run_id, caller)))


@router.post("/runs/{run_id}/resume", status_code=202, response_model=Run)
async def resume_run(run_id: str, request: Request, caller: UserCaller) -> Json:
    """Resume a run that was cancelled or interrupted, or whose provider failed. Paid replies are reused."""
    service = service_of(request)
    await service.resume(await service.get(run_id, caller), caller)
    return Json(_to_json(await service.get(run_id, caller)), 202)


@router.get("/runs/{run_id}/citations/{number}")
async def read_citation(run_id: str, number: int, request: Request, caller: UserCaller) -> Json:
    """Read a citation of an answer, from 1."""
    run = await service_of(request).get(run_id, caller)
    citations = (run.outcome or {}).get("citations", [])
    if not 1 <= number <= len(citations):
        raise not_there("citation", str(number)[:20])
    return Json(citations[number - 1])


@router.get(
    "/runs/{run_id}/events",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {"text/event-stream": {}}, "description": "The events as they happen."}},
)
async def watch_run(
    run_id: str,
    request: Request,
    caller: UserCaller,
    last_event_id: Annotated[str | None, Header()] = None,
) -> EventStream:
    """Watch a run. Events with an id are the steps in its journal, from the first or behind `Last-Event-ID`.
    Those named `progress` have none: they say what the run does now, and are not repeated. The last event is
    `end`, with the run."""
    service = service_of(request)
    run = await service.get(run_id, caller)
    after = 0
    if last_event_id:
        if not re.fullmatch(r"\d{1,9}", last_event_id):
            raise ApiError(400, "Last-Event-ID is not the id of an event", param="Last-Event-ID")
        after = int(last_event_id)
    return EventStream(_events(service, run, after))


@router.get("/usage", response_model=Usage)
async def read_usage(request: Request, caller: UserCaller) -> Json:
    """Read what you have spent, and your budgets."""
    usage = await service_of(request).runs.usage(caller.user)
    key = caller.key
    budgets = {
        "day_budget_usd": None if key is None else key.day_usd,
        "month_budget_usd": None if key is None else key.month_usd,
    }
    return Json({"user": caller.user, **usage, **budgets})


async def _accept(request: Request, caller: UserCaller, asked: WorkRequest) -> Json:
    service = service_of(request)
    live = await service.submit(caller, "native", asked)
    run = await service.get(live.run_id, caller)
    return Json(_to_json(run), 202, headers={"location": f"/v1/runs/{run.run_id}"})


def _to_json(run: ServedRun, *, full: bool = True) -> dict[str, Any]:
    outcome = run.outcome or {}
    error = outcome.get("error") if run.state == "failed" else None
    return {
        "id": run.run_id,
        "object": "run",
        "kind": run.kind,
        "status": run.state,
        "task": run.request["task"][:_TASK_SHOWN],
        "created_at": run.created_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "cost_usd": run.cost_usd,
        "result": dict(outcome) if full and outcome and run.state == "finished" else None,
        "error": error,
    }


async def _events(service: Service, run: ServedRun, after: int) -> AsyncIterator[ServerSentEvent]:
    """Yield the steps behind `after` and what happens meanwhile, to the end of the run."""
    live = service.live(run)
    if live is not None:
        async for one in _live_events(service, run, live, after):
            if one.id is not None:
                after = int(one.id)
            yield one
    run = await _present(service, run)
    async for one in _steps(service.journal, run.journal_id, after):
        yield one
    yield event(_to_json(run), name="end")


async def _live_events(
    service: Service, run: ServedRun, live: Live, after: int
) -> AsyncIterator[ServerSentEvent]:
    journal_id = run.journal_id
    with live.watch() as channel:
        is_open = True
        while is_open:
            events, is_open = await channel.wait(_POLL_SECONDS)
            journal_id = (await _present(service, run)).journal_id
            async for step in _steps(service.journal, journal_id, after):
                after = int(step.id or after)
                yield step
            for one in events:
                yield event(_progress(service, one), name="progress")


async def _present(service: Service, run: ServedRun) -> ServedRun:
    return await service.runs.get(run.run_id, run.user_name) or run


async def _steps(journal: Journal, journal_id: str, after: int) -> AsyncIterator[ServerSentEvent]:
    if not await journal.holds(journal_id):
        return
    for step in await journal.events(journal_id, after=after):
        yield event({"at": step.at, "kind": step.kind, **step.data}, name=step.kind, id=step.seq)


def _progress(service: Service, one: Event) -> dict[str, Any]:
    """Return an event as `--trace` writes it."""
    described: dict[str, Any] = service.redact({"event": type(one).__name__, **asdict(one)})
    return described


def is_ended(run: ServedRun) -> bool:
    """Return whether a run has ended."""
    return run.state in ENDED
