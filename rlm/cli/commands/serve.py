"""`rlm serve`: the HTTP server."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlm.cli.console.exits import say
from rlm.cli.options import Options, takes
from rlm.errors import ConfigurationError
from rlm.settings_table import JOURNAL, LIMITS, MODELS, RUN, SERVER
from rlm.version import install_command

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from rlm.server.config import ServerConfig

__all__ = ["serve"]

_TOKENS = "RLM_SERVER_TOKENS"

EXAMPLES = """\b
Examples:
  rlm serve --model openai:gpt-5 --sub-model openai:gpt-5-mini
  rlm serve --host 0.0.0.0 --set host_name=rlm.example.org --store postgresql://rlm@db/rlm

Requests need a bearer token: one of RLM_SERVER_TOKENS (separated by commas), or a new one that is printed.
Whoever has a token may read all runs and files of the server. The limits are those of each run: requests can
only lower them. On SIGTERM, runs may finish for drain_seconds (30); the others are interrupted, and can be
resumed.
"""


@takes(
    MODELS,
    RUN,
    LIMITS,
    JOURNAL,
    SERVER,
    "allow_host",
    "quiet",
    without=("dry_run",),
)
def serve(
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = 8080,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask for no token. Only at an address of this machine.")
    ] = False,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder below which requests may name paths. Repeatable.",
            show_default=False,
        ),
    ] = None,
    *,
    options: Options,
) -> None:
    """Serve questions over HTTP, also as a drop-in for OpenAI's API, and MCP at /mcp."""
    if options.no_document_cache:
        raise ConfigurationError(
            "--no-document-cache cannot be used here: runs resume from the input in the journal"
        )
    from rlm.store_file import default_store

    config = _config(
        files=default_store(os.environ).parent / "files",
        host=host,
        port=port,
        host_names=tuple(options.host_name or ()),
        origins=tuple(options.origin or ()),
        tokens=tuple(os.environ.get(_TOKENS, "").replace(",", " ").split()),
        needs_token=not no_auth,
        roots=tuple(root or ()),
        allow_urls=options.allow_urls,
        allow_hosts=tuple(options.allow_host or ()),
        at_once=options.runs_at_once,
        waiting=options.queue,
        body_mb=options.body_mb,
        upload_mb=options.upload_mb,
        drain_seconds=options.drain_seconds,
    )
    from rlm.server.serving import serve as serve_until_stopped

    asyncio.run(serve_until_stopped(options.rlm([]), config, say, _mcp(options, root or [])))


serve.__doc__ = f"{serve.__doc__}\n\n{EXAMPLES}"


def _mcp(options: Options, roots: list[Path]) -> Starlette | None:
    """Return the application of MCP, None without the extra."""
    if importlib.util.find_spec("mcp") is None:
        return None
    from rlm.cli.commands.mcp import make_service
    from rlm.mcp.http import open_app
    from rlm.mcp.server import make_server

    return open_app(make_server(make_service(options, roots)))


def _config(**values: Any) -> ServerConfig:
    """Return the settings. Raises ConfigurationError if the extra is missing, or a setting is wrong."""
    try:
        import fastapi  # noqa: F401
        import sse_starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"rlm serve needs {error.name}: {install_command('server')}") from None
    from rlm.server.config import ServerConfig

    return ServerConfig(**values)
