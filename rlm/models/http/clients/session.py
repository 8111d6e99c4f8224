"""HTTP over aiohttp, with bounded and decompressed responses.

The SDKs' own HTTP library scans all connections of its pool before and after every request. With fifty calls
in flight that costs as much of the driver's time as the rest of a call.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from rlm.models.http.clients.failures import Kind, TransportFailure
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.proxy import proxy_to, trusted_on
from rlm.models.http.reply_limits import Inflater, ReplyTooLarge, max_body
from rlm.models.options import ModelOptions
from rlm.version import __version__

__all__ = ["ACCEPTED_ENCODINGS", "HttpResponse", "HttpSession"]

ACCEPTED_ENCODINGS = "gzip, deflate"
_JSON = "application/json"
_CONNECT_SECONDS = 10.0
_IDLE_CONNECTION_SECONDS = 60.0
_USUAL_HEADERS = {"Accept-Encoding": ACCEPTED_ENCODINGS, "User-Agent": f"rlm-kernel/{__version__}"}
_KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (aiohttp.ConnectionTimeoutError, "unreachable"),
    (aiohttp.ClientHttpProxyError, "unreachable"),
    (aiohttp.ClientConnectorError, "unreachable"),
    (TimeoutError, "silent"),
    (aiohttp.InvalidURL, "invalid"),
    (aiohttp.ClientError, "dropped"),
    (OSError, "dropped"),
    (zlib.error, "dropped"),
)
"""Errors with their kinds. The first match counts."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class HttpSession:
    """Sends requests to `endpoint`, on the route that the options choose. Create it on the event loop that it
    serves. Does not limit concurrency."""

    def __init__(self, endpoint: Endpoint, options: ModelOptions) -> None:
        trusted = trusted_on(endpoint, options)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_IDLE_CONNECTION_SECONDS, ssl=True if trusted is None else trusted
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, connect=_CONNECT_SECONDS, sock_read=options.idle_seconds
            ),
            headers=_USUAL_HEADERS,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        self._proxy = proxy_to(endpoint, options)

    async def request(
        self,
        method: str,
        url: str | URL,
        *,
        headers: Mapping[str, str],
        content: bytes | aiohttp.FormData | None = None,
    ) -> HttpResponse:
        """Send a request and return the response, of any status, with its body unread. Raises
        TransportFailure and ReplyTooLarge."""
        with _translate_errors():
            answer = await self._session.request(
                method,
                url if isinstance(url, URL) else URL(url, encoded=True),
                headers=headers,
                data=content,
                proxy=self._proxy,
                # A redirect would send the text of documents to a host that the user did not name.
                allow_redirects=False,
            )
        try:
            return HttpResponse(answer, headers.get("Accept", ""))
        except ReplyTooLarge:
            answer.close()
            raise

    async def post_json(self, url: str | URL, body: Any, *, headers: Mapping[str, str]) -> HttpResponse:
        """Send `body` as JSON and return the response, as `request` does. Raises ValueError for what is no
        JSON."""
        sent = CIMultiDict(headers)
        sent.setdefault("Accept", _JSON)
        sent.setdefault("Content-Type", _JSON)
        return await self.request("POST", url, headers=sent, content=_encode(body).encode())

    @property
    def is_closed(self) -> bool:
        """Return whether the connections are closed."""
        return self._session.closed

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class HttpResponse:
    """A response. `content_type` is without parameters: everything is read as UTF-8, because some decoders
    take quadratic time. `accepted` is the type that the request asked for. Raises ReplyTooLarge for an
    unknown encoding."""

    def __init__(self, answer: aiohttp.ClientResponse, accepted: str) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        self.content_type = answer.headers.get("content-type", "").partition(";")[0]
        self._answer = answer
        self._limit = max_body(answer.status, self.content_type, accepted)
        self._inflater = Inflater(answer.headers.get("content-encoding", ""))

    @property
    def is_success(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status < 300

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the decompressed body. Raises TransportFailure, and ReplyTooLarge for more bytes than an
        honest server sends."""
        size = 0
        with _translate_errors():
            async for chunk in self._answer.content.iter_any():
                for piece in self._inflater.pieces(chunk):
                    size += len(piece)
                    if size > self._limit:
                        raise ReplyTooLarge(f"a body of more than {self._limit:,} bytes")
                    yield piece

    async def read(self) -> bytes:
        """Return the decompressed body. Raises what `chunks` raises."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def read_to_end(self) -> bytes:
        """Return the decompressed body, and close the response."""
        async with aclosing(self):
            return await self.read()

    async def aclose(self) -> None:
        """Give the connection back. It can be reused if the body was read to its end; else it is closed."""
        self._answer.release()


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, OSError, zlib.error) as error:
        raise TransportFailure(next(kind for one, kind in _KINDS if isinstance(error, one))) from error
