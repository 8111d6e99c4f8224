"""The HTTP beneath the SDKs' clients, over aiohttp.

Their own HTTP library looks through all connections of its pool before and after every request: with fifty
calls under way that takes as much of the driver's time as all the rest of a call.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

__all__ = ["AiohttpTransport"]

_IDLE_CONNECTION_SECONDS = 60.0

_TRANSLATED: tuple[tuple[type[BaseException], type[httpx2.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ClientHttpProxyError, httpx2.ProxyError),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (TimeoutError, httpx2.ReadTimeout),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.ClientError, httpx2.ReadError),
    (OSError, httpx2.ReadError),
)
"""What an error of aiohttp is called in the SDKs' HTTP library; the first that fits."""


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Requests over one session of aiohttp, through `proxy` if there is one. Made on the event loop that it
    serves. How many may be under way is not its affair."""

    def __init__(
        self,
        *,
        connect_seconds: float,
        idle_seconds: float,
        proxy: str | None,
        trusted: ssl.SSLContext | None,
    ) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_IDLE_CONNECTION_SECONDS, ssl=True if trusted is None else trusted
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_seconds, sock_read=idle_seconds),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._proxy = proxy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The head of the response, its body still to be read. Raises httpx2.TransportError."""
        with _translated(request):
            answer = await self.session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=request.content,
                proxy=self._proxy,
                # A redirect would carry the text of documents to a host that nobody named.
                allow_redirects=False,
            )
        body = _Body(answer, request)
        return httpx2.Response(answer.status, headers=list(answer.raw_headers), stream=body, request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.session.close()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: aiohttp.ClientResponse, request: httpx2.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated(self._request):
            async for chunk in self._answer.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        # Read to its end, the connection can be used again; else it is closed.
        self._answer.release()


@contextmanager
def _translated(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        name = next(theirs for ours, theirs in _TRANSLATED if isinstance(error, ours))
        raise name(str(error), request=request) from error
