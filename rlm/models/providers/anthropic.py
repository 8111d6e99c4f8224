"""Anthropic's models, over the Messages API."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rlm.escaping import encodable
from rlm.models.base import FinishReason, Image, Message, Reply, Request, TokenUsage
from rlm.models.http.batches.anthropic import AnthropicBatches
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_COUNT, BoundedText
from rlm.models.http.shared_clients import ClientPool
from rlm.models.http.streaming import StreamAccumulator
from rlm.models.http.wire_messages import cache_borders, field
from rlm.models.structured.portable_schema import PortableSchema
from rlm.models.structured.tool_calls import ToolCallCollector

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicModel", "without_ambient_headers"]

_COUNT_FIELDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
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
        default_headers=without_ambient_headers() if endpoint.private else None,
        http_client=http,
    )


def without_ambient_headers() -> dict[str, Any]:
    """Return headers that cancel ANTHROPIC_CUSTOM_HEADERS, which the SDK would send to any cloud."""
    from anthropic import Omit

    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    names = (line.partition(":")[0].strip() for line in lines if ":" in line)
    return {name: Omit() for name in names}


class AnthropicModel(HttpModel):
    """A model of Anthropic's. The base URL of `endpoint` is without `/v1`."""

    prefix = "anthropic"
    clients = ClientPool("anthropic", "/v1/messages", _make_client)
    batches = AnthropicBatches

    def body(self, request: Request) -> dict[str, Any]:
        borders = cache_borders(request.messages, _MAX_CACHE_BORDERS)
        system: list[dict[str, Any]] = []
        turns: list[dict[str, Any]] = []
        for index, message in enumerate(request.messages):
            images = [_make_image_block(image) for image in message.images]
            text = [_make_block(message, cached=index in borders)] if message.content else []
            if not images and not text:  # the API refuses an empty block
                continue
            if message.role == "system":
                system += text
            else:
                turns.append({"role": message.role, "content": [*images, *text]})
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": request.max_output_tokens,
            "messages": turns,
            "stream": True,
        }
        if system:
            body["system"] = system
        return body

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        if not schema.closed:  # the API refuses objects with keys that the schema does not name
            return {}
        return {"output_config": {"format": {"type": "json_schema", "schema": schema.schema}}}

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body["max_tokens"])


class _Accumulator:
    """Implements StreamAccumulator for the events of the Messages API."""

    def __init__(self, max_output_tokens: int) -> None:
        self._text = BoundedText(max_output_tokens)
        self._tools = ToolCallCollector(max_output_tokens)
        self._stop_reason = ""
        self._complete = False
        self._counts: dict[str, int] = {}

    @property
    def text(self) -> BoundedText:
        return self._text

    def reply(self) -> Reply | None:
        calls = self._tools.calls
        if self._is_overlong:
            return Reply(str(self._text), "length", self.spent, tool_calls=calls)
        if not self._complete:
            return None
        reason = _FINISH_REASONS.get(self._stop_reason, "other")
        return Reply(str(self._text), reason, self.spent, tool_calls=calls)

    @property
    def _is_overlong(self) -> bool:
        return self._text.is_full or self._tools.is_full

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
        )

    def add(self, event: object) -> bool:
        kind = field(event, "type")
        if kind == "message_start":
            self._update_counts(field(field(event, "message"), "usage"))
        elif kind == "content_block_start":
            self._append_text(field(event, "content_block"), "text")
            self._begin_call(field(event, "index"), field(event, "content_block"))
        elif kind == "content_block_delta":
            self._append_text(field(event, "delta"), "text_delta")
            self._continue_call(field(event, "index"), field(event, "delta"))
        elif kind == "message_delta":
            self._update_counts(field(event, "usage"))
            reason = field(field(event, "delta"), "stop_reason")
            self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
        elif kind == "message_stop":
            self._complete = True
        return self._complete or self._is_overlong

    def accept_json(self, answer: object) -> bool:
        return False

    def _append_text(self, part: object, kind: str) -> None:
        text = field(part, "text")
        if field(part, "type") == kind and isinstance(text, str):
            self._text.add(text)

    def _begin_call(self, index: object, block: object) -> None:
        if field(block, "type") == "tool_use":
            key = index if isinstance(index, int) else None
            self._tools.add(
                key, id_=field(block, "id"), name=field(block, "name"), arguments=field(block, "input")
            )

    def _continue_call(self, index: object, delta: object) -> None:
        if field(delta, "type") == "input_json_delta":
            self._tools.add(index if isinstance(index, int) else None, arguments=field(delta, "partial_json"))

    def _update_counts(self, usage: object) -> None:
        """Overwrite the counts: each event reports totals, not increments."""
        for name in _COUNT_FIELDS:
            value = field(usage, name)
            if isinstance(value, int) and value >= 0:
                self._counts[name] = min(value, MAX_COUNT)


def _make_block(message: Message, *, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": encodable(message.content)}
    if cached:
        block["cache_control"] = {"type": "ephemeral"}
    return block


def _make_image_block(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
    return {"type": "image", "source": source}
