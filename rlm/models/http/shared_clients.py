"""Shared SDK clients: one for each event loop, endpoint and route, closed with its last user."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from rlm.models.http.endpoint import Endpoint
from rlm.models.http.proxy import check_route, proxy_to, trusted_on
from rlm.models.http.reply_limits import ReplyTooLarge
from rlm.models.http.sse import EventDecoder
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "ClientLease",
    "ClientPool",
    "SdkClient",
    "SharedClient",
    "StreamDecoder",
    "Unsigned",
    "import_sdk",
    "make_http_client",
]


class StreamDecoder(Protocol):
    """Decodes the bytes of a stream. `feed` returns the JSON of the events that end in a chunk, and raises
    ReplyTooLarge before an event takes too much memory."""

    def feed(self, chunk: bytes) -> list[bytes]: ...


class Unsigned(Exception):
    """The SDK has no credentials for a request. The cause says why."""


class SdkClient(Protocol):
    """The part of an SDK's client that is used here."""

    @property
    def post(self) -> Callable[..., Awaitable[Any]]: ...

    @property
    def get(self) -> Callable[..., Awaitable[Any]]: ...

    def is_closed(self) -> bool: ...

    def close(self) -> Awaitable[None]: ...


class SharedClient:
    """The client of one endpoint. `has_answered` becomes True with its first HTTP response, of any status."""

    def __init__(
        self,
        sdk: str,
        client: SdkClient,
        base_url: str,
        path: str,
        *,
        stream_type: str,
        make_decoder: Callable[[], StreamDecoder],
        signs: bool,
    ) -> None:
        self.errors: Any = import_module(sdk)
        """The module that holds the SDK's exceptions. Their names are the same in all SDKs."""
        self.client = client
        self.stream_type = stream_type
        self.make_decoder = make_decoder
        self.users = 0
        self.has_answered = False
        self._base_url = base_url
        # The whole URL: the SDK would join a path to the base URL for every request.
        self._url = path if signs else base_url + path
        self._signs = signs

    async def post(self, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> httpx2.Response:
        """Send `body`, with `headers` besides the usual ones, and return the response with its body unread.
        Raises the SDK's exceptions, those of the transport, and Unsigned."""
        import httpx2

        try:
            # The raw response: parsing events into the SDK's models takes longer than the rest of a call.
            response: httpx2.Response = await self.client.post(
                self._url,
                cast_to=httpx2.Response,
                body=body,
                options={"headers": dict(headers)} if headers else {},
                stream=True,
            )
        except (self.errors.APIError, httpx2.HTTPError, ReplyTooLarge):
            raise
        except Exception as error:  # the boundary to a library of credentials: nothing was sent yet
            if self._signs:
                raise Unsigned from error
            raise
        self.has_answered = True
        return response

    async def exchange(
        self,
        path: str,
        *,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        file: tuple[str, bytes, str] | None = None,
        headers: Mapping[str, str],
    ) -> httpx2.Response:
        """Send a request to another path below the base URL: POST with `content`, or with a `form` and a
        `file` (its name, bytes and type), else GET. Return the response with its body unread. Raises the
        SDK's exceptions."""
        import httpx2

        options = {"headers": dict(headers)}
        url = self._base_url + path
        if file is not None:
            options["headers"]["Content-Type"] = "multipart/form-data"
            sent = self.client.post(
                url, cast_to=httpx2.Response, body=form, files=[("file", file)], options=options, stream=True
            )
        elif content is not None:
            sent = self.client.post(
                url, cast_to=httpx2.Response, content=content, options=options, stream=True
            )
        else:
            sent = self.client.get(url, cast_to=httpx2.Response, options=options, stream=True)
        response: httpx2.Response = await sent
        self.has_answered = True
        return response


_Key = tuple[Endpoint, float, float, str | None, str | None]
_Loop = asyncio.AbstractEventLoop


class ClientPool:
    """The clients of one SDK. `sdk` is its module, `path` the path of requests. `make` builds a client over
    an HTTP client. `routed` leaves the rest of the URL to the SDK,
    which also signs each request. `stream_type` is the media type of a
    reply's stream, which `make_decoder` makes a decoder for.

    Connections belong to the event loop that opened them, so each loop has its own clients.
    """

    def __init__(
        self,
        sdk: str,
        path: str,
        make: Callable[[Endpoint, httpx2.AsyncClient], SdkClient],
        *,
        routed: bool = False,
        stream_type: str = "event-stream",
        make_decoder: Callable[[], StreamDecoder] = EventDecoder,
    ) -> None:
        self.sdk = sdk
        self.path = path
        self._make = make
        self._routed = routed
        self._stream_type = stream_type
        self._make_decoder = make_decoder
        self._open: WeakKeyDictionary[_Loop, dict[_Key, SharedClient]] = WeakKeyDictionary()
        self._ends: WeakKeyDictionary[_Loop, AsyncIterator[None]] = WeakKeyDictionary()

    async def acquire(self, endpoint: Endpoint, options: ModelOptions) -> SharedClient:
        """Return the running loop's client for `endpoint`, with one more user. Makes it if there is none. The
        SDK must be imported already."""
        loop = asyncio.get_running_loop()
        if loop not in self._ends:
            self._ends[loop] = end = self._close_with_loop(loop)
            await anext(end)  # does not suspend, so two first calls at once cannot make two clients
        key = (endpoint, options.connect_seconds, options.idle_seconds, options.proxy, options.ca_file)
        open_here = self._open[loop]
        if key not in open_here:
            client = self._make(endpoint, make_http_client(endpoint, options))
            open_here[key] = SharedClient(
                self.sdk,
                client,
                endpoint.base_url.rstrip("/"),
                self.path,
                stream_type=self._stream_type,
                make_decoder=self._make_decoder,
                signs=self._routed,
            )
        open_here[key].users += 1
        return open_here[key]

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
            # The import takes seconds. A thread keeps the loop free.
            await asyncio.to_thread(import_sdk, self._clients.sdk)
        # Another task may have acquired the client during the import.
        if loop not in self._leased:
            self._leased[loop] = await self._clients.acquire(self._endpoint, self._options)
        return self._leased[loop]

    async def aclose(self) -> None:
        """Release the running loop's client. Safe to call twice. A later `get` acquires a client again."""
        shared = self._leased.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await self._clients.release(shared)


def import_sdk(name: str) -> None:
    """Import an SDK and our HTTP transport for it. Takes seconds the first time."""
    import_module(name)
    import_module("rlm.models.http.aiohttp_transport")


def make_http_client(endpoint: Endpoint, options: ModelOptions) -> httpx2.AsyncClient:
    """Return the HTTP client for an SDK's client. Create it on the event loop that it serves."""
    import httpx2

    from rlm.models.http.aiohttp_transport import ACCEPTED, AiohttpTransport

    transport = AiohttpTransport(
        connect_seconds=options.connect_seconds,
        idle_seconds=options.idle_seconds,
        proxy=proxy_to(endpoint, options),
        trusted=trusted_on(endpoint, options),
    )
    return httpx2.AsyncClient(
        transport=transport,
        timeout=None,
        follow_redirects=False,
        trust_env=False,
        # Said here, too: a signature covers what the SDK sees of a request.
        headers=[ACCEPTED],
    )
