"""Clients of the SDKs, for the clouds whose requests need credentials, signatures and other URLs.

Their HTTP is ours: bounds, proxies, certificates and errors are the same for every provider. Import this
module in a thread: it imports the SDKs' HTTP library.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, Protocol

import httpx2
from multidict import CIMultiDict

from rlm.models.http.clients.failures import Kind, StatusFailure, TransportFailure, Unsigned, walk_chain
from rlm.models.http.clients.session import ACCEPTED_ENCODINGS, HttpResponse, HttpSession
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.reply_limits import ReplyTooLarge
from rlm.models.options import ModelOptions

__all__ = ["SdkClient", "SdkResponse", "SdksOwn", "make_http_client", "without_ambient_headers"]

_ENCODING = ("accept-encoding", ACCEPTED_ENCODINGS)
_ERROR_TYPES: Final[Mapping[Kind, type[httpx2.RequestError]]] = {
    "unreachable": httpx2.ConnectError,
    "silent": httpx2.ReadTimeout,
    "invalid": httpx2.UnsupportedProtocol,
    "dropped": httpx2.ReadError,
}
"""Kinds of failures with their counterparts in the SDKs' HTTP library."""


class SdksOwn(Protocol):
    """The part of an SDK's own client that is used here."""

    @property
    def post(self) -> Callable[..., Awaitable[Any]]: ...

    def is_closed(self) -> bool: ...

    def close(self) -> Awaitable[None]: ...


class SdkClient:
    """Sends requests by an SDK, whose module is `sdk` and whose client is `own`. It makes the URL of `path`
    and signs each request."""

    def __init__(self, sdk: str, own: SdksOwn, path: str) -> None:
        self._errors: Any = import_module(sdk)
        """The module that holds the SDK's exceptions. Their names are the same in all SDKs."""
        self._own = own
        self._path = path

    async def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> SdkResponse:
        """Send `body`, with `headers` besides the usual ones, and return the response with its body unread.
        Raises StatusFailure, TransportFailure, ReplyTooLarge and Unsigned."""
        # The raw response: parsing events into the SDK's models takes longer than the rest of a call.
        sent = self._own.post(
            self._path,
            cast_to=httpx2.Response,
            body=body,
            options={"headers": dict(headers)} if headers else {},
            stream=True,
        )
        try:
            with _translate_errors(self._errors):
                return SdkResponse(await sent, self._errors)
        except (StatusFailure, TransportFailure, ReplyTooLarge):
            raise
        except Exception as error:  # the boundary to a library of credentials: nothing was sent yet
            raise Unsigned from error

    def is_closed(self) -> bool:
        """Return whether the client was closed."""
        return self._own.is_closed()

    async def close(self) -> None:
        """Close all connections."""
        await self._own.close()


class SdkResponse:
    """A response that an SDK received."""

    def __init__(self, response: httpx2.Response, errors: Any) -> None:
        self.content_type: str = response.headers.get("content-type", "")
        self._response = response
        self._errors = errors

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body. Raises TransportFailure and ReplyTooLarge."""
        with _translate_errors(self._errors):
            async for chunk in self._response.aiter_bytes():
                yield chunk

    async def read(self) -> bytes:
        """Return the body. Raises what `chunks` raises."""
        with _translate_errors(self._errors):
            return await self._response.aread()

    async def aclose(self) -> None:
        """Give the connection back."""
        await self._response.aclose()


@contextmanager
def _translate_errors(errors: Any) -> Iterator[None]:
    try:
        yield
    except errors.APIStatusError as error:
        raise StatusFailure(error.status_code, error.response.headers, error.body) from None
    except (errors.APIConnectionError, httpx2.RequestError, httpx2.StreamError) as error:
        raise _find_failure(error) from error


def _find_failure(error: Exception) -> TransportFailure | ReplyTooLarge:
    """Return the failure of our transport that an exception of the SDK wraps, else one for what the SDK's
    HTTP library itself refused."""
    for link in walk_chain(error):
        if isinstance(link, TransportFailure):
            return TransportFailure(link.kind)
        if isinstance(link, ReplyTooLarge):
            return ReplyTooLarge(str(link))
        if isinstance(link, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
            return TransportFailure("invalid")
    return TransportFailure("dropped")


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
        with _raise_as_http(request):
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
        with _raise_as_http(self._request):
            async for chunk in self._response.chunks():
                yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _raise_as_http(request: httpx2.Request) -> Iterator[None]:
    try:
        yield
    except TransportFailure as failure:
        raise _ERROR_TYPES[failure.kind](str(failure.__cause__), request=request) from failure


def without_ambient_headers(sdk: str, *, kept: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return headers that cancel those of the SDK's `…_CUSTOM_HEADERS`, which are meant for its maker and
    which it would send to any cloud. `kept` are names, in small letters, that the SDK sets itself."""
    omit = import_module(sdk).Omit
    lines = os.environ.get(f"{sdk.upper()}_CUSTOM_HEADERS", "").split("\n")
    names = (line.partition(":")[0].strip() for line in lines if ":" in line)
    return {name: omit() for name in names if name.lower() not in kept}
