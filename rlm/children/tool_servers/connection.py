"""Open MCP servers for a run, list their tools, and call them. The servers live on the driver's side."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import IO, Any

from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult, Implementation, PaginatedRequestParams
from mcp.types import Tool as ListedTool

from rlm.children.tool_servers.definitions import MAX_LISTED, tools_of
from rlm.children.tool_servers.transports import open_transport
from rlm.children.tools import Tool
from rlm.config_file.mcp_servers import McpServer
from rlm.errors import ConfigurationError
from rlm.escaping import terminal_line, terminal_text
from rlm.sandbox.host.requests import BadCall
from rlm.version import __version__

__all__ = ["open_servers"]

_START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_MAX_PAGES = 10
_MAX_TEXT = 200_000
_MAX_ERROR = 300
_MAX_FAULT = 2_000
_STDERR_SHOWN = 400


@asynccontextmanager
async def open_servers(servers: Sequence[McpServer]) -> AsyncIterator[tuple[list[Tool], list[str]]]:
    """Start all servers, and give their tools and a line for each tool that is left out. They end with the
    block. Raises ConfigurationError if one does not start."""
    async with AsyncExitStack() as stack:
        opened = [_Connection(server) for server in servers]
        for connection in opened:
            stack.push_async_callback(connection.close)
        async with asyncio.TaskGroup() as group:
            listings = [group.create_task(_outcome(connection)) for connection in opened]
        tools: list[Tool] = []
        left_out: list[str] = []
        for connection, listing in zip(opened, listings, strict=True):
            listed = listing.result()
            if isinstance(listed, Exception):
                raise listed
            made, lines = tools_of(connection.server.name, listed, connection.call, connection.server.tools)
            tools += made
            left_out += lines
        yield tools, left_out


async def _outcome(connection: _Connection) -> list[ListedTool] | Exception:
    try:
        return await connection.open()
    except ConfigurationError as error:
        return error


class _Session(ClientSession):
    """Leaves results unchecked: a schema of the server may hold a pattern that takes for ever, and cells get
    plain JSON anyway."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        """Accept any result."""


class _Connection:
    """One server. A task of its own holds the connection, so that it may be opened and closed anywhere."""

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._session: ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._listed: asyncio.Future[list[ListedTool]] = asyncio.get_running_loop().create_future()
        self._fault = ""

    async def open(self) -> list[ListedTool]:
        """Start the server and return its tools. Raises ConfigurationError, with the end of its stderr."""
        self._task = asyncio.ensure_future(self._hold())
        waited: tuple[asyncio.Future[Any], ...] = (self._task, self._listed)
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self._listed.done() and not self._listed.cancelled():
            return self._listed.result()
        error = self._task.exception()
        if isinstance(error, ConfigurationError):
            raise error
        raise ConfigurationError(
            f"MCP server {self.server.name} does not answer{self._fault}; try its command by itself"
        )

    async def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool as a JSON value: what is structured, else its text. Raises BadCall."""
        session, task = self._session, self._task
        if session is None or task is None or task.done():
            raise self._ended()
        calling = asyncio.ensure_future(session.call_tool(tool, arguments))
        try:
            # A server that dies may leave its calls without an answer.
            await asyncio.wait((calling, task), return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise self._ended()
            result = calling.result()
        except (MCPError, RuntimeError, ValueError) as error:
            if isinstance(error, MCPError) and error.error.code == CONNECTION_CLOSED:
                self._closing.set()
                await asyncio.wait([task], timeout=_CLOSE_SECONDS)
                raise self._ended() from None
            raise BadCall("tool", f"{tool}: {_line(str(error)) or type(error).__name__}") from None
        finally:
            calling.cancel()
        if result.is_error:
            raise BadCall("tool", terminal_text(_text(result))[:_MAX_FAULT] or "the server reports an error")
        if result.structured_content is not None:
            return _only_result(result.structured_content)
        text = terminal_text(_text(result))
        if len(text) > _MAX_TEXT:
            return f"{text[:_MAX_TEXT]}… (cut: {len(text):,} characters; ask for less)"
        return text

    def _ended(self) -> BadCall:
        return BadCall("tool", f"MCP server {self.server.name} has ended{self._fault}")

    async def close(self) -> None:
        """End the connection, and the server if it was started."""
        self._closing.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            with suppress(asyncio.CancelledError, Exception):
                self._task.result()
        self._listed.cancel()

    async def _hold(self) -> None:
        with tempfile.TemporaryFile() as errors:
            try:
                transport = open_transport(self.server, os.environ, errors, seconds=_START_SECONDS)
                async with (
                    transport as (received, sent),
                    _Session(received, sent, client_info=_INFO) as session,
                ):
                    async with asyncio.timeout(_START_SECONDS):
                        await session.initialize()
                        listed = await _list_tools(session)
                    self._session = session
                    if not self._listed.done():
                        self._listed.set_result(listed)
                    await self._closing.wait()
            except ConfigurationError:
                raise
            except BaseException as error:
                self._fault = f": {_reason(error)}"
                raise
            finally:
                self._fault += _tail(errors)


_INFO = Implementation(name="rlm", version=__version__)


async def _list_tools(session: ClientSession) -> list[ListedTool]:
    listed: list[ListedTool] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None or len(listed) > MAX_LISTED * _MAX_PAGES:
            break
    return listed


def _text(result: CallToolResult) -> str:
    pieces = []
    for one in result.content:
        text = getattr(one, "text", None) or getattr(getattr(one, "resource", None), "text", None)
        pieces.append(text if isinstance(text, str) else f"[{one.type}: not shown]")
    return "\n".join(pieces)


def _only_result(structured: Mapping[str, Any]) -> Any:
    """Return a value that the SDK wrapped: it puts what is not a table under `result`."""
    return structured["result"] if structured.keys() == {"result"} else structured


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, TimeoutError):
        return f"no answer within {_START_SECONDS:g} s"
    return _line(str(error)) or type(error).__name__


def _tail(errors: IO[bytes]) -> str:
    """Return the end of a server's stderr, for a message."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _STDERR_SHOWN))
    said = _line(errors.read().decode("utf-8", "replace"))
    return f" (it wrote: {said})" if said else ""


def _line(text: str) -> str:
    return terminal_line(" ".join(text.split()))[-_MAX_ERROR:]
