"""SDK clients, shared: one for each event loop, endpoint and way to reach it, closed with its last user."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from rlm.errors import ConfigurationError
from rlm.models.endpoint import Endpoint
from rlm.models.names import check_url
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2

__all__ = ["ClientUser", "SharedClient", "SharedClients", "check_options"]


class _Closable(Protocol):
    def close(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=_Closable)


_CALLS_A_CLIENT = 4
"""Before and after every request the HTTP library looks through all connections of its client, with a system
call for each idle one: with fifty of them that takes a quarter of a call's time."""


@dataclass(slots=True)
class _Lane(Generic[C]):
    client: C
    calls: int = 0


class SharedClient(Generic[C]):
    """The way to one endpoint: a client, and as many more of the kind as calls are under way at a time.
    `reached` turns True with the endpoint's first HTTP response, of any status."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._lanes: list[_Lane[C]] = []
        self.users = 0
        self.reached = False

    @property
    def clients(self) -> tuple[C, ...]:
        """All there are."""
        return tuple(lane.client for lane in self._lanes)

    @contextmanager
    def client(self) -> Iterator[C]:
        """One to make a call with."""
        lane = next((lane for lane in self._lanes if lane.calls < _CALLS_A_CLIENT), None)
        if lane is None:
            lane = _Lane(self._make())
            self._lanes.append(lane)
        lane.calls += 1
        try:
            yield lane.client
        finally:
            lane.calls -= 1

    async def close(self) -> None:
        """Close the connections of all of them."""
        for client in self.clients:
            await client.close()


_Key = tuple[Endpoint, float, float, str | None, str | None]
_Loop = asyncio.AbstractEventLoop


class SharedClients(Generic[C]):
    """The clients of one SDK, named by its `module`, which is imported with the first client.

    Connections belong to the event loop on which they were made, so a loop has clients of its own.
    """

    def __init__(self, module: str, make: Callable[[Endpoint, httpx2.AsyncClient], C]) -> None:
        self.module = module
        self._make = make
        self._open: WeakKeyDictionary[_Loop, dict[_Key, SharedClient[C]]] = WeakKeyDictionary()

    def acquire(self, loop: _Loop, endpoint: Endpoint, options: ModelOptions) -> SharedClient[C]:
        """The client for `endpoint`, made if there is none, with one user more."""
        open_here = self._open.setdefault(loop, {})
        key = _key(endpoint, options)
        if key not in open_here:
            trusted = _trusted(options)  # takes long to make, and they can share it
            open_here[key] = SharedClient(lambda: self._make(endpoint, _http_client(options, trusted)))
        open_here[key].users += 1
        return open_here[key]

    async def release(self, loop: _Loop, endpoint: Endpoint, options: ModelOptions) -> None:
        """One user less; the last closes the client."""
        open_here = self._open[loop]
        key = _key(endpoint, options)
        shared = open_here[key]
        shared.users -= 1
        if shared.users == 0:
            del open_here[key]
            await shared.close()


class ClientUser(Generic[C]):
    """One model's use of a shared client."""

    def __init__(self, clients: SharedClients[C], endpoint: Endpoint, options: ModelOptions) -> None:
        check_options(options)
        self._clients = clients
        self._endpoint = endpoint
        self._options = options
        self._held: WeakKeyDictionary[_Loop, SharedClient[C]] = WeakKeyDictionary()

    async def get(self) -> SharedClient[C]:
        """The client for the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            # Importing an SDK takes seconds: in a thread, so that the loop goes on.
            await asyncio.to_thread(import_module, self._clients.module)
        # Another task may have been here during the import.
        if loop not in self._held:
            self._held[loop] = self._clients.acquire(loop, self._endpoint, self._options)
        return self._held[loop]

    async def aclose(self) -> None:
        """Let go of the running loop's client. Safe to call twice; a later `get` takes a client anew."""
        loop = asyncio.get_running_loop()
        if self._held.pop(loop, None) is not None:
            await self._clients.release(loop, self._endpoint, self._options)


def _trusted(options: ModelOptions) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context() if options.ca_file is None else _trusting(options.ca_file)


def _http_client(options: ModelOptions, trusted: ssl.SSLContext) -> httpx2.AsyncClient:
    """The HTTP client that an SDK's client stands on."""
    import httpx2

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(options.idle_seconds, connect=options.connect_seconds),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        # A redirect would carry the text of documents to a host that nobody named.
        follow_redirects=False,
        proxy=options.proxy,
        verify=trusted,
    )


def check_options(options: ModelOptions) -> None:
    """Raise ConfigurationError now for a proxy or certificate file that the first call would fail on: that
    of `options`, else that of the environment."""
    if options.proxy is not None:
        check_url(options.proxy, "the proxy", ("http", "https"))
    else:
        _check_environment_proxies(os.environ)
    if options.ca_file is not None:
        _trusting(options.ca_file)
    elif os.environ.get("SSL_CERT_FILE"):
        _trusting(os.environ["SSL_CERT_FILE"], "SSL_CERT_FILE")


def _check_environment_proxies(env: Mapping[str, str]) -> None:
    """What the HTTP library would take from `env`, and fail on, whether the endpoint needs it or not."""
    if "*" in [host.strip() for host in (env.get("no_proxy") or env.get("NO_PROXY", "")).split(",")]:
        return
    for scheme in ("http", "https", "all"):
        lower = f"{scheme}_proxy"
        variable = lower if lower in env else lower.upper()
        proxy = env.get(variable, "").strip()
        if not proxy:
            continue
        if "://" not in proxy and ":" not in proxy:
            raise ConfigurationError(
                f"{variable} is not a usable URL: write it as http://HOST:PORT, or unset it"
            )
        parts = check_url(
            proxy if "://" in proxy else f"http://{proxy}", variable, ("http", "https", "socks5", "socks5h")
        )
        if parts.scheme.startswith("socks") and find_spec("socksio") is None:
            raise ConfigurationError(
                f"{variable} is a SOCKS proxy, which needs the package socksio: install it, name an HTTP "
                f"proxy, or unset {variable}"
            )


def _trusting(ca_file: str, called: str = "ca_file") -> ssl.SSLContext:
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError:
        raise ConfigurationError(f"{called} {ca_file} holds no certificate: give a PEM file") from None
    except OSError as error:
        raise ConfigurationError(
            f"{called} {ca_file} can't be read: {error.strerror}; check the path"
        ) from None
    return context


def _key(endpoint: Endpoint, options: ModelOptions) -> _Key:
    return (endpoint, options.connect_seconds, options.idle_seconds, options.proxy, options.ca_file)
