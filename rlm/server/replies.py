"""Bodies of replies: JSON whose texts can't steer a terminal, streams of events, and the body of errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sse_starlette import EventSourceResponse, ServerSentEvent

from rlm.escaping import json_bytes, json_text

__all__ = ["ERRORS", "EventStream", "Json", "event"]

_PING_SECONDS = 15
_SEND_SECONDS = 60.0


class ErrorBody(BaseModel):
    """Every error has this body."""

    class Error(BaseModel):
        """The fault."""

        message: str
        type: str
        param: str | None
        code: str | None

    error: Error


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody} for status in (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 502, 503)
}


class Json(JSONResponse):
    """A JSON body. Control characters and direction marks in it are escaped."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json_bytes(content, separators=(",", ":"))


def event(data: Any, *, name: str | None = None, id: int | None = None) -> ServerSentEvent:
    """Return an event with JSON data. `data` may also be a text that is sent as it is."""
    text = data if isinstance(data, str) else json_text(data, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode()
    return ServerSentEvent(text, event=name, id=None if id is None else str(id), sep="\n")


class EventStream(EventSourceResponse):
    """A stream of events. A client that reads nothing for a minute is dropped."""

    def __init__(self, events: AsyncIterator[ServerSentEvent]) -> None:
        super().__init__(
            events,
            headers={"x-accel-buffering": "no"},
            ping=_PING_SECONDS,
            send_timeout=_SEND_SECONDS,
            sep="\n",
        )
