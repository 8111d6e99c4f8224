"""HTTP over aiohttp, the only way to a provider: bounded and decompressed responses, no redirects."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from rlm.models.http.endpoint import Endpoint
from rlm.models.http.errors import FailureKind, StatusFailure, TransportFailure
from rlm.models.http.proxy import proxy_to, trusted_on
from rlm.models.http.reply_limits import Inflater, ReplyTooLarge, max_body
from rlm.models.options import ModelOptions
from rlm.version import __version__

__all__ = ["HttpResponse", "HttpSession"]

_JSON = "application/json"
_CONNECT_SECONDS = 10.0
_IDLE_CONNECTION_SECONDS = 60.0
_USUAL_HEADERS = {"Accept-Encoding": "gzip, deflate", "User-Agent": f"rlm-kernel/{__version__}"}
_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
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


class HttpSession:
    """Sends requests to `endpoint`, on the route that the options choose. Create it on the event loop that it
    serves. Does not limit concurrency. `has_answered` becomes True with the first response, of any status.
    """

    def __init__(self, endpoint: Endpoint, options: ModelOptions) -> None:
        trusted = trusted_on(endpoint, options)
        self.users = 0
        self.has_answered = False
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

    async def send(
        self,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        *,
        extra_headers: Mapping[str, str] | None = None,
        file: tuple[str, bytes, str] | None = None,
    ) -> HttpResponse:
        """Send a request, and return a response of success with its body unread: POST with `content`, or with
        a `file` (its name, bytes and type) of a batch in a form, else GET. `extra_headers` replace others.
        Raises StatusFailure for any other status, TransportFailure and ReplyTooLarge."""
        data: bytes | aiohttp.FormData | None = content
        sent = CIMultiDict({"Accept": _JSON})
        if content is not None:
            sent["Content-Type"] = _JSON
        if file is not None:
            name, held, kind = file
            data = aiohttp.FormData({"purpose": "batch"})
            data.add_field("file", io.BytesIO(held), filename=name, content_type=kind)
        sent.update(headers)
        sent.update(extra_headers or {})
        with _translate_errors():
            answer = await self._session.request(
                "GET" if data is None else "POST",
                URL(url, encoded=True),
                headers=sent,
                data=data,
                proxy=self._proxy,
                # A redirect would send the text of documents to a host that the user did not name.
                allow_redirects=False,
            )
        self.has_answered = True
        try:
            response = HttpResponse(answer, sent["Accept"])
        except ReplyTooLarge:
            answer.close()
            raise
        if 200 <= answer.status < 300:
            return response
        raise StatusFailure(answer.status, answer.headers, _read_error(await response.read_to_end()))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _read_error(body: bytes) -> object:
    """Return the JSON of an error's body, else its text."""
    text = body.decode(errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class HttpResponse:
    """A response. `content_type` is in small letters and without parameters: everything is read as UTF-8,
    because some decoders take quadratic time. `accepted` is the type that the request asked for. Raises
    ReplyTooLarge for an unknown encoding."""

    def __init__(self, answer: aiohttp.ClientResponse, accepted: str) -> None:
        self.content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._answer = answer
        self._limit = max_body(answer.status, self.content_type, accepted)
        self._inflater = Inflater(answer.headers.get("content-encoding", ""))

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
