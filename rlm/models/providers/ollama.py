"""Models that Ollama serves, over its own API.

Its Chat Completions can't set the size of the context: Ollama then cuts a longer prompt without a word, often
at 4,096 tokens. Its own API takes the size with each request.
"""

from __future__ import annotations

from typing import Any

from rlm.escaping import encodable
from rlm.models.base import Carry, FinishReason, Message, ModelWindow, Request, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.model import HttpModel
from rlm.models.http.streaming import LineDecoder
from rlm.models.http.wire_messages import alternating, count_in, field, list_in, text_in
from rlm.models.structured import PortableSchema

__all__ = ["OllamaModel"]

_DEFAULT_CONTEXT = 16_384
"""Tokens of context to ask for where nothing says what the machine has memory for. It holds the rounds of a
root, and takes about 2 GB besides an 8B model. Ollama's own default is too small for either."""
_REPLY_SHARE = 4
_LEVELS = {"minimal": "low", "xhigh": "high", "max": "high"}
"""Efforts that it does not know, with the nearest that it knows."""
_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


class OllamaModel(HttpModel):
    """A model that Ollama serves. The base URL of `endpoint` is without `/v1` and `/api`.

    Every request asks for the same size of context, because Ollama loads the model again when that changes.
    """

    prefix = "ollama"
    path = "/api/chat"
    stream_type = "x-ndjson"

    def make_decoder(self) -> LineDecoder:
        return LineDecoder()

    @property
    def _whole_window(self) -> ModelWindow:
        """Return the size to ask for: that of the user, else that of the model's own file, else a default, or
        that of the loaded model if it is larger; never more than the model was trained for. It is no guess:
        Ollama obeys."""
        info, facts = self._options.info, self.facts or ModelInfo()
        asked = facts.window or _DEFAULT_CONTEXT
        if facts.is_default:
            asked = max(asked, _DEFAULT_CONTEXT)
        context = info.window or min(asked, facts.most_window or asked)
        sees = self._listed_window.sees if facts.sees is None else facts.sees
        return info.apply_to_window(ModelWindow(context, max(1, context // _REPLY_SHARE), sees=sees))

    def body(self, request: Request) -> dict[str, Any]:
        calls = self.calls
        options: dict[str, Any] = {
            "num_ctx": self._whole_window.context,
            "num_predict": self.room(request),
        }
        if calls.temperature is not None:
            options["temperature"] = calls.temperature
        if calls.seed is not None:
            options["seed"] = calls.seed
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_make_message(message) for message in alternating(request.messages)],
            "stream": True,
            "options": options,
        }
        facts, effort = self.facts, self.effort(request)
        if effort is not None and facts is not None and facts.thinks:
            nearest = _LEVELS.get(effort, effort)
            body["think"] = nearest if nearest in facts.think_levels else effort != "none"
        return body

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        return {"format": schema.schema}

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body["options"]["num_predict"], body)


def _make_message(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": encodable(message.content)}
    if message.images:
        made["images"] = [image.base64 for image in message.images]
    for item in message.carry:
        made |= {name: value for name, value in item.items() if name == "thinking" and len(item) == 1}
    return made


class _Accumulator(StreamAccumulator):
    """Reads the lines of Ollama's chat. It reports tokens only at the end, and does not count thinking
    apart."""

    has_tags = True
    _wants_back = False

    def add(self, event: object) -> bool:
        self._has_begun = True
        thought = text_in(event, "message", "thinking")
        self._add_tagged(text_in(event, "message", "content"))
        self._thinking.add(thought)
        self._wants_back = self._wants_back or bool(thought)
        for call in list_in(event, "message", "tool_calls"):
            made = field(call, "function")
            self._tools.add(
                None, id_=field(call, "id"), name=field(made, "name"), arguments=field(made, "arguments")
            )
        self._read_names(event)
        if field(event, "done") is True:
            self._finish = _FINISH_REASONS.get(text_in(event, "done_reason") or "stop", "other")
            self._usage = TokenUsage(count_in(event, "prompt_eval_count"), count_in(event, "eval_count"))
        return self._finish is not None or self._is_full

    def accept_json(self, answer: object) -> bool:
        return isinstance(field(answer, "message"), dict) and self.add(answer)

    def _carry(self) -> Carry:
        return ({"thinking": str(self._thinking)},) if self._wants_back else ()
