"""The HTTP transport of the SDKs' clients, over aiohttp.

The SDKs' own HTTP library scans all connections of its pool before and after every request. With fifty calls
in flight that costs as much of the driver's time as the rest of a call.
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

_ERROR_TYPES: tuple[tuple[type[BaseException], type[httpx2.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ClientHttpProxyError, httpx2.ProxyError),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (TimeoutError, httpx2.ReadTimeout),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.ClientError, httpx2.ReadError),
    (OSError, httpx2.ReadError),
)
"""Errors of aiohttp with their counterparts in the SDKs' HTTP library. The first match counts."""


class AiohttpTransport(httpx2.AsyncBaseTransport):
    """Sends requests over one session of aiohttp, through `proxy` if there is one. Create it on the event
    loop that it serves. Does not limit concurrency."""

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
        """Send a request and return the response with its body unread. Raises httpx2.TransportError."""
        with _translate_errors(request):
            answer = await self.session.request(
                request.method,
                URL(str(request.url), encoded=True),
                headers=request.headers.multi_items(),
                data=request.content,
                proxy=self._proxy,
                # A redirect would send the text of documents to a host that the user did not name.
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
        with _translate_errors(self._request):
            async for chunk in self._answer.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        # A body that was read to its end leaves the connection reusable; else it is closed.
        self._answer.release()


@contextmanager
def _translate_errors(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        error_type = next(theirs for ours, theirs in _ERROR_TYPES if isinstance(error, ours))
        raise error_type(str(error), request=request) from error
