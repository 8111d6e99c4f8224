"""`rlm serve`: the HTTP server."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlm.cli.console.exits import say
from rlm.cli.options import RunOptions, takes_run_options
from rlm.errors import ConfigurationError
from rlm.version import install_command

if TYPE_CHECKING:
    from rlm.server.config import ServerConfig

__all__ = ["serve"]

_TOKENS = "RLM_SERVER_TOKENS"

EXAMPLES = """\b
Examples:
  rlm serve --model openai:gpt-5 --sub-model openai:gpt-5-mini
  rlm serve --host 0.0.0.0 --host-name rlm.example.org --store postgresql://rlm@db/rlm

Requests need a bearer token: one of RLM_SERVER_TOKENS (separated by commas), or a new one that is printed.
Whoever has a token may read all runs and files of the server. The limits are those of each run: requests can
only lower them. On SIGTERM, runs may finish for --drain-seconds; the others are interrupted, and can be
resumed.
"""


@takes_run_options(
    each="each run",
    refused={
        "schema": "a request gives its own",
        "dry_run": "nothing is asked before a request comes",
        "trace": "each run has its events in the journal",
        "exclude": "requests name what is read",
        "as_json": "replies are JSON",
        "verbose": "rlm show RUN shows the blocks",
    },
)
def serve(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 takes a free one.")] = 8080,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A name under which it is reached. Repeatable.", show_default=False
        ),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="A web origin whose pages may call it. Repeatable.", show_default=False
        ),
    ] = None,
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
    allow_urls: Annotated[
        bool, typer.Option("--allow-urls", help="Requests may name public URLs as contexts.")
    ] = False,
    runs_at_once: Annotated[int, typer.Option(min=1, help="Maximum runs at a time.")] = 4,
    queue: Annotated[int, typer.Option(min=0, help="Maximum runs that wait for their turn.")] = 100,
    body_mb: Annotated[int, typer.Option(min=1, help="Maximum size of a request in MB.")] = 32,
    upload_mb: Annotated[int, typer.Option(min=1, help="Maximum size of an uploaded file in MB.")] = 512,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long runs may take to finish when the server stops.")
    ] = 30.0,
    *,
    options: RunOptions,
) -> None:
    """Serve questions over HTTP, also as a drop-in for OpenAI's API."""
    if options.no_document_cache:
        raise ConfigurationError(
            "--no-document-cache cannot be used here: runs resume from the input in the journal"
        )
    from rlm.store_file import default_store

    config = _config(
        files=default_store(os.environ).parent / "files",
        host=host,
        port=port,
        host_names=tuple(host_name or ()),
        origins=tuple(origin or ()),
        tokens=tuple(os.environ.get(_TOKENS, "").replace(",", " ").split()),
        needs_token=not no_auth,
        roots=tuple(root or ()),
        allow_urls=allow_urls,
        allow_hosts=tuple(options.allow_host or ()),
        at_once=runs_at_once,
        waiting=queue,
        body_mb=body_mb,
        upload_mb=upload_mb,
        drain_seconds=drain_seconds,
    )
    from rlm.server.serving import serve as serve_until_stopped

    asyncio.run(serve_until_stopped(options.rlm(ctx, []), config, say))


serve.__doc__ = f"{serve.__doc__}\n\n{EXAMPLES}"


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
