"""SDK clients, shared: one for each event loop, endpoint and way to reach it, closed with its last user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from rlm.models.http.endpoint import Endpoint
from rlm.models.http.proxy import check_route, proxy_to, trusted_on
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2

__all__ = ["ClientLease", "ClientPool", "SdkClient", "SharedClient", "import_sdk"]


class SdkClient(Protocol):
    """What the clients of both SDKs are to us."""

    @property
    def post(self) -> Callable[..., Awaitable[Any]]: ...

    def is_closed(self) -> bool: ...

    def close(self) -> Awaitable[None]: ...


class SharedClient:
    """The way to one endpoint. `has_answered` turns True with its first HTTP response, of any status."""

    def __init__(self, sdk: str, client: SdkClient, url: str) -> None:
        self.errors: Any = import_module(sdk)
        """Where the SDK's exceptions are: both call them the same."""
        self.client = client
        self.users = 0
        self.has_answered = False
        self._url = url

    async def post(self, body: dict[str, Any]) -> httpx2.Response:
        """Send `body`; the response's own is still to be read. Raises the SDK's exceptions."""
        import httpx2

        # The response as it is: making the SDK's models of its events takes longer than all else of a call.
        response: httpx2.Response = await self.client.post(
            self._url, cast_to=httpx2.Response, body=body, stream=True
        )
        self.has_answered = True
        return response


_Key = tuple[Endpoint, float, float, str | None, str | None]
_Loop = asyncio.AbstractEventLoop


class ClientPool:
    """The clients of one SDK, named by its module; `make` gives one that stands on an HTTP client, requests
    go to `path`.

    Connections belong to the event loop on which they were made, so a loop has clients of its own.
    """

    def __init__(
        self, sdk: str, path: str, make: Callable[[Endpoint, httpx2.AsyncClient], SdkClient]
    ) -> None:
        self.sdk = sdk
        self._path = path
        self._make = make
        self._open: WeakKeyDictionary[_Loop, dict[_Key, SharedClient]] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[_Loop, AsyncIterator[None]] = WeakKeyDictionary()

    async def acquire(self, endpoint: Endpoint, options: ModelOptions) -> SharedClient:
        """The running loop's client for `endpoint`, made if there is none, with one user more. The SDK has
        been imported."""
        loop = asyncio.get_running_loop()
        if loop not in self._ends:
            self._ends[loop] = end = self._closed_with_the_loop(loop)
            await anext(end)  # waits for nothing: two first calls at once can't make two clients
        key = (endpoint, options.connect_seconds, options.idle_seconds, options.proxy, options.ca_file)
        open_here = self._open[loop]
        if key not in open_here:
            client = self._make(endpoint, _http_client(endpoint, options))
            # Whole: a path would be joined to the base URL anew for every request.
            open_here[key] = SharedClient(self.sdk, client, endpoint.base_url.rstrip("/") + self._path)
        open_here[key].users += 1
        return open_here[key]

    async def release(self, shared: SharedClient) -> None:
        """One user less; the last closes the client."""
        open_here = self._open[asyncio.get_running_loop()]
        shared.users -= 1
        if shared.users == 0:
            for key in [key for key, one in open_here.items() if one is shared]:
                del open_here[key]
            await shared.client.close()

    async def _closed_with_the_loop(self, loop: _Loop) -> AsyncIterator[None]:
        """Begun once in every loop, which ends its generators when it ends: so no connection outlives it,
        though nobody closed the models."""
        open_here = self._open[loop] = dict[_Key, SharedClient]()
        try:
            yield
        finally:
            for shared in list(open_here.values()):
                await shared.client.close()


class ClientLease:
    """One model's use of a shared client. Raises ConfigurationError for a proxy or certificate file that the
    first call would fail on."""

    def __init__(self, clients: ClientPool, endpoint: Endpoint, options: ModelOptions) -> None:
        check_route(endpoint, options)
        self._clients = clients
        self._endpoint = endpoint
        self._options = options
        self._held: WeakKeyDictionary[_Loop, SharedClient] = WeakKeyDictionary()

    async def get(self) -> SharedClient:
        """The client for the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._held:
            # Importing an SDK takes seconds: in a thread, so that the loop goes on.
            await asyncio.to_thread(import_sdk, self._clients.sdk)
        # Another task may have been here during the import.
        if loop not in self._held:
            self._held[loop] = await self._clients.acquire(self._endpoint, self._options)
        return self._held[loop]

    async def aclose(self) -> None:
        """Let go of the running loop's client. Safe to call twice; a later `get` takes a client anew."""
        shared = self._held.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await self._clients.release(shared)


def import_sdk(name: str) -> None:
    """Import an SDK, and what its HTTP stands on. Takes seconds the first time."""
    import_module(name)
    import_module("rlm.models.http.aiohttp_transport")


def _http_client(endpoint: Endpoint, options: ModelOptions) -> httpx2.AsyncClient:
    """The HTTP client that an SDK's client stands on."""
    import httpx2

    from rlm.models.http.aiohttp_transport import AiohttpTransport

    transport = AiohttpTransport(
        connect_seconds=options.connect_seconds,
        idle_seconds=options.idle_seconds,
        proxy=proxy_to(endpoint, options),
        trusted=trusted_on(endpoint, options),
    )
    return httpx2.AsyncClient(transport=transport, timeout=None, follow_redirects=False, trust_env=False)
