"""What every request passes first: the Host, the Origin, the token, the number of requests, the body.

A page of a stranger in a browser can send requests to a server on this machine: under a name of its own that
leads here (DNS rebinding; the Host tells), or across origins (the Origin and Sec-Fetch-Site tell).

JSON is weighed before it is parsed: parsing holds up all requests, and values take many times their bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import MutableMapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rlm.escaping import json_bytes
from rlm.sandbox.in_kernel.wire import MAX_WEIGHT, weight
from rlm.server.config import ServerConfig, is_loopback
from rlm.server.errors import ApiError, overloaded

__all__ = ["Gate"]

_BODY_SECONDS = 30.0
"""The longest pause of a client within a body."""
_MAX_STRINGS = 500_000
"""Strings of a body. Weighing more of them takes seconds."""
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_UPLOADS = "/v1/files"
"""The path whose bodies are files."""
_OPEN_PATHS = ("/healthz", "/openapi.json")
"""Paths that need no token."""


class Gate:
    """An ASGI application in front of `app`. `tokens` are those that it takes; None takes every request."""

    def __init__(self, app: ASGIApp, config: ServerConfig, tokens: Sequence[str] | None) -> None:
        self._app = app
        self._config = config
        self._tokens = None if tokens is None else [hashlib.sha256(one.encode()).digest() for one in tokens]
        self._open = 0
        self._held = 0
        """The bytes of the bodies of all open requests."""
        self._names = _names(config)
        self._allows_addresses = not is_loopback(config.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def safe_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _with_safe_headers(message.get("headers", []))}
            await send(message)

        self._open += 1
        body = _Body()
        try:
            self._check(scope)
            if scope["method"] == "POST" and scope["path"] == _UPLOADS:
                received: Receive | None = self._limited(receive)
            else:
                received = await self._read(scope, receive, body)
            if received is not None:
                await self._app(scope, received, safe_send)
        except ApiError as error:
            answer = Response(json_bytes(error.body()), error.status, error.headers, "application/json")
            await answer(scope, receive, safe_send)
        finally:
            self._open -= 1
            self._held -= body.size

    def _check(self, scope: Scope) -> None:
        """Raise ApiError for a request that is refused by its headers."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        if self._open > self._config.connections:
            raise ApiError(503, "the server has too many requests at a time; try again", kind="server_error",
                           code="overloaded", headers={"retry-after": "1"})  # fmt: skip
        hosts = headers.get("host", [])
        if len(hosts) != 1 or not self._is_own(hosts[0]):
            raise ApiError(
                403,
                f"the host {hosts[0] if hosts else ''!r} is not a name of this server; its operator may add "
                "it with --set host_name=NAME",
                code="host_not_allowed",
            )
        origins = headers.get("origin", [])
        if any(not self._allows_origin(origin, hosts[0]) for origin in origins) or len(origins) > 1:
            raise ApiError(
                403,
                f"pages of {origins[0]!r} may not call this server; its operator may set origin",
                code="origin_not_allowed",
            )
        site = headers.get("sec-fetch-site", ["none"])
        if not origins and site[0] in ("cross-site", "same-site"):
            raise ApiError(403, "pages of other sites may not call this server", code="origin_not_allowed")
        # A preflight holds no token. It gets nothing but the names of what is allowed.
        is_preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in headers
        if not is_preflight and scope["path"] not in _OPEN_PATHS:
            self._check_token(headers.get("authorization", []))
        length = headers.get("content-length", ["0"])[0]
        if length.isdecimal() and int(length) > self._limit(scope):
            raise _too_large(self._limit(scope))

    def _check_token(self, given: Sequence[str]) -> None:
        if self._tokens is None:
            return
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not token:
            raise ApiError(
                401,
                "no token was given: send it as `Authorization: Bearer TOKEN`",
                code="missing_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        digest = hashlib.sha256(token.encode("latin-1")).digest()
        if not any(hmac.compare_digest(digest, one) for one in self._tokens):
            raise ApiError(
                401, "the token is wrong", code="invalid_api_key", headers={"www-authenticate": "Bearer"}
            )

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
        is_upload = scope["method"] == "POST" and scope["path"] == _UPLOADS
        # A multipart body is somewhat larger than its file.
        return ((self._config.upload_mb + 1) if is_upload else self._config.body_mb) << 20

    async def _read(self, scope: Scope, receive: Receive, body: _Body) -> Receive | None:
        """Read a body whole, and return what yields it to the application; None if the client has left.
        Raises ApiError."""
        limit, more = self._limit(scope), True
        while more:
            message = await _next_message(receive)
            if message["type"] == "http.disconnect":
                return None
            piece: bytes = message.get("body", b"")
            body.pieces.append(piece)
            body.size += len(piece)
            self._held += len(piece)
            if body.size > limit:
                raise _too_large(limit)
            if self._held > self._config.held_mb << 20:
                raise overloaded("the server holds too many large requests at a time; try again")
            more = message.get("more_body", False)
        data = b"".join(body.pieces)
        body.pieces.clear()
        if data:
            kinds = [value for name, value in scope["headers"] if name == b"content-type"]
            if [kind.partition(b";")[0].strip().lower() for kind in kinds] != [b"application/json"]:
                raise ApiError(
                    415, "the body is not JSON by its type: send `content-type: application/json`",
                    code="not_json",
                )  # fmt: skip
            if data.count(b'"') - data.count(b'\\"') > 2 * _MAX_STRINGS or await asyncio.to_thread(
                lambda: weight(data) > MAX_WEIGHT
            ):
                raise ApiError(
                    413, "the body has too many values; join texts, or upload them as files (/v1/files)",
                    code="body_too_large",
                )  # fmt: skip
        is_given = False

        async def give() -> MutableMapping[str, Any]:
            nonlocal is_given, data
            if is_given:
                return await receive()
            is_given, given, data = True, data, b""
            return {"type": "http.request", "body": given, "more_body": False}

        return give

    def _limited(self, receive: Receive) -> Receive:
        """Return what yields an upload in pieces, up to the limit."""
        limit, size, is_complete = (self._config.upload_mb + 1) << 20, 0, False

        async def limited() -> MutableMapping[str, Any]:
            nonlocal size, is_complete
            if is_complete:
                return await receive()
            try:
                message = await _next_message(receive)
            except ApiError as error:
                raise HTTPException(error.status, error.message) from None
            if message["type"] == "http.request":
                size += len(message.get("body", b""))
                is_complete = not message.get("more_body", False)
                if size > limit:
                    raise HTTPException(413, _too_large(limit).message)
            return message

        return limited


class _Body:
    """The body of one request, as far as it has come."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.size = 0


async def _next_message(receive: Receive) -> Message:
    try:
        return await asyncio.wait_for(receive(), _BODY_SECONDS)
    except TimeoutError:
        raise ApiError(408, f"no byte of the body came for {_BODY_SECONDS:.0f} s", code="timeout") from None


def _too_large(limit: int) -> ApiError:
    return ApiError(
        413,
        f"the body is above {limit >> 20} MB; upload long texts as files (/v1/files)",
        code="body_too_large",
    )


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
