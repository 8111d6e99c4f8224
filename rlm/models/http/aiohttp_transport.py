"""The HTTP transport of the SDKs' clients, over aiohttp.

The SDKs' own HTTP library scans all connections of its pool before and after every request. With fifty calls
in flight that costs as much of the driver's time as the rest of a call.
"""

from __future__ import annotations

import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager

import aiohttp
import httpx2
from yarl import URL

from rlm.models.http.reply_limits import Inflater, ReplyTooLarge, max_body

__all__ = ["ACCEPTED", "AiohttpTransport"]

_IDLE_CONNECTION_SECONDS = 60.0
ACCEPTED = ("accept-encoding", "gzip, deflate")
"""The header of what a server may send."""

_ERROR_TYPES: tuple[tuple[type[BaseException], type[httpx2.RequestError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx2.ConnectTimeout),
    (aiohttp.ClientHttpProxyError, httpx2.ProxyError),
    (aiohttp.ClientConnectorError, httpx2.ConnectError),
    (TimeoutError, httpx2.ReadTimeout),
    (aiohttp.InvalidURL, httpx2.UnsupportedProtocol),
    (aiohttp.ClientError, httpx2.ReadError),
    (OSError, httpx2.ReadError),
    (zlib.error, httpx2.DecodingError),
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
                headers=[*_without(request.headers.multi_items(), "accept-encoding"), ACCEPTED],
                data=await request.aread(),
                proxy=self._proxy,
                # A redirect would send the text of documents to a host that the user did not name.
                allow_redirects=False,
            )
        kind = answer.headers.get("content-type", "").partition(";")[0]
        try:
            limit = max_body(answer.status, kind, request.headers.get("accept", ""))
            body = _Body(answer, request, limit)
        except ReplyTooLarge:
            answer.close()
            raise
        # The body is decompressed here. Its character set is not applied: everything is UTF-8, and some
        # decoders take quadratic time.
        headers = [
            *_without(answer.headers.items(), "content-encoding", "content-length", "content-type"),
            ("content-type", kind),
        ]
        return httpx2.Response(answer.status, headers=headers, stream=body, request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.session.close()


def _without(headers: Iterable[tuple[str, str]], *names: str) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in headers if name.lower() not in names)


class _Body(httpx2.AsyncByteStream):
    """The decompressed body of a response, of at most `limit` bytes. Raises ReplyTooLarge for more."""

    def __init__(self, answer: aiohttp.ClientResponse, request: httpx2.Request, limit: int) -> None:
        self._answer = answer
        self._request = request
        self._limit = limit
        self._inflater = Inflater(answer.headers.get("content-encoding", ""))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        with _translate_errors(self._request):
            async for chunk in self._answer.content.iter_any():
                for piece in self._inflater.pieces(chunk):
                    size += len(piece)
                    if size > self._limit:
                        raise ReplyTooLarge(f"a body of more than {self._limit:,} bytes")
                    yield piece

    async def aclose(self) -> None:
        # A body that was read to its end leaves the connection reusable; else it is closed.
        self._answer.release()


@contextmanager
def _translate_errors(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError, zlib.error) as error:
        error_type = next(theirs for ours, theirs in _ERROR_TYPES if isinstance(error, ours))
        raise error_type(str(error), request=request) from error
