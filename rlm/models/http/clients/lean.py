"""Our own client for protocols that need no more than a POST of JSON.

Importing an SDK takes half a second of processor time, and its models and layers a third of a call's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from multidict import CIMultiDict
from yarl import URL

from rlm.models.http.clients.failures import StatusFailure
from rlm.models.http.clients.session import HttpResponse, HttpSession
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions

__all__ = ["LeanClient"]


class LeanClient:
    """Sends bodies to `path` below the base URL of `endpoint`, with `headers`, which hold the key. Create it
    on the event loop that it serves."""

    def __init__(
        self, endpoint: Endpoint, path: str, headers: Mapping[str, str], options: ModelOptions
    ) -> None:
        self._session = HttpSession(endpoint, options)
        self._url = URL(endpoint.base_url.rstrip("/") + path, encoded=True)
        self._headers = dict(headers)

    async def post(self, body: dict[str, Any], headers: Mapping[str, str]) -> HttpResponse:
        """Send `body`, with `headers` besides the usual ones, and return the response with its body unread.
        Raises StatusFailure, TransportFailure and ReplyTooLarge, and ValueError for what is no JSON."""
        # A name in other case is the same header.
        sent = CIMultiDict(self._headers)
        sent.update(headers)
        response = await self._session.post_json(self._url, body, headers=sent)
        if not response.is_success:
            raise StatusFailure(response.status, response.headers, _read_error(await response.read_to_end()))
        return response

    def is_closed(self) -> bool:
        """Return whether the client was closed."""
        return self._session.is_closed

    async def close(self) -> None:
        """Close all connections."""
        await self._session.aclose()


def _read_error(body: bytes) -> object:
    """Return the JSON of an error's body, else its text."""
    text = body.decode(errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
