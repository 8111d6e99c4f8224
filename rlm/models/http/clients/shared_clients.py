"""Shared clients: one for each event loop, endpoint and route, closed with its last user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from rlm.models.http.clients.failures import StatusFailure
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.proxy import check_route
from rlm.models.http.sse import EventDecoder
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2

    from rlm.models.http.clients.plain import PlainClient
    from rlm.models.http.clients.sdk import SdkClient, SdksOwn
    from rlm.models.http.clients.session import HttpResponse

__all__ = ["ClientLease", "ClientPool", "Response", "SdkRoute", "SharedClient", "StreamDecoder"]


class StreamDecoder(Protocol):
    """Decodes the bytes of a stream. `feed` returns the JSON of the events that end in a chunk, and raises
    ReplyTooLarge before an event takes too much memory."""

    def feed(self, chunk: bytes) -> list[bytes]: ...


class Response(Protocol):
    """A response of any client. Reading raises TransportFailure and ReplyTooLarge."""

    content_type: str

    def chunks(self) -> AsyncGenerator[bytes, None]: ...

    async def read(self) -> bytes: ...

    async def aclose(self) -> None: ...


class SharedClient:
    """The client of one endpoint. `has_answered` becomes True with its first HTTP response, of any status."""

    def __init__(
        self, client: PlainClient | SdkClient, stream_type: str, make_decoder: Callable[[], StreamDecoder]
    ) -> None:
        self.client = client
        self.stream_type = stream_type
        self.make_decoder = make_decoder
        self.users = 0
        self.has_answered = False

    async def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> Response:
        """Send `body`, with `headers` besides the usual ones, and return the response with its body unread.
        Raises StatusFailure, TransportFailure, ReplyTooLarge and Unsigned."""
        try:
            response = await self.client.post(body, headers)
        except StatusFailure:
            self.has_answered = True
            raise
        self.has_answered = True
        return response

    async def exchange(self, path: str, **request: Any) -> HttpResponse:
        """Send a request to another path, as PlainClient.exchange does. Clouds have no such paths."""
        from rlm.models.http.clients.plain import PlainClient

        assert isinstance(self.client, PlainClient)
        try:
            response = await self.client.exchange(path, **request)
        except StatusFailure:
            self.has_answered = True
            raise
        self.has_answered = True
        return response


class SdkRoute:
    """The SDK for a cloud: its module, and what builds its own client over an HTTP client. The SDK makes the
    URL of each request and signs it."""

    def __init__(self, sdk: str, make: Callable[[Endpoint, httpx2.AsyncClient], SdksOwn]) -> None:
        self.sdk = sdk
        self.make = make


_Key = tuple[Endpoint, float, str | None, str | None]
_Loop = asyncio.AbstractEventLoop


class ClientPool:
    """The clients of one protocol. `path` is the path of requests. `by` returns the headers that our own
    client sends to an endpoint, the key among them, or is an SdkRoute. `stream_type` is the media type of a
    reply's stream, which `make_decoder` makes a decoder for.

    Connections belong to the event loop that opened them, so each loop has its own clients.
    """

    def __init__(
        self,
        path: str,
        by: Callable[[Endpoint], dict[str, str]] | SdkRoute,
        *,
        stream_type: str = "event-stream",
        make_decoder: Callable[[], StreamDecoder] = EventDecoder,
    ) -> None:
        self.path = path
        self._by = by
        self._stream_type = stream_type
        self._make_decoder = make_decoder
        self._open: WeakKeyDictionary[_Loop, dict[_Key, SharedClient]] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[_Loop, AsyncIterator[None]] = WeakKeyDictionary()

    def import_library(self) -> None:
        """Import what `acquire` needs. Takes a fraction of a second, or seconds for an SDK."""
        if isinstance(self._by, SdkRoute):
            import_module(self._by.sdk)
            import_module("rlm.models.http.clients.sdk")
        else:
            import_module("rlm.models.http.clients.plain")

    async def acquire(self, endpoint: Endpoint, options: ModelOptions) -> SharedClient:
        """Return the running loop's client for `endpoint`, with one more user. Makes it if there is none. Its
        library must be imported already."""
        loop = asyncio.get_running_loop()
        if loop not in self._ends:
            self._ends[loop] = end = self._close_with_loop(loop)
            await anext(end)  # does not suspend, so two first calls at once cannot make two clients
        key = (endpoint, options.idle_seconds, options.proxy, options.ca_file)
        open_here = self._open[loop]
        if key not in open_here:
            client = self._make_client(endpoint, options)
            open_here[key] = SharedClient(client, self._stream_type, self._make_decoder)
        open_here[key].users += 1
        return open_here[key]

    def _make_client(self, endpoint: Endpoint, options: ModelOptions) -> PlainClient | SdkClient:
        if not isinstance(self._by, SdkRoute):
            from rlm.models.http.clients.plain import PlainClient

            return PlainClient(endpoint, self.path, self._by(endpoint), options)
        from rlm.models.http.clients.sdk import SdkClient, make_http_client

        own = self._by.make(endpoint, make_http_client(endpoint, options))
        return SdkClient(self._by.sdk, own, self.path)

    async def release(self, shared: SharedClient) -> None:
        """Drop one user. The last one closes the client."""
        open_here = self._open[asyncio.get_running_loop()]
        shared.users -= 1
        if shared.users == 0:
            for key in [key for key, one in open_here.items() if one is shared]:
                del open_here[key]
            await shared.client.close()

    async def _close_with_loop(self, loop: _Loop) -> AsyncIterator[None]:
        """Close the clients of `loop` when it ends. A loop closes its asynchronous generators when it shuts
        down, so no connection outlives it even if the models were never closed."""
        open_here = self._open[loop] = dict[_Key, SharedClient]()
        try:
            yield
        finally:
            for shared in list(open_here.values()):
                await shared.client.close()


class ClientLease:
    """One model's use of a shared client. Raises ConfigurationError for an unusable proxy or certificate
    file."""

    def __init__(self, clients: ClientPool, endpoint: Endpoint, options: ModelOptions) -> None:
        check_route(endpoint, options)
        self._clients = clients
        self._endpoint = endpoint
        self._options = options
        self._leased: WeakKeyDictionary[_Loop, SharedClient] = WeakKeyDictionary()

    async def get(self) -> SharedClient:
        """Return the client for the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._leased:
            # The import may take seconds. A thread keeps the loop free.
            await asyncio.to_thread(self._clients.import_library)
        # Another task may have acquired the client during the import.
        if loop not in self._leased:
            self._leased[loop] = await self._clients.acquire(self._endpoint, self._options)
        return self._leased[loop]

    async def aclose(self) -> None:
        """Release the running loop's client. Safe to call twice. A later `get` acquires a client again."""
        shared = self._leased.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await self._clients.release(shared)
