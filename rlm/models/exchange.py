"""One request to a provider and its streamed answer. What goes wrong comes back as a Failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from rlm.models.base import Reply, TokenUsage
from rlm.models.clients import SharedClient
from rlm.models.failures import Failure, FailureTeller
from rlm.models.messages import field
from rlm.models.server_events import EventDecoder

if TYPE_CHECKING:
    from aiohttp import ClientResponse

__all__ = ["Gathering", "encoded", "exchange"]

_END = b"[DONE]"
_END_SECONDS = 1.0
"""How long a server that has said all may take to end its answer: then its connection can be used again."""


class Gathering(Protocol):
    """What the events of one stream add up to. `take` is total, whatever a server calls an event."""

    def take(self, event: object) -> None: ...

    def take_whole(self, answer: object) -> bool:
        """An answer that came as JSON although a stream was asked for; False when it is none."""

    def reply(self) -> Reply | None:
        """None as long as it is not whole."""

    @property
    def spent(self) -> TokenUsage:
        """What the provider will charge for it so far, as far as that is known."""


def encoded(body: Mapping[str, Any]) -> bytes:
    """The bytes of a request. Its texts are encodable."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


async def exchange(
    shared: SharedClient, body: bytes, gathering: Gathering, tell: FailureTeller
) -> Reply | Failure:
    """Send `body` and gather the answer."""
    import aiohttp

    failure: Failure | None
    try:
        async with shared.post(body) as response:
            shared.reached = True
            failure = await _read(response, gathering, tell)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        failure = tell.transport(error)
    except Exception as error:  # the provider's edge: nothing of what was sent can be trusted
        failure = tell.garbled(error)
    reply = None if failure is not None else gathering.reply()
    return reply or replace(failure or tell.dropped(), spent=gathering.spent)


async def _read(response: ClientResponse, gathering: Gathering, tell: FailureTeller) -> Failure | None:
    content_type = response.headers.get("content-type", "")
    if not 200 <= response.status < 300:
        kinds, detail = _complaint(_json(await response.read()))
        return tell.status(response.status, kinds=kinds, detail=detail, headers=response.headers)
    if "event-stream" not in content_type:
        whole = "json" in content_type and gathering.take_whole(_json(await response.read()))
        return None if whole else tell.not_a_stream(content_type)
    decoder = EventDecoder()
    async for chunk in response.content.iter_any():
        for data in decoder.feed(chunk):
            if data == _END:
                with suppress(TimeoutError):
                    await asyncio.wait_for(response.read(), _END_SECONDS)
                return None
            event = json.loads(data.decode())
            if field(event, "error"):
                return tell.in_stream(*_complaint(event))
            gathering.take(event)
    return None


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _complaint(answer: object) -> tuple[tuple[str, ...], str]:
    """What kinds of error a server names, and its own words."""
    error = field(answer, "error") or answer
    named = (field(error, "code"), field(error, "type"), field(field(error, "details"), "error_code"))
    kinds = tuple(str(kind) for kind in named if isinstance(kind, str | int) and kind)
    words = error if isinstance(error, str) else field(error, "message")
    return kinds, words if isinstance(words, str) else ""
