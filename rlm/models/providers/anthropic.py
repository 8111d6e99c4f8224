"""Anthropic's models, over the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm.escaping import encodable
from rlm.models.base import FinishReason, Message, Reply, Request, TokenUsage
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_COUNT, BoundedText
from rlm.models.http.shared_clients import ClientPool
from rlm.models.http.streaming import StreamAccumulator
from rlm.models.http.wire_messages import cache_borders, field

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModel"]

_COUNT_FIELDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_LONG_COUNT = "ephemeral_1h_input_tokens"
"""A field of `cache_creation`: a part of cache_creation_input_tokens."""
_MAX_CACHE_BORDERS = 4  # the API refuses more in one request
_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def _make_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
        open_telemetry=False,
        http_client=http,
    )


class AnthropicModel(HttpModel):
    """A model of Anthropic's. The base URL of `endpoint` is without `/v1`."""

    prefix = "anthropic"
    clients = ClientPool("anthropic", "/v1/messages", _make_client)

    def body(self, request: Request) -> dict[str, Any]:
        borders = cache_borders(request.messages, _MAX_CACHE_BORDERS)
        system: list[dict[str, Any]] = []
        turns: list[dict[str, Any]] = []
        for index, message in enumerate(request.messages):
            if not message.content:  # the API refuses an empty block
                continue
            block = _make_block(message, cached=index in borders)
            if message.role == "system":
                system.append(block)
            else:
                turns.append({"role": message.role, "content": [block]})
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_output_tokens,
            "messages": turns,
            "stream": True,
        }
        if system:
            body["system"] = system
        return body

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body["max_tokens"])


class _Accumulator:
    """Implements StreamAccumulator for the events of the Messages API."""

    def __init__(self, max_output_tokens: int) -> None:
        self._text = BoundedText(max_output_tokens)
        self._stop_reason = ""
        self._complete = False
        self._counts: dict[str, int] = {}

    def reply(self) -> Reply | None:
        if self._text.is_full:
            return Reply(str(self._text), "length", self.spent)
        if not self._complete:
            return None
        return Reply(str(self._text), _FINISH_REASONS.get(self._stop_reason, "other"), self.spent)

    @property
    def spent(self) -> TokenUsage:
        """Return the tokens so far. The API reports the reply's tokens only at its end."""
        counts = self._counts
        cached = counts.get("cache_read_input_tokens", 0)
        written = counts.get("cache_creation_input_tokens", 0)
        return TokenUsage(
            input_tokens=counts.get("input_tokens", 0) + cached + written,
            output_tokens=counts.get("output_tokens", 0),
            cached_tokens=cached,
            cache_write_tokens=written,
            cache_write_1h_tokens=min(written, counts.get(_LONG_COUNT, 0)),
        )

    def add(self, event: object) -> bool:
        kind = field(event, "type")
        if kind == "message_start":
            self._update_counts(field(field(event, "message"), "usage"))
        elif kind == "content_block_start":
            self._append_text(field(event, "content_block"), "text")
        elif kind == "content_block_delta":
            self._append_text(field(event, "delta"), "text_delta")
        elif kind == "message_delta":
            self._update_counts(field(event, "usage"))
            reason = field(field(event, "delta"), "stop_reason")
            self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
        elif kind == "message_stop":
            self._complete = True
        return self._complete or self._text.is_full

    def accept_json(self, answer: object) -> bool:
        return False

    def _append_text(self, part: object, kind: str) -> None:
        text = field(part, "text")
        if field(part, "type") == kind and isinstance(text, str):
            self._text.add(text)

    def _update_counts(self, usage: object) -> None:
        """Overwrite the counts: each event reports totals, not increments."""
        for name in (*_COUNT_FIELDS, _LONG_COUNT):
            value = field(field(usage, "cache_creation") if name == _LONG_COUNT else usage, name)
            if isinstance(value, int) and value >= 0:
                self._counts[name] = min(value, MAX_COUNT)


def _make_block(message: Message, *, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": encodable(message.content)}
    if cached:
        block["cache_control"] = {"type": "ephemeral", **({"ttl": "1h"} if message.long_lived else {})}
    return block
