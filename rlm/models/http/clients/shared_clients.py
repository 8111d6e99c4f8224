"""Shared clients: one for each event loop, endpoint and route, closed with its last user."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from rlm.models.http.clients.failures import StatusFailure
from rlm.models.http.clients.sdk import SdkClient, SdkResponse, SdksOwn
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.proxy import check_route
from rlm.models.http.sse import EventDecoder
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2

    from rlm.models.http.clients.lean import LeanClient

__all__ = ["ClientLease", "ClientPool", "Response", "SharedClient", "StreamDecoder"]


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
        self, client: LeanClient | SdkClient, stream_type: str, make_decoder: Callable[[], StreamDecoder]
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

    async def exchange(self, path: str, **request: Any) -> SdkResponse:
        """Send a request to another path, as SdkClient.exchange does. The lease of this client asks for an
        SDK."""
        assert isinstance(self.client, SdkClient)
        try:
            response = await self.client.exchange(path, **request)
        except StatusFailure:
            self.has_answered = True
            raise
        self.has_answered = True
        return response


_Key = tuple[Endpoint, float, float, str | None, str | None, bool]
_Loop = asyncio.AbstractEventLoop
_LEAN = "rlm.models.http.clients.lean"
_TRANSPORT = "rlm.models.http.clients.sdk_transport"


class ClientPool:
    """The clients of one protocol. `sdk` is the module of its SDK, `path` the path of requests. `make` builds
    the SDK's own client over an HTTP client. `routed` leaves the rest of the URL to the SDK, which also signs
    each request. `plain_headers` returns the headers that our own client sends to an endpoint; None if only
    the SDK can send such requests. `stream_type` is the media type of a reply's stream, which `make_decoder`
    makes a decoder for.

    Connections belong to the event loop that opened them, so each loop has its own clients.
    """

    def __init__(
        self,
        sdk: str,
        path: str,
        make: Callable[[Endpoint, httpx2.AsyncClient], SdksOwn],
        *,
        routed: bool = False,
        plain_headers: Callable[[Endpoint], dict[str, str]] | None = None,
        stream_type: str = "event-stream",
        make_decoder: Callable[[], StreamDecoder] = EventDecoder,
    ) -> None:
        self.path = path
        self.sdk = sdk
        self._make = make
        self._routed = routed
        self._plain_headers = plain_headers
        self._stream_type = stream_type
        self._make_decoder = make_decoder
        self._open: WeakKeyDictionary[_Loop, dict[_Key, SharedClient]] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[_Loop, AsyncIterator[None]] = WeakKeyDictionary()

    @property
    def has_lean(self) -> bool:
        """Return whether our own client can carry these requests."""
        return self._plain_headers is not None

    async def acquire(self, endpoint: Endpoint, options: ModelOptions, *, lean: bool) -> SharedClient:
        """Return the running loop's client for `endpoint`, with one more user. Makes it if there is none. Its
        library must be imported already. `lean` asks for our own client, not the SDK's."""
        loop = asyncio.get_running_loop()
        if loop not in self._ends:
            self._ends[loop] = end = self._close_with_loop(loop)
            await anext(end)  # does not suspend, so two first calls at once cannot make two clients
        route = (options.connect_seconds, options.idle_seconds, options.proxy, options.ca_file)
        key = (endpoint, *route, lean)
        open_here = self._open[loop]
        if key not in open_here:
            client = self._make_lean(endpoint, options) if lean else self._make_sdks(endpoint, options)
            open_here[key] = SharedClient(client, self._stream_type, self._make_decoder)
        open_here[key].users += 1
        return open_here[key]

    def _make_lean(self, endpoint: Endpoint, options: ModelOptions) -> LeanClient:
        from rlm.models.http.clients.lean import LeanClient

        assert self._plain_headers is not None
        return LeanClient(endpoint, self.path, self._plain_headers(endpoint), options)

    def _make_sdks(self, endpoint: Endpoint, options: ModelOptions) -> SdkClient:
        from rlm.models.http.clients.sdk_transport import make_http_client

        own = self._make(endpoint, make_http_client(endpoint, options))
        return SdkClient(self.sdk, own, endpoint.base_url.rstrip("/"), self.path, signs=self._routed)

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
    """One model's use of a shared client. `lean` prefers our own client to the SDK's. Raises
    ConfigurationError for an unusable proxy or certificate file."""

    def __init__(self, clients: ClientPool, endpoint: Endpoint, options: ModelOptions, *, lean: bool) -> None:
        check_route(endpoint, options)
        self.is_lean = lean and clients.has_lean
        """Whether our own client carries the requests."""
        self._clients = clients
        self._endpoint = endpoint
        self._options = options
        self._leased: WeakKeyDictionary[_Loop, SharedClient] = WeakKeyDictionary()

    async def get(self) -> SharedClient:
        """Return the client for the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._leased:
            # The import takes seconds. A thread keeps the loop free.
            await asyncio.to_thread(self.import_library)
        # Another task may have acquired the client during the import.
        if loop not in self._leased:
            self._leased[loop] = await self._clients.acquire(self._endpoint, self._options, lean=self.is_lean)
        return self._leased[loop]

    def import_library(self) -> bool:
        """Import what `get` needs, and return whether any of it is new. Takes seconds the first time, if that
        is an SDK."""
        names = [_LEAN] if self.is_lean else [self._clients.sdk, _TRANSPORT]
        is_new = not sys.modules.keys() >= set(names)
        for name in names:
            import_module(name)
        return is_new

    async def aclose(self) -> None:
        """Release the running loop's client. Safe to call twice. A later `get` acquires a client again."""
        shared = self._leased.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await self._clients.release(shared)
