"""Run the server: open the store, resume what was left, listen, and stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import uvicorn

from rlm.documents.workspace import Workspace
from rlm.errors import ConfigurationError
from rlm.journal.served import KeyStore, Lease
from rlm.runs.setup import open_journal
from rlm.runtime import RLM
from rlm.server.app import make_app
from rlm.server.auth import Authenticator, new_token
from rlm.server.config import ServerConfig, is_loopback
from rlm.server.work.service import Service

__all__ = ["open_service", "serve"]

_CLOSE_SECONDS = 5
_HEADER_BYTES = 32_768


async def serve(rlm: RLM, config: ServerConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. Then no more runs are taken, and those that run may finish for
    `config.drain_seconds`; a second signal interrupts them at once. Interrupted runs resume at the next
    start. `say` gets lines for the operator, the token of this start among them.

    Raises ConfigurationError, and JournalError if the store can't be opened or is served already."""
    listener = _listen(config)
    with contextlib.closing(listener):
        async with open_service(rlm, config, say) as service:
            token = await _token(service.keys, config)
            app = make_app(service, Authenticator(service.keys, token, is_open=not config.needs_key))
            server = _Server(
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
            resumed = await service.resume_open()
            port = listener.getsockname()[1]
            host = f"[{config.host}]" if ":" in config.host else config.host
            say(f"serving http://{host}:{port}/v1" + (f"; resumed {resumed} runs" if resumed else ""))
            if token is not None:
                say(f"the API key of this start: {token}")
            serving = asyncio.create_task(server.serve([listener]))
            try:
                with _signals() as stops:
                    await _until_stopped(serving, service, stops, config.drain_seconds, say)
            finally:
                await service.stop(0.0)
                server.should_exit = True
                await serving


@contextlib.asynccontextmanager
async def open_service(rlm: RLM, config: ServerConfig, say: Callable[[str], None]) -> AsyncIterator[Service]:
    """Open the store and lease it, and yield the service. Leaving it interrupts the runs that are open."""
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(rlm.aclose)
        journal = await stack.enter_async_context(open_journal(rlm.settings))
        lease = Lease(journal)
        await lease.take(say)
        stack.push_async_callback(lease.give_up)
        kernels = rlm.kernels(config.at_once)
        stack.push_async_callback(kernels.close)
        workspace = stack.enter_context(Workspace())
        service = Service(rlm, journal, kernels, config, lease, workspace)
        stack.push_async_callback(service.views.aclose)
        watching = asyncio.create_task(service.watch_store())
        stack.callback(watching.cancel)
        stack.push_async_callback(service.stop, 0.0)
        yield service


class _Server(uvicorn.Server):
    """A uvicorn server whose signals are handled by `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal."""
        yield


async def _token(keys: KeyStore, config: ServerConfig) -> str | None:
    """Return the token of this start, if there is one. Raises ConfigurationError."""
    has_keys = any(key.revoked_at is None and key.role == "user" for key in await keys.all())
    if not config.needs_key or has_keys:
        return None
    if not is_loopback(config.host):
        raise ConfigurationError(
            f"a server at {config.host} needs keys: make one for each user with `rlm serve keys add USER`"
        )
    return new_token()


def _listen(config: ServerConfig) -> socket.socket:
    """Return a socket that listens. Raises ConfigurationError."""
    host = config.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, config.port))
        listener.listen(1_024)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigurationError(
            f"cannot listen at {config.host}:{config.port}: {reason}; choose another --host or --port"
        ) from None
    return listener


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
    service: Service,
    stops: asyncio.Queue[int],
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Return when all runs have ended after a first signal, were interrupted after a second one, or the
    server has ended by itself."""
    first = asyncio.ensure_future(stops.get())
    lost = asyncio.ensure_future(service.lost.wait())
    await asyncio.wait([first, lost, serving], return_when=asyncio.FIRST_COMPLETED)
    if first.done():
        if service.queue.running:
            say(f"stopping; runs may finish for {seconds:.0f} s (a second signal interrupts them)")
        second = asyncio.ensure_future(stops.get())
        stopping = asyncio.ensure_future(service.stop(seconds))
        await asyncio.wait([second, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        second.cancel()
    first.cancel()
    lost.cancel()
