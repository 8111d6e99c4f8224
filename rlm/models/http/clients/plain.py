"""Our own client: it sends JSON and reads bytes.

Importing an SDK takes one to two seconds of processor time, and its models and layers a third of a call's.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from rlm.models.http.clients.failures import StatusFailure
from rlm.models.http.clients.session import HttpResponse, HttpSession
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions

__all__ = ["PlainClient"]


class PlainClient:
    """Sends requests to paths below the base URL of `endpoint`, with `headers`, which hold the key. Bodies of
    calls go to `path`. Create it on the event loop that it serves."""

    def __init__(
        self, endpoint: Endpoint, path: str, headers: Mapping[str, str], options: ModelOptions
    ) -> None:
        self._session = HttpSession(endpoint, options)
        self._base_url = endpoint.base_url.rstrip("/")
        self._url = URL(self._base_url + path, encoded=True)
        self._headers = dict(headers)

    async def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> HttpResponse:
        """Send `body`, with `headers` besides the usual ones, and return the response with its body unread.
        Raises StatusFailure, TransportFailure and ReplyTooLarge, and ValueError for what is no JSON."""
        return await _check(await self._session.post_json(self._url, body, headers=self._join(headers)))

    async def exchange(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        file: tuple[str, bytes, str] | None = None,
    ) -> HttpResponse:
        """Send a request to another path: POST with `content`, or with a `form` and a `file` (its name, bytes
        and type), else GET. Return the response with its body unread. Raises what `post` raises."""
        data: bytes | aiohttp.FormData | None = content
        if file is not None:
            name, held, kind = file
            data = aiohttp.FormData(dict(form or {}))
            data.add_field("file", io.BytesIO(held), filename=name, content_type=kind)
        url = URL(self._base_url + path, encoded=True)
        method = "GET" if data is None else "POST"
        return await _check(
            await self._session.request(method, url, headers=self._join(headers), content=data)
        )

    def is_closed(self) -> bool:
        """Return whether the client was closed."""
        return self._session.is_closed

    async def close(self) -> None:
        """Close all connections."""
        await self._session.aclose()

    def _join(self, headers: Mapping[str, str]) -> CIMultiDict[str]:
        """Return all headers. A name in other case is the same header."""
        joined = CIMultiDict(self._headers)
        joined.update(headers)
        return joined


async def _check(response: HttpResponse) -> HttpResponse:
    """Return a response of success. Raises StatusFailure for any other."""
    if response.is_success:
        return response
    raise StatusFailure(response.status, response.headers, _read_error(await response.read_to_end()))


def _read_error(body: bytes) -> object:
    """Return the JSON of an error's body, else its text."""
    text = body.decode(errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
