"""`rlm mcp`: an MCP server for coding agents and other clients."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.exits import say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.options import Options, takes
from rlm.errors import ConfigurationError, UsageError
from rlm.escaping import terminal_text
from rlm.settings_table import JOURNAL, LIMITS, MODELS, RUN

if TYPE_CHECKING:
    from rlm.events import Observer
    from rlm.mcp.service import Service
    from rlm.runtime import RLM

__all__ = ["make_service", "mcp"]

_TOKEN = "RLM_MCP_TOKEN"  # noqa: S105 - the name of a variable
_MIN_TOKEN = 16

EXAMPLES = """\b
Examples:
  rlm mcp --root . --max-cost 1
  rlm mcp --root ~/contracts --model openai:gpt-5 --max-cost 1
  rlm mcp --http --port 8765 --root ~/contracts
  claude mcp add rlm -- rlm mcp --root .

Tools: ask, research, summarize, search, peek, runs, resume. The client may have read what is below --root,
and nothing else. The limits apply to each call.
--http listens on this machine only, and asks for a token: RLM_MCP_TOKEN, or a new one that is printed.
"""


@takes(MODELS, RUN, LIMITS, JOURNAL, "no_document_cache", without=("dry_run",))
def mcp(
    root: Annotated[
        list[Path] | None,
        typer.Option(
            "--root", metavar="DIR", help="A folder that may be read. Repeatable.", show_default=False
        ),
    ] = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP on this machine instead of stdio.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port of --http; 0: any.")] = 0,
    *,
    options: Options,
) -> None:
    """Serve the Model Context Protocol: other programs ask, search and read."""
    from rlm.children.tool_servers import require_mcp

    require_mcp()
    for folder in root or ():
        if not folder.exists():
            raise UsageError(f"--root {folder} does not exist: check the path")
    if port and not http:
        raise UsageError("--port belongs to --http: add it, or leave --port out")
    _log_to_stderr()
    service = make_service(options, root or ())
    work = _serve_http(service, port) if http else _serve_stdio(service)
    try:
        run_interruptible(work)
    except KeyboardInterrupt:
        say("stopped; rlm runs lists what can be resumed")


mcp.__doc__ = f"{mcp.__doc__}\n\n{EXAMPLES}"


def _log_to_stderr() -> None:
    """Write warnings to stderr, one line each. The SDK would draw them as a table."""
    import logging

    class Line(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return terminal_text(super().format(record))

    handler = logging.StreamHandler()
    handler.setFormatter(Line("rlm: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def make_service(options: Options, roots: list[Path] | tuple[Path, ...]) -> Service:
    """Return what a server of MCP offers. Raises ConfigurationError."""
    from rlm.cli.telemetry import start_telemetry
    from rlm.journal import Journal, default_store
    from rlm.mcp.service import Service
    from rlm.runtime import RLM

    start_telemetry()
    arguments = options.arguments(options.settings())

    def make_rlm(observe: Observer) -> RLM:
        return RLM(**arguments, observe=observe)

    make_rlm(lambda _: None)  # a missing key is reported now, not by the first call
    store = options.store or default_store(os.environ)
    return Service(
        make_rlm, lambda: Journal.open(store), roots=tuple(roots), cached=not options.no_document_cache
    )


async def _serve_stdio(service: Service) -> None:
    from rlm.mcp.server import make_server
    from rlm.mcp.stdio import serve_stdio

    _note_roots(service)
    await serve_stdio(make_server(service))


async def _serve_http(service: Service, port: int) -> None:
    from rlm.mcp.http import serve_http
    from rlm.mcp.server import make_server

    token = os.environ.get(_TOKEN, "").strip()
    if token and len(token) < _MIN_TOKEN:
        raise ConfigurationError(f"{_TOKEN} has fewer than {_MIN_TOKEN} characters: make it longer")
    shown = f"the token of {_TOKEN}" if token else f"this token: {(token := secrets.token_urlsafe(24))}"
    _note_roots(service)
    await serve_http(
        make_server(service), token, port=port, on_started=lambda url: say(f"serving {url} for {shown}")
    )


def _note_roots(service: Service) -> None:
    if not service.roots:
        say("no --root is given: clients may ask about texts that they send, and read no files")
