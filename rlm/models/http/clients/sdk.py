"""The client of an SDK, for protocols that need more than a POST: signatures, other URLs, batches."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from rlm.models.http.clients.failures import StatusFailure, TransportFailure, Unsigned, walk_chain
from rlm.models.http.reply_limits import ReplyTooLarge

if TYPE_CHECKING:
    import httpx2

__all__ = ["SdkClient", "SdkResponse", "SdksOwn"]


class SdksOwn(Protocol):
    """The part of an SDK's own client that is used here."""

    @property
    def post(self) -> Callable[..., Awaitable[Any]]: ...

    @property
    def get(self) -> Callable[..., Awaitable[Any]]: ...

    def is_closed(self) -> bool: ...

    def close(self) -> Awaitable[None]: ...


class SdkClient:
    """Sends requests by an SDK, whose module is `sdk`. `signs`: the SDK makes the URL and signs each request.
    `base_url` ends without a slash."""

    def __init__(self, sdk: str, own: SdksOwn, base_url: str, path: str, *, signs: bool) -> None:
        self._errors: Any = import_module(sdk)
        """The module that holds the SDK's exceptions. Their names are the same in all SDKs."""
        self._own = own
        self._base_url = base_url
        # The whole URL: the SDK would join a path to the base URL for every request.
        self._url = path if signs else base_url + path
        self._signs = signs

    async def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> SdkResponse:
        """Send `body`, with `headers` besides the usual ones, and return the response with its body unread.
        Raises StatusFailure, TransportFailure, ReplyTooLarge and Unsigned."""
        import httpx2

        # The raw response: parsing events into the SDK's models takes longer than the rest of a call.
        sent = self._own.post(
            self._url,
            cast_to=httpx2.Response,
            body=body,
            options={"headers": dict(headers)} if headers else {},
            stream=True,
        )
        return await self._receive(sent)

    async def exchange(
        self,
        path: str,
        *,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        file: tuple[str, bytes, str] | None = None,
        headers: Mapping[str, str],
    ) -> SdkResponse:
        """Send a request to another path below the base URL: POST with `content`, or with a `form` and a
        `file` (its name, bytes and type), else GET. Return the response with its body unread. Raises what
        `post` raises."""
        import httpx2

        options = {"headers": dict(headers)}
        url = self._base_url + path
        if file is not None:
            options["headers"]["Content-Type"] = "multipart/form-data"
            sent = self._own.post(
                url, cast_to=httpx2.Response, body=form, files=[("file", file)], options=options, stream=True
            )
        elif content is not None:
            sent = self._own.post(url, cast_to=httpx2.Response, content=content, options=options, stream=True)
        else:
            sent = self._own.get(url, cast_to=httpx2.Response, options=options, stream=True)
        return await self._receive(sent)

    async def _receive(self, sent: Awaitable[httpx2.Response]) -> SdkResponse:
        try:
            with _translate_errors(self._errors):
                return SdkResponse(await sent, self._errors)
        except (StatusFailure, TransportFailure, ReplyTooLarge):
            raise
        except Exception as error:  # the boundary to a library of credentials: nothing was sent yet
            if self._signs:
                raise Unsigned from error
            raise

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
    import httpx2

    try:
        yield
    except errors.APIStatusError as error:
        raise StatusFailure(error.status_code, error.response.headers, error.body) from None
    except (errors.APIConnectionError, httpx2.RequestError, httpx2.StreamError) as error:
        raise _find_failure(error) from error


def _find_failure(error: Exception) -> TransportFailure | ReplyTooLarge:
    """Return the failure of our transport that an exception of the SDK wraps, else one for what the SDK's
    HTTP library itself refused."""
    import httpx2

    for link in walk_chain(error):
        if isinstance(link, TransportFailure):
            return TransportFailure(link.kind)
        if isinstance(link, ReplyTooLarge):
            return ReplyTooLarge(str(link))
        if isinstance(link, httpx2.UnsupportedProtocol | httpx2.LocalProtocolError):
            return TransportFailure("invalid")
    return TransportFailure("dropped")
