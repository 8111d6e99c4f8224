"""OpenAI's models that think, over the Responses API.

Chat Completions drops what these models thought after each reply. The Responses API gives it as encrypted
items, which the next round sends back. OpenAI stores nothing of it (`store` is false).
"""

from __future__ import annotations

from typing import Any

from rlm.escaping import encodable
from rlm.models.base import Carry, FinishReason, Message, Request, TokenUsage
from rlm.models.catalog.families import family_of
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.wire_messages import alternating, count_in, field, list_in, text_in
from rlm.models.options import ModelOptions
from rlm.models.providers.openai import OpenAIModel
from rlm.models.structured import PortableSchema

__all__ = ["OpenAIResponsesModel", "make_openai_model"]

_HOST = "api.openai.com"
_MAX_ITEMS = 1_000
_TEXT_EVENTS = ("response.output_text.delta", "response.refusal.delta")
_THINKING_EVENTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_LAST_EVENTS = ("response.completed", "response.incomplete")
_INCOMPLETE: dict[str, FinishReason] = {"max_output_tokens": "length", "content_filter": "refusal"}
_KEPT = ("type", "id", "summary", "encrypted_content")


def make_openai_model(
    model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
) -> HttpModel:
    """Return a model over the API of its settings. By default that is Responses for OpenAI's own models that
    think, at OpenAI itself, and Chat Completions for all others: most servers know no other."""
    api = None if options is None else options.calls.api
    if api is None:
        thinks = family_of(model).effort != "none"
        api = "responses" if thinks and endpoint.host == _HOST else "chat"
    make = OpenAIResponsesModel if api == "responses" else OpenAIModel
    return make(model, endpoint, name=name, options=options)


class OpenAIResponsesModel(OpenAIModel):
    """A model over the Responses API. The base URL of `endpoint` includes `/v1`."""

    path = "/responses"

    def body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "input": [item for message in alternating(request.messages) for item in _make_items(message)],
            "max_output_tokens": self.room(request),
            "stream": True,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        sampling = self._sampling_fields()
        if sampling.pop("seed", None) is not None:
            self.tell_refused("a seed", "the Responses API takes none")
        return body | self._thinking_fields(request) | sampling

    def _thinking_fields(self, request: Request) -> dict[str, Any]:
        effort = self.effort(request)
        return {} if effort is None else {"reasoning": {"effort": effort}}

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        made = super().schema_fields(schema)
        return {"text": {"format": {"type": "json_schema", **made["response_format"]["json_schema"]}}}

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body)


class _Accumulator(StreamAccumulator):
    """Reads the events of the Responses API."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["max_output_tokens"], body)
        self._items: list[dict[str, Any]] = []

    def _carry(self) -> Carry:
        # An item without its content can't be read again.
        return tuple(item for item in self._items if item.get("encrypted_content"))

    def add(self, event: object) -> bool:
        kind = field(event, "type")
        if kind in _TEXT_EVENTS:
            self._refused = self._refused or kind == _TEXT_EVENTS[1]
            self.text.add(text_in(event, "delta"))
        elif kind in _THINKING_EVENTS:
            self._thinking.add(text_in(event, "delta"))
        elif kind == "response.output_item.done":
            self._add_item(field(event, "item"))
        if field(event, "response") is not None:
            self._add_response(field(event, "response"), is_last=kind in _LAST_EVENTS)
        return self._finish is not None or self._is_full

    def accept_json(self, answer: object) -> bool:
        if field(answer, "object") != "response" or not isinstance(field(answer, "output"), list):
            return False
        for item in list_in(answer, "output"):
            self._add_item(item)
        self._add_response(answer, is_last=True)
        return True

    def _add_item(self, item: object) -> None:
        kind = field(item, "type")
        if kind == "reasoning" and isinstance(item, dict) and len(self._items) < _MAX_ITEMS:
            self._items.append({name: item[name] for name in _KEPT if name in item})
        elif kind in ("function_call", "custom_tool_call"):
            self._tools.add(
                None,
                id_=field(item, "call_id"),
                name=field(item, "name"),
                arguments=field(item, "arguments") or field(item, "input"),
            )

    def _add_response(self, response: object, *, is_last: bool) -> None:
        self._has_begun = True
        self._read_names(response)
        # A whole response holds its text only here, and some servers stream it so, too.
        for item in list_in(response, "output") if is_last and not self.text.pieces else ():
            for part in list_in(item, "content") if field(item, "type") == "message" else ():
                self._refused = self._refused or field(part, "type") == "refusal"
                self.text.add(text_in(part, "text") or text_in(part, "refusal"))
        usage = field(response, "usage")
        if usage is not None:
            output = count_in(usage, "output_tokens")
            self._usage = TokenUsage(
                input_tokens=count_in(usage, "input_tokens"),
                output_tokens=output,
                cached_tokens=count_in(usage, "input_tokens_details", "cached_tokens"),
                reasoning_tokens=min(count_in(usage, "output_tokens_details", "reasoning_tokens"), output),
            )
        if is_last and field(response, "status") == "incomplete":
            self._finish = _INCOMPLETE.get(text_in(response, "incomplete_details", "reason"), "other")
        elif is_last:
            self._finish = "stop"


def _make_items(message: Message) -> list[dict[str, Any]]:
    """Return the items of a message: what the model thought before it, and the message itself."""
    thought = [dict(item) for item in message.carry if item.get("type") == "reasoning"]
    text = encodable(message.content)
    if not message.images:
        return [*thought, {"role": message.role, "content": text}]
    parts: list[dict[str, Any]] = [
        {"type": "input_image", "image_url": image.data_url} for image in message.images
    ]
    return [*thought, {"role": message.role, "content": [*parts, {"type": "input_text", "text": text}]}]
