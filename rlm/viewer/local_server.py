"""A small HTTP server of this machine for the page: GET only, on loopback, behind a random address.

Other users of the machine can reach the port, and any web page the browser shows can send requests to it. So
every request must carry the token in its path and name this server as its host, which a page of another
origin (also one whose name was made to point here) cannot do.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rlm.errors import RLMError, UsageError
from rlm.escaping import page_json
from rlm.viewer.page_html import DATA_HEADERS, PAGE_HEADERS, page_bytes
from rlm.viewer.views import RunViews

__all__ = ["LocalServer"]

_LOG = logging.getLogger("rlm.viewer")
_LOG.addHandler(logging.NullHandler())  # a damaged request is no news for who looks at a run
_HOST = "127.0.0.1"
_HEAD_SECONDS = 10.0
_CONNECTIONS = 64
_BEAT_SECONDS = 15.0


class LocalServer:
    """Serves the page at `url`, and once at `opening_url`, which is for the command line of a browser: other
    users can read that."""

    def __init__(self, views: RunViews) -> None:
        self._views = views
        self._token = secrets.token_urlsafe(24)
        self._opening: str | None = secrets.token_urlsafe(24)
        self._port = 0
        self._silent: set[Any] = set()
        """The new connections that have not sent a request."""
        self._server = web.Server(self._answer, access_log=None, handler_cancellation=True, logger=_LOG)

    @classmethod
    @asynccontextmanager
    async def start(cls, views: RunViews, port: int = 0) -> AsyncIterator[LocalServer]:
        """Listen until the block ends. Port 0 takes any free one. Raises UsageError if the port is taken."""
        local = cls(views)
        try:
            server = await asyncio.get_running_loop().create_server(local._connect, _HOST, port)
        except OSError as error:
            raise UsageError(
                f"port {port} of {_HOST} can't be used: {error.strerror}. Give another --port, or none"
            ) from error
        local._port = server.sockets[0].getsockname()[1]
        try:
            yield local
        finally:
            server.close()
            await local._server.shutdown(0.1)

    @property
    def url(self) -> str:
        """The address of the page, which stays valid."""
        return f"http://{_HOST}:{self._port}/{self._token}/"

    def opening_url(self, fragment: str) -> str:
        """Return an address that leads to the page once."""
        return f"http://{_HOST}:{self._port}/{self._opening}{fragment}"

    def _connect(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection. One that sends no request soon is closed."""
        if len(self._server.connections) >= _CONNECTIONS:
            return _Refused()
        protocol = self._server()

        def close_silent() -> None:
            if protocol in self._silent:
                self._silent.discard(protocol)
                protocol.force_close()

        self._silent.add(protocol)
        asyncio.get_running_loop().call_later(_HEAD_SECONDS, close_silent)
        return protocol

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._silent.discard(request.protocol)
        if request.headers.getall("Host", []) not in ([f"{_HOST}:{self._port}"], [f"localhost:{self._port}"]):
            return _reply(421)
        if request.method not in ("GET", "HEAD"):
            return _reply(405, headers={**DATA_HEADERS, "Allow": "GET, HEAD"})
        token, slash, path = request.rel_url.path.removeprefix("/").partition("/")
        if not slash and self._opening is not None and _same(token, self._opening):
            self._opening = None
            return _reply(303, headers={**DATA_HEADERS, "Location": f"/{self._token}/"})
        if not slash or not _same(token, self._token):
            return _reply(404)
        try:
            return await self._route(path, request)
        except RLMError as error:
            # Before the first byte of a reply: a stream reports its own errors.
            return _reply(404, page_json({"error": str(error)}))

    async def _route(self, path: str, request: web.BaseRequest) -> web.StreamResponse:
        if path == "":
            return _reply(200, page_bytes(), PAGE_HEADERS)
        api, _, rest = path.partition("/")
        kind, _, rest = rest.partition("/")
        run, _, piece = rest.partition("/")
        if api != "api" or kind != "runs" or (run and not piece):
            return _reply(404)
        if not run:
            return _reply(200, page_json({"runs": await self._views.runs()}))
        if piece == "live":
            return await self._stream(run, request)
        return _reply(200, await asyncio.to_thread(page_json, await self._views.get(run, piece)))

    async def _stream(self, run: str, request: web.BaseRequest) -> web.StreamResponse:
        """Send each change of a run until it ends or the reader goes away."""
        changes = self._views.follow(run)
        try:
            change = await anext(changes)  # an unknown run raises here, and becomes a 404
            stream = web.StreamResponse(headers={**DATA_HEADERS, "Content-Type": "text/event-stream"})
            stream.force_close()
            await stream.prepare(request)
            upcoming: asyncio.Future[Any] | None = None
            try:
                while True:
                    await stream.write(b"data: " + page_json(change) + b"\n\n")
                    upcoming = asyncio.ensure_future(anext(changes))
                    while not (await asyncio.wait([upcoming], timeout=_BEAT_SECONDS))[0]:
                        await stream.write(b": still here\n\n")
                    change = upcoming.result()
            except (RLMError, StopAsyncIteration):
                await stream.write(b"event: end\ndata: {}\n\n")
            finally:
                if upcoming is not None and not upcoming.done():
                    upcoming.cancel()
                    await asyncio.wait([upcoming])
            return stream
        finally:
            await changes.aclose()


class _Refused(asyncio.Protocol):
    """Closes a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("ascii"))


def _reply(status: int, body: bytes = b"", headers: Mapping[str, str] = DATA_HEADERS) -> web.Response:
    reply = web.Response(status=status, body=body, headers={**headers, "Server": "rlm"})
    reply.force_close()
    return reply
