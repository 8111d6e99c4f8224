"""Connections to MCP servers that a hostile server cannot flood: no message of one is above a fixed size."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import IO, Any

import anyio
import httpx2
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from rlm.config_file.mcp_servers import McpServer
from rlm.errors import ConfigurationError

__all__ = ["MAX_MESSAGE", "open_transport"]

MAX_MESSAGE = 16 * 2**20
"""Bytes of one message of a server."""
_END_SECONDS = 2.0


@asynccontextmanager
async def open_transport(
    server: McpServer, variables: Mapping[str, str], errors: IO[bytes], *, seconds: float
) -> AsyncIterator[tuple[Any, Any]]:
    """Give the streams of messages from and to a server. A program that is started gets `errors` as its
    stderr, and ends with the connection, its children too. Raises ConfigurationError and OSError."""
    if server.url:
        headers = server.filled_headers(variables)
        # No timeout of a reply: a tool may take long, and each call has a timeout of its own.
        timeout = httpx2.Timeout(seconds, read=None)
        http = httpx2.AsyncClient(
            headers=headers, timeout=timeout, transport=_BoundedTransport(), trust_env=False
        )
        async with http, streamable_http_client(server.url, http_client=http) as streams:
            yield streams[0], streams[1]
        return
    try:
        process = await asyncio.create_subprocess_exec(
            server.command,
            *server.args,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**get_default_environment(), **server.filled_env(variables)},
            start_new_session=True,
            limit=MAX_MESSAGE,
        )
    except OSError as error:
        raise ConfigurationError(
            f"MCP server {server.name} cannot be started: {server.command!r:.200}: {error.strerror}; check "
            f"mcp.{server.name}.command"
        ) from None
    try:
        async with _streams(process) as streams:
            yield streams
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


@asynccontextmanager
async def _streams(process: asyncio.subprocess.Process) -> AsyncGenerator[tuple[Any, Any], None]:
    to_us, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, to_server = anyio.create_memory_object_stream[SessionMessage](0)
    assert process.stdout is not None
    assert process.stdin is not None
    stdout, stdin = process.stdout, process.stdin

    async def read() -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with to_us:
                while True:
                    try:
                        line = await stdout.readline()
                    except ValueError:
                        raise ConnectionError(f"it sent a message above {MAX_MESSAGE >> 20} MB") from None
                    if not line:
                        return
                    try:
                        message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                    except ValueError:
                        continue  # no message: many servers print their greeting to stdout
                    await to_us.send(message)

    async def write() -> None:
        with suppress(OSError, anyio.ClosedResourceError):
            async with to_server:
                async for message in to_server:
                    data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    stdin.write(data.encode() + b"\n")
                    await stdin.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
        try:
            yield received, sent
        finally:
            group.cancel_scope.cancel()
            for stream in (to_us, received, sent, to_server):
                stream.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let a server end by itself, then end its whole process group."""
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_SECONDS)
    # Its pipe would be closed after the event loop.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Cuts the connection in a reply of JSON above the limit. Events are bounded one by one by the client."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedStream(response.stream)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_MESSAGE:
                raise httpx2.ReadError(f"a reply above {MAX_MESSAGE >> 20} MB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
