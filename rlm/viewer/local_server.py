"""A small HTTP server of this machine for the page: GET only, on loopback, behind a random address.

Other users of the machine can reach the port, and any web page the browser shows can send requests to it. So
every request must carry the token in its path and name this server as its host, which a page of another
origin (also one whose name was made to point here) cannot do.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from rlm.errors import RLMError, UsageError
from rlm.escaping import page_json
from rlm.viewer.page_html import DATA_HEADERS, PAGE_HEADERS, page_bytes
from rlm.viewer.views import RunViews

__all__ = ["LocalServer"]

_HOST = "127.0.0.1"
_HEAD_BYTES = 16_384
_HEAD_SECONDS = 10.0
_SEND_SECONDS = 60.0
_CONNECTIONS = 64
_BEAT_SECONDS = 15.0
_STREAM = {**DATA_HEADERS, "Content-Type": "text/event-stream"}


class LocalServer:
    """Serves the page at `url`, and once at `opening_url`, which is for the command line of a browser: other
    users can read that."""

    def __init__(self, views: RunViews, port: int) -> None:
        self._views = views
        self._token = secrets.token_urlsafe(24)
        self._opening: str | None = secrets.token_urlsafe(24)
        self._connections = 0
        self._port = port

    @classmethod
    @asynccontextmanager
    async def start(cls, views: RunViews, port: int = 0) -> AsyncIterator[LocalServer]:
        """Listen until the block ends. Port 0 takes any free one. Raises UsageError if the port is taken."""
        local = cls(views, port)
        try:
            server = await asyncio.start_server(local._connect, _HOST, port, limit=_HEAD_BYTES)
        except OSError as error:
            raise UsageError(
                f"port {port} of {_HOST} can't be used: {error.strerror}. Give another --port, or none"
            ) from error
        local._port = server.sockets[0].getsockname()[1]
        tasks: set[asyncio.Task[None]] = set()
        local._tasks = tasks
        try:
            yield local
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    _tasks: set[asyncio.Task[None]]

    @property
    def url(self) -> str:
        """The address of the page, which stays valid."""
        return f"http://{_HOST}:{self._port}/{self._token}/"

    def opening_url(self, fragment: str) -> str:
        """Return an address that leads to the page once."""
        return f"http://{_HOST}:{self._port}/{self._opening}{fragment}"

    def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > _CONNECTIONS:
                await _send(writer, HTTPStatus.SERVICE_UNAVAILABLE, b"")
                return
            try:
                async with asyncio.timeout(_HEAD_SECONDS):
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
                await _send(writer, HTTPStatus.BAD_REQUEST, b"")
                return
            await self._answer(head, reader, writer)
        except (ConnectionError, TimeoutError):
            pass  # the browser went away
        finally:
            self._connections -= 1
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = head.split("\r\n")
        method, _, rest = first.partition(" ")
        target = rest.partition(" ")[0].partition("?")[0]
        hosts = [line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")]
        if hosts not in ([f"{_HOST}:{self._port}"], [f"localhost:{self._port}"]):
            await _send(writer, HTTPStatus.MISDIRECTED_REQUEST, b"")
            return
        if method not in ("GET", "HEAD"):
            await _send(writer, HTTPStatus.METHOD_NOT_ALLOWED, b"", {"Allow": "GET, HEAD"})
            return
        token, slash, path = target.removeprefix("/").partition("/")
        if not slash and self._opening is not None and _same(token, self._opening):
            self._opening = None
            await _send(writer, HTTPStatus.SEE_OTHER, b"", {"Location": f"/{self._token}/"})
            return
        if not slash or not _same(token, self._token):
            await _send(writer, HTTPStatus.NOT_FOUND, b"")
            return
        try:
            await self._route(unquote(path), method == "HEAD", reader, writer)
        except RLMError as error:
            # Before the first byte of a reply: a stream reports its own errors.
            await _send(writer, HTTPStatus.NOT_FOUND, page_json({"error": str(error)}), DATA_HEADERS)

    async def _route(
        self, path: str, is_head: bool, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if path == "":
            await _send(writer, HTTPStatus.OK, b"" if is_head else page_bytes(), PAGE_HEADERS)
            return
        api, _, rest = path.partition("/")
        kind, _, rest = rest.partition("/")
        run, _, piece = rest.partition("/")
        if api != "api" or kind != "runs" or (run and not piece):
            await _send(writer, HTTPStatus.NOT_FOUND, b"")
        elif not run:
            await _send(writer, HTTPStatus.OK, page_json({"runs": await self._views.runs()}), DATA_HEADERS)
        elif piece == "live":
            await self._stream(run, reader, writer)
        else:
            body = await asyncio.to_thread(page_json, await self._views.get(run, piece))
            await _send(writer, HTTPStatus.OK, body, DATA_HEADERS)

    async def _stream(self, run: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send each change of a run until it ends or the reader goes away."""
        changes = self._views.follow(run)
        # An unknown run raises here, and becomes a 404.
        upcoming: asyncio.Future[Any] = asyncio.ensure_future(anext(changes))
        await asyncio.wait([upcoming])
        gone: asyncio.Future[Any] = asyncio.ensure_future(reader.read(1))
        try:
            upcoming.result()
            await _send(writer, HTTPStatus.OK, None, _STREAM)
            while True:
                await asyncio.wait({upcoming, gone}, timeout=_BEAT_SECONDS, return_when="FIRST_COMPLETED")
                if gone.done():
                    return
                if not upcoming.done():
                    await _write(writer, b": still here\n\n")
                    continue
                try:
                    change = upcoming.result()
                except (RLMError, StopAsyncIteration):
                    await _write(writer, b"event: end\ndata: {}\n\n")
                    return
                await _write(writer, b"data: " + page_json(change) + b"\n\n")
                upcoming = asyncio.ensure_future(anext(changes))
        finally:
            for waiting in (upcoming, gone):
                waiting.cancel()
            await asyncio.gather(upcoming, gone, return_exceptions=True)
            await changes.aclose()


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1", "replace"), token.encode("ascii"))


async def _send(
    writer: asyncio.StreamWriter,
    status: HTTPStatus,
    body: bytes | None,
    headers: Mapping[str, str] = DATA_HEADERS,
) -> None:
    """Send the head of a reply and its body. With `body` None, a stream follows."""
    length = {} if body is None else {"Content-Length": str(len(body))}
    fields = {**DATA_HEADERS, **headers, **length, "Connection": "close"}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    await _write(
        writer, f"HTTP/1.1 {status.value} {status.phrase}\r\n{head}\r\n".encode("latin-1") + (body or b"")
    )


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(_SEND_SECONDS):
        await writer.drain()
