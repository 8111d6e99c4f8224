"""What every request passes first: the Host, the Origin, the size of the body, the number of requests.

A page of a stranger in a browser can send requests to a server on this machine: under a name of its own that
leads here (DNS rebinding; the Host tells), or across origins (the Origin and Sec-Fetch-Site tell).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlm.escaping import json_bytes
from rlm.server.config import ServerConfig, is_loopback
from rlm.server.errors import ApiError

__all__ = ["Gate"]

_BODY_SECONDS = 30.0
"""The longest pause of a client within a body."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
UPLOADS = ("/v1/files", "/v1/documents")
"""Paths whose bodies are files."""


class Gate:
    """An ASGI application in front of `app`. `observe` gets the route, the method, the status and the seconds
    of each request."""

    def __init__(
        self, app: ASGIApp, config: ServerConfig, observe: Callable[[str, str, int, float], None]
    ) -> None:
        self._app = app
        self._config = config
        self._observe = observe
        self._open = 0
        self._names = _names(config)
        self._allows_addresses = not is_loopback(config.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        began, status = time.monotonic(), 500

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": _with_safe_headers(message.get("headers", []))}
            await send(message)

        self._open += 1
        try:
            refusal = self._refusal(scope)
            if refusal is not None:
                body = json_bytes(refusal.body())
                answer = Response(body, refusal.status, refusal.headers, "application/json")
                await answer(scope, receive, watched_send)
            else:
                await self._app(scope, self._limited(scope, receive), watched_send)
        finally:
            self._open -= 1
            route = getattr(scope.get("route"), "path", "other")
            self._observe(route, scope["method"], status, time.monotonic() - began)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        if self._open > self._config.connections:
            return ApiError(503, "the server has too many requests at a time; try again", kind="server_error",
                            code="overloaded", headers={"retry-after": "1"})  # fmt: skip
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            return ApiError(
                403,
                f"the host {hosts[0] if hosts else ''!r} is not a name of this server; its operator may add "
                "it with --host-name",
                code="host_not_allowed",
            )
        origins = headers.get("origin", [])
        if any(not self._allows_origin(origin, hosts[0]) for origin in origins) or len(origins) > 1:
            return ApiError(
                403,
                f"pages of {origins[0]!r} may not call this server; its operator may add it with --origin",
                code="origin_not_allowed",
            )
        site = headers.get("sec-fetch-site", ["none"])
        if not origins and site[0] in ("cross-site", "same-site"):
            return ApiError(403, "pages of other sites may not call this server", code="origin_not_allowed")
        length = headers.get("content-length", ["0"])[0]
        if length.isdecimal() and int(length) > self._limit(scope):
            return self._too_large(scope)
        return None

    def _is_own(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if any(char in host for char in "/@\\ ,"):
            return False
        name = name.rstrip(".")
        return name in self._names or (self._allows_addresses and _is_address(name))

    def _allows_origin(self, origin: str, host: str) -> bool:
        if origin in self._config.origins:
            return True
        # The scheme is that of a proxy in front, so only host and port are compared.
        return urlsplit(origin).scheme in ("http", "https") and urlsplit(origin).netloc == host

    def _limit(self, scope: Scope) -> int:
        is_upload = scope["method"] == "POST" and scope["path"] in UPLOADS
        # A multipart body is somewhat larger than its file.
        return ((self._config.upload_mb + 1) if is_upload else self._config.body_mb) << 20

    def _too_large(self, scope: Scope) -> ApiError:
        return ApiError(
            413,
            f"the body is above {self._limit(scope) >> 20} MB; upload long texts as files (/v1/files)",
            code="body_too_large",
        )

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        limit, size, is_complete = self._limit(scope), 0, False

        async def limited() -> MutableMapping[str, Any]:
            nonlocal size, is_complete
            if is_complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), _BODY_SECONDS)
            except TimeoutError:
                raise HTTPException(408, f"no byte of the body came for {_BODY_SECONDS:.0f} s") from None
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                is_complete = not message.get("more_body", False)
                if size > limit:
                    raise HTTPException(413, self._too_large(scope).message)
            return message

        return limited


def _names(config: ServerConfig) -> frozenset[str]:
    own = {name.lower().rstrip(".") for name in config.host_names}
    if is_loopback(config.host):
        return frozenset(own | _LOCAL_NAMES)
    return frozenset(own | {config.host.lower().strip("[]"), socket.gethostname().lower(), *_LOCAL_NAMES})


def _is_address(name: str) -> bool:
    # A page of a stranger has a name: an address can't be rebound.
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_safe_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    kept = [*headers, *(header for header in _SAFE_HEADERS if header[0] not in given)]
    return kept if b"cache-control" in given else [*kept, (b"cache-control", b"no-store")]
