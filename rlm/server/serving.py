"""Run the server: open the store, listen, and stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import uvicorn
from starlette.applications import Starlette

from rlm.listening import HttpServer, listen
from rlm.runs.opening import open_journal
from rlm.runtime import RLM
from rlm.server.app import make_app
from rlm.server.config import ServerConfig
from rlm.server.live import Runs

__all__ = ["open_runs", "serve"]

_CLOSE_SECONDS = 5
_HEADER_BYTES = 32_768


async def serve(
    rlm: RLM, config: ServerConfig, say: Callable[[str], None], mcp: Starlette | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. Then no more runs are taken, and those that run may finish for
    `config.drain_seconds`; a second signal interrupts them at once. `say` gets lines for the operator, the
    token of this start among them. `mcp` is served behind the same gate.

    Raises ConfigurationError, and JournalError if the store can't be opened."""
    listener = listen(config.host, config.port)
    with contextlib.closing(listener):
        made = [] if config.tokens or not config.needs_token else [f"rlm-{secrets.token_urlsafe(32)}"]
        tokens = [*config.tokens, *made]
        async with contextlib.AsyncExitStack() as stack:
            runs = await stack.enter_async_context(open_runs(rlm, config, tokens))
            if mcp is not None:
                await stack.enter_async_context(mcp.router.lifespan_context(mcp))
            routes = () if mcp is None else mcp.routes
            app = make_app(runs, tokens if config.needs_token else None, routes)
            server = HttpServer(
                uvicorn.Config(
                    app,
                    http="h11",
                    ws="none",
                    lifespan="off",
                    loop="asyncio",
                    log_config=None,
                    access_log=False,
                    server_header=False,
                    proxy_headers=False,
                    h11_max_incomplete_event_size=_HEADER_BYTES,
                    timeout_graceful_shutdown=_CLOSE_SECONDS,
                    timeout_keep_alive=30,
                )
            )
            port = listener.getsockname()[1]
            host = f"[{config.host}]" if ":" in config.host else config.host
            say(f"serving http://{host}:{port}/v1" + (" and /mcp" if mcp is not None else ""))
            for token in made:
                say(f"the token of this start: {token}")
            serving = asyncio.create_task(server.serve([listener]))
            try:
                with _signals() as stops:
                    await _until_stopped(serving, runs, stops, config.drain_seconds, say)
            finally:
                await runs.stop(0.0)
                server.should_exit = True
                await serving


@contextlib.asynccontextmanager
async def open_runs(rlm: RLM, config: ServerConfig, tokens: Sequence[str]) -> AsyncIterator[Runs]:
    """Open the store, which never holds the tokens, and yield the runs of this server. Leaving it interrupts
    the runs that are open."""
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(rlm.aclose)
        journal = await stack.enter_async_context(open_journal(rlm.settings))
        journal.redact(tokens)
        kernels = rlm.kernels(config.at_once)
        stack.push_async_callback(kernels.close)
        runs = Runs(rlm, journal, kernels, config)
        pruning = asyncio.create_task(runs.keep_store_small())
        stack.callback(pruning.cancel)
        stack.push_async_callback(runs.stop, 0.0)
        yield runs


@contextlib.contextmanager
def _signals() -> Iterator[asyncio.Queue[int]]:
    """Yield a queue of the signals that ask the server to stop."""
    stops: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    taken = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # A server in a thread of a test gets no signals.
        with contextlib.suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, stops.put_nowait, number)
            taken.append(number)
    try:
        yield stops
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


async def _until_stopped(
    serving: asyncio.Task[None],
    runs: Runs,
    stops: asyncio.Queue[int],
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Return when all runs have ended after a first signal, were interrupted after a second one, or the
    server has ended by itself."""
    first = asyncio.ensure_future(stops.get())
    await asyncio.wait([first, serving], return_when=asyncio.FIRST_COMPLETED)
    if first.done():
        if runs.open:
            say(f"stopping; runs may finish for {seconds:.0f} s (a second signal interrupts them)")
        second = asyncio.ensure_future(stops.get())
        stopping = asyncio.ensure_future(runs.stop(seconds))
        await asyncio.wait([second, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        second.cancel()
    first.cancel()
