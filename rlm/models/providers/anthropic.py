"""Anthropic's models, over the Messages API."""

from __future__ import annotations

from typing import Any

from rlm.escaping import encodable
from rlm.models.base import Carry, FinishReason, Image, Message, Request, TokenUsage
from rlm.models.call_settings import Effort
from rlm.models.catalog.families import family_of, nearest_effort
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.model import HttpModel
from rlm.models.http.wire_messages import cache_borders, count_in, field, text_in, with_header_lines
from rlm.models.structured import PortableSchema

__all__ = ["AnthropicModel"]

_API_VERSION = "2026-10-21"
"""That of the SDK: a test compares them."""
_COUNT_FIELDS = (
    ("input_tokens",),
    ("output_tokens",),
    ("cache_read_input_tokens",),
    ("cache_creation_input_tokens",),
    ("cache_creation", "ephemeral_1h_input_tokens"),  # a part of the one before
    ("output_tokens_details", "thinking_tokens"),
)
_THINKING = ("thinking", "redacted_thinking")
_MAX_BLOCKS = 1_000
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_LEAST_BUDGET = 1_024  # the API refuses less
_MAX_CACHE_BORDERS = 4  # the API refuses more in one request
_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicModel(HttpModel):
    """A model of Anthropic's. The base URL of `endpoint` is without `/v1`."""

    prefix = "anthropic"
    path = "/v1/messages"

    def headers(self) -> dict[str, str]:
        headers = super().headers() | {"anthropic-version": _API_VERSION}
        return headers if self._endpoint.private else with_header_lines(headers, "ANTHROPIC_CUSTOM_HEADERS")

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
                # Thinking is first in its turn, as it was: its signature covers all that was before it.
                thinking = [dict(block) for block in message.carry if block.get("type") in _THINKING]
                turns.append({"role": message.role, "content": [*thinking, *images, *text]})
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self.room(request),
            "messages": turns,
            "stream": True,
        }
        if system:
            body["system"] = system
        if self.calls.temperature is not None:
            self.tell_refused("a temperature", "the Messages API takes none since 2026-10-21")
        if self.calls.seed is not None:
            self.tell_refused("a seed", "the Messages API takes none")
        return body | self._thinking_fields(self.effort(request), body["max_tokens"])

    def _thinking_fields(self, effort: Effort | None, max_tokens: int) -> dict[str, Any]:
        """Return the fields that say how much to think; none where the user leaves it to the model."""
        family = family_of(self._model)
        if effort is None:
            return {}
        if effort == "none":
            # A model that thinks only when it is told to is not told to.
            return {} if family.effort == "none" else {"thinking": {"type": "disabled"}}
        if family.style == "budget":
            budget = max(_LEAST_BUDGET, self.window.thinking)
            return {"thinking": {"type": "enabled", "budget_tokens": min(budget, max_tokens - 1)}}
        level = nearest_effort(effort, _EFFORTS)
        return {"thinking": {"type": "adaptive"}, "output_config": {"effort": level}}

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        if not schema.closed:  # the API refuses objects with keys that the schema does not name
            return {}
        return {"output_config": {"format": {"type": "json_schema", "schema": schema.schema}}}

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body)


class _Accumulator(StreamAccumulator):
    """Reads the events of the Messages API."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["max_tokens"], body)
        self._blocks: dict[int, dict[str, Any]] = {}
        self._stop_reason = ""
        self._counts: dict[str, int] = {}

    def _carry(self) -> Carry:
        return tuple(block for _, block in sorted(self._blocks.items()) if _is_signed(block))

    def add(self, event: object) -> bool:
        match field(event, "type"):
            case "message_start":
                self._has_begun = True
                self._read_names(field(event, "message"))
                self._update_counts(field(event, "message", "usage"))
            case "content_block_start":
                self._begin_block(field(event, "index"), field(event, "content_block"))
            case "content_block_delta":
                self._extend_block(field(event, "index"), field(event, "delta"))
            case "message_delta":
                self._update_counts(field(event, "usage"))
                self._stop_reason = text_in(event, "delta", "stop_reason") or self._stop_reason
            case "message_stop":
                self._finish = _FINISH_REASONS.get(self._stop_reason, "other")
        return self._finish is not None or self._is_full

    def accept_json(self, answer: object) -> bool:
        blocks = field(answer, "content")
        if field(answer, "type") != "message" or not isinstance(blocks, list):
            return False
        self.add({"type": "message_start", "message": answer})
        for index, block in enumerate(blocks):
            self._begin_block(index, block)
        self.add({"type": "message_delta", "delta": answer})
        self.add({"type": "message_stop"})
        return True

    def _begin_block(self, index: object, block: object) -> None:
        kind = field(block, "type")
        key = index if isinstance(index, int) else None
        if kind in _THINKING and key is not None and len(self._blocks) < _MAX_BLOCKS:
            names = ("type", "thinking", "signature", "data")
            self._blocks[key] = {name: text_in(block, name) for name in names if text_in(block, name)}
            self._thinking.add(text_in(block, "thinking"))
        elif kind == "text":
            self.text.add(text_in(block, "text"))
        elif kind == "tool_use":
            self._tools.add(
                key, id_=field(block, "id"), name=field(block, "name"), arguments=field(block, "input")
            )

    def _extend_block(self, index: object, delta: object) -> None:
        kind = text_in(delta, "type")
        key = index if isinstance(index, int) else None
        if kind == "text_delta":
            self.text.add(text_in(delta, "text"))
        elif kind == "input_json_delta":
            self._tools.add(key, arguments=field(delta, "partial_json"))
        elif kind in ("thinking_delta", "signature_delta") and key is not None:
            name = kind.removesuffix("_delta")
            piece = text_in(delta, name)
            self._thinking.add(piece if name == "thinking" else "")
            block = self._blocks.get(key)
            # A block that is not kept whole must not be sent back: its signature would not match.
            if block is not None and not self._is_full:
                block[name] = block.get(name, "") + piece

    def _update_counts(self, usage: object) -> None:
        """Overwrite the counts: each event reports totals, not increments."""
        for path in _COUNT_FIELDS:
            if isinstance(field(usage, *path), int) and field(usage, *path) >= 0:
                self._counts[path[-1]] = count_in(usage, *path)
        sent, output, cached, written, long, thought = (
            self._counts.get(path[-1], 0) for path in _COUNT_FIELDS
        )
        self._usage = TokenUsage(
            input_tokens=sent + cached + written,
            output_tokens=output,
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=min(thought, output),
            cache_write_1h_tokens=min(written, long),
        )


def _is_signed(block: dict[str, Any]) -> bool:
    """Return whether the API takes a thinking block back."""
    return bool(block.get("data") if block["type"] == "redacted_thinking" else block.get("signature"))


def _make_block(message: Message, *, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": encodable(message.content)}
    if cached:
        block["cache_control"] = {"type": "ephemeral", **({"ttl": "1h"} if message.long_lived else {})}
    return block


def _make_image_block(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
    return {"type": "image", "source": source}
