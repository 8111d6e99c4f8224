"""/view/: the page that shows runs.

A browser sends no bearer token, so the key is given once, in a form, for a session that lasts a day or until
the server stops.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Cookie, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from sse_starlette import ServerSentEvent

from rlm.errors import JournalError
from rlm.lazy_dataclass import dataclass
from rlm.server.auth import Authenticator, Caller
from rlm.server.config import is_loopback
from rlm.server.errors import ApiError, not_there
from rlm.server.native.runs import ERRORS, service_of
from rlm.server.replies import EventStream, event
from rlm.server.work.service import Service
from rlm.viewer import DATA_HEADERS, PAGE_HEADERS, NoSuchView, page_bytes, page_json

__all__ = ["Sessions", "router"]

_COOKIE = "rlm_session"
_SECONDS = 86_400.0
_MOST = 10_000
_LISTED = 2_000
_FORM_POLICY = (
    "default-src 'none'; form-action 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
    "base-uri 'none'"
)
_FORM = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>rlm</title>
<style>
body {{ font: 16px system-ui; margin: 15vh auto; max-width: 22rem; padding: 0 1rem }}
:root {{ color-scheme: light dark }}
input, button {{ font: inherit; width: 100%; box-sizing: border-box; margin: .3rem 0; padding: .5rem }}
</style>
<h1>rlm</h1>
<form method="post" action="login"><label for="key">API key</label>
<input id="key" name="key" type="password" required autofocus autocomplete="current-password">
<button>Show my runs</button></form><p role="alert">{note}</p></html>
"""
router = APIRouter(prefix="/view", include_in_schema=False, responses=ERRORS)


@dataclass(frozen=True, slots=True)
class _Session:
    caller: Caller
    ends_at: float


class Sessions:
    """Who has given a key to the page, by the value of a cookie. Kept in memory only."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def begin(self, caller: Caller) -> str:
        """Return the cookie of a new session."""
        now = time.monotonic()
        self._sessions = {name: one for name, one in self._sessions.items() if one.ends_at > now}
        while len(self._sessions) >= _MOST:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = _Session(caller, now + _SECONDS)
        return name

    async def find(self, name: str | None, service: Service) -> Caller | None:
        """Return the caller of a session, unless it has ended or its key was revoked."""
        session = self._sessions.get(name or "")
        if session is None or session.ends_at < time.monotonic():
            return None
        caller = session.caller
        if caller.key is None:
            return caller
        key = await service.keys.get(caller.key.key_id)
        return caller if key is not None and key.revoked_at is None else None


async def _viewer(
    request: Request, rlm_session: Annotated[str | None, Cookie(max_length=100)] = None
) -> Caller | None:
    authenticator: Authenticator = request.app.state.authenticator
    if authenticator.is_open:
        return await authenticator.identify(None)
    sessions: Sessions = request.app.state.sessions
    return await sessions.find(rlm_session, service_of(request))


async def _required(caller: Annotated[Caller | None, Depends(_viewer)]) -> Caller:
    if caller is None:
        raise ApiError(401, "the session has ended: load the page again", code="missing_session")
    return caller


_Viewer = Annotated[Caller, Depends(_required)]


@router.get("/")
async def show_page(caller: Annotated[Caller | None, Depends(_viewer)]) -> Response:
    """Show the page, or a form for the key."""
    if caller is None:
        return _form("")
    return Response(page_bytes(), headers=dict(PAGE_HEADERS))


@router.get("/login")
async def leave_form() -> RedirectResponse:
    """Lead to the page: the address of the form was loaded again."""
    return RedirectResponse("./", 303)


@router.post("/login")
async def log_in(request: Request, key: Annotated[str, Form(max_length=200)]) -> Response:
    """Begin a session with a key."""
    authenticator: Authenticator = request.app.state.authenticator
    try:
        caller = await authenticator.identify(key.strip())
    except ApiError as error:
        return _form(f"{error.message[0].upper()}{error.message[1:]}.", 401)
    if not caller.may("user"):
        return _form("This key may read /metrics only.", 403)
    reply = RedirectResponse("./", 303)
    reply.set_cookie(
        _COOKIE,
        request.app.state.sessions.begin(caller),
        max_age=int(_SECONDS),
        path="/view/",
        httponly=True,
        samesite="strict",
        # Elsewhere the page is reached through TLS (docs/server.md), and only so.
        secure=not is_loopback(request.url.hostname or ""),
    )
    return reply


@router.get("/api/runs")
async def list_views(request: Request, caller: _Viewer) -> Response:
    """List the caller's runs, as the page needs them."""
    service = service_of(request)
    mine = {run.journal_id for run in await service.runs.list(caller.user, limit=_LISTED)}
    return _data({"runs": await service.views.runs(_LISTED, only=mine.__contains__)})


@router.get("/api/runs/{run_id}/live")
async def follow_view(run_id: str, request: Request, caller: _Viewer) -> EventStream:
    """Tell the page when a run has changed."""
    service = service_of(request)
    await _check_mine(service, run_id, caller)
    return EventStream(_changes(service, run_id))


@router.get("/api/runs/{run_id}/{path:path}")
async def read_view(run_id: str, path: str, request: Request, caller: _Viewer) -> Response:
    """Read a part of a run, as the page needs it."""
    service = service_of(request)
    await _check_mine(service, run_id, caller)
    try:
        return _data(await service.views.get(run_id, path))
    except (NoSuchView, JournalError):
        raise not_there("view", path[:100]) from None


async def _check_mine(service: Service, journal_id: str, caller: Caller) -> None:
    if not await service.runs.owns(journal_id, caller.user):
        raise not_there("run", journal_id[:80])


async def _changes(service: Service, run_id: str) -> AsyncIterator[ServerSentEvent]:
    async for change in service.views.follow(run_id):
        yield event(page_json(change).decode())
    yield event("{}", name="end")


def _data(value: Any) -> Response:
    return Response(page_json(value), headers=dict(DATA_HEADERS))


def _form(note: str, status: int = 200) -> Response:
    # The note is one of ours: nothing of a request is in it.
    headers = {"content-security-policy": _FORM_POLICY, "x-frame-options": "DENY"}
    return Response(_FORM.format(note=note), status, headers, "text/html; charset=utf-8")
