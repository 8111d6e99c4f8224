"""The HTTP transport of the SDKs' clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import httpx2
from multidict import CIMultiDict

from rlm.models.http.clients.failures import Kind, TransportFailure
from rlm.models.http.clients.session import ACCEPTED_ENCODINGS, HttpResponse, HttpSession
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions

__all__ = ["make_http_client"]

_ENCODING = ("accept-encoding", ACCEPTED_ENCODINGS)
_ERROR_TYPES: Final[Mapping[Kind, type[httpx2.RequestError]]] = {
    "unreachable": httpx2.ConnectError,
    "silent": httpx2.ReadTimeout,
    "invalid": httpx2.UnsupportedProtocol,
    "dropped": httpx2.ReadError,
}
"""Kinds of failures with their counterparts in the SDKs' HTTP library."""


def make_http_client(endpoint: Endpoint, options: ModelOptions) -> httpx2.AsyncClient:
    """Return the HTTP client for an SDK's client. Create it on the event loop that it serves."""
    return httpx2.AsyncClient(
        transport=_Transport(HttpSession(endpoint, options)),
        timeout=None,
        follow_redirects=False,
        trust_env=False,
        # Said here, too: a signature covers what the SDK sees of a request.
        headers=[_ENCODING],
    )


class _Transport(httpx2.AsyncBaseTransport):
    def __init__(self, session: HttpSession) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the response with its body unread. Raises httpx2.TransportError."""
        sent = CIMultiDict([*_without(request.headers.multi_items(), "accept-encoding"), _ENCODING])
        content = await request.aread()
        with _translate_errors(request):
            response = await self._session.request(
                request.method, str(request.url), headers=sent, content=content
            )
        # The body is decompressed already, and its character set is not applied.
        headers = [
            *_without(response.headers.items(), "content-encoding", "content-length", "content-type"),
            ("content-type", response.content_type),
        ]
        return httpx2.Response(
            response.status, headers=headers, stream=_Body(response, request), request=request
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.aclose()


def _without(headers: Iterable[tuple[str, str]], *names: str) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in headers if name.lower() not in names)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: HttpResponse, request: httpx2.Request) -> None:
        self._response = response
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translate_errors(self._request):
            async for chunk in self._response.chunks():
                yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _translate_errors(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except TransportFailure as failure:
        raise _ERROR_TYPES[failure.kind](str(failure.__cause__), request=request) from failure
