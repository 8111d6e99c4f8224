"""MCP servers whose tools the cells of a run may call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec

from rlm.children.tools import Toolbox
from rlm.config_file.mcp_servers import McpServer
from rlm.errors import ConfigurationError
from rlm.events import Event, Warned
from rlm.version import install_command

__all__ = ["open_toolbox", "require_mcp"]


def require_mcp() -> None:
    """Check that the extra is installed. Raises ConfigurationError."""
    if find_spec("mcp") is None:
        raise ConfigurationError(f"MCP needs the extra mcp: {install_command('mcp')}")


@asynccontextmanager
async def open_toolbox(
    own: Toolbox, servers: Sequence[McpServer], tell: Callable[[Event], None]
) -> AsyncIterator[Toolbox]:
    """Give the tools of `own` and those of the servers, which run until the end of the block. Tools that are
    left out are told as warnings. Raises ConfigurationError if the extra is missing or
    a server does not start."""
    if not servers:
        yield own
        return
    require_mcp()
    from rlm.children.tool_servers.connection import open_servers  # imports the SDK, which takes a second

    async with open_servers(servers) as (tools, left_out):
        for line in left_out:
            tell(Warned(line))
        yield own.extended(tools)
