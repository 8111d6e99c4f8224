"""The server over streamable HTTP, on this machine only."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rlm.listening import HttpServer, listen

__all__ = ["LOOPBACK", "open_app", "serve_http"]

LOOPBACK = "127.0.0.1"
_MAX_BODY = 8 * 2**20


async def serve_http(
    server: MCPServer[Any], token: str, *, port: int = 0, on_started: Callable[[str], None]
) -> None:
    """Serve until the task is cancelled. `on_started` gets the URL. Requests need `token`, a Host of this
    machine, and no Origin of another one. Raises ConfigurationError for a port that is in use."""
    config = uvicorn.Config(
        make_app(server, token),
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=5,
        server_header=False,
    )
    sockets = [listen(LOOPBACK, port)]
    address = sockets[0].getsockname()
    running = HttpServer(config)
    task = asyncio.ensure_future(running.serve(sockets=sockets))
    try:
        while not running.started and not task.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.02)
        on_started(f"http://{address[0]}:{address[1]}/mcp")
        await asyncio.shield(task)
    finally:
        running.should_exit = True
        await asyncio.wait([task])


def open_app(server: MCPServer[Any]) -> Starlette:
    """Return the application for a server with a gate of its own. Its lifespan must run."""
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(transport_security=security, max_request_body_size=_MAX_BODY)


def make_app(server: MCPServer[Any], token: str) -> ASGIApp:
    """Return the application for this machine, which asks for the token."""
    names = [LOOPBACK, "localhost", "[::1]"]
    security = TransportSecuritySettings(
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[f"http://{name}{port}" for name in names for port in ("", ":*")],
    )
    app = server.streamable_http_app(
        host=LOOPBACK, transport_security=security, max_request_body_size=_MAX_BODY
    )
    return _Guard(app, token)


class _Guard:
    """Asks every request for the bearer token, before anything else looks at it."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, self._expected):
                refusal = PlainTextResponse(
                    "give the token that rlm mcp printed: Authorization: Bearer TOKEN\n",
                    status_code=401,
                    headers={"WWW-Authenticate": "Bearer"},
                )
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)
