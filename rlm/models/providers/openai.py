"""OpenAI's models and every server that speaks Chat Completions (Ollama, vLLM, llama.cpp, OpenRouter)."""

from __future__ import annotations

import os
import re
from typing import Any

from rlm.escaping import encodable
from rlm.models.base import Carry, FinishReason, Message, Request, TokenUsage
from rlm.models.catalog.families import family_of
from rlm.models.http.accumulator import StreamAccumulator
from rlm.models.http.concessions import CARRY_FIELDS, LIMIT_FIELDS
from rlm.models.http.model import HttpModel
from rlm.models.http.wire_messages import (
    alternating,
    count_in,
    field,
    list_in,
    text_in,
    with_header_lines,
    with_openai_cache,
)
from rlm.models.registry import PROVIDERS
from rlm.models.structured import PortableSchema

__all__ = ["OpenAIModel"]

_FINISH_REASONS: dict[str, FinishReason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens"), "length"),
    "content_filter": "refusal",
}
"""The protocol's ends, and what some servers call them."""
_MAX_DETAILS = 1_000
_JOINED = ("text", "summary", "data")
"""Fields of a detail that a stream sends in pieces."""
_AMBIENT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers with the variables that hold them."""
_SWITCHED_BY_TEMPLATE = re.compile(r"(?i)qwen-?3|glm-|deepseek-v|nemotron")
"""Models that servers of one's own keep from thinking by a parameter of the chat template."""


class OpenAIModel(HttpModel):
    """A model of OpenAI's, or of a server with the same protocol. Where the server counts no tokens, the
    usage of a reply is our own estimate. The base URL of `endpoint` includes `/v1` where the server has
    it."""

    prefix = "openai"
    path = "/chat/completions"

    def headers(self) -> dict[str, str]:
        """Return the key, and what the environment holds for OpenAI, which no other server gets."""
        headers = super().headers()
        if self._endpoint.private:
            return headers
        for name, variable in _AMBIENT.items():
            if os.environ.get(variable):
                headers[name] = os.environ[variable]
        return with_header_lines(headers, "OPENAI_CUSTOM_HEADERS")

    def body(self, request: Request) -> dict[str, Any]:
        messages = alternating(request.messages)
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_make_message(message) for message in messages],
            self._limit_field: self.room(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        body = body | self._thinking_fields(request) | self._sampling_fields()
        for name in PROVIDERS[self._provider].refuses:
            body.pop(name, None)
        return with_openai_cache(body, messages) if self._is_openai else body

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        form = {"name": "reply", "schema": schema.schema, "strict": schema.strict}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body, next(body[name] for name in LIMIT_FIELDS if name in body))

    def _thinking_fields(self, request: Request) -> dict[str, Any]:
        """Return the fields that say how much to think; none where the user leaves it to the server."""
        calls = self.calls
        if calls.thinking and not request.effort and self._endpoint.host.endswith("openrouter.ai"):
            return {"reasoning": {"max_tokens": calls.thinking}}
        effort = self.effort(request)
        if effort is None:
            return {}
        fields: dict[str, Any] = {"reasoning_effort": effort}
        if effort == "none" and self._endpoint.private and _SWITCHED_BY_TEMPLATE.search(self._model):
            fields["chat_template_kwargs"] = {"enable_thinking": False}
        return fields

    def _sampling_fields(self) -> dict[str, Any]:
        calls = self.calls
        fields: dict[str, Any] = {} if calls.seed is None else {"seed": calls.seed}
        if calls.temperature is not None:
            if family_of(self._model).takes_temperature or calls.effort == "none":
                fields["temperature"] = calls.temperature
            else:
                self.tell_refused("a temperature", "models that think take none")
        return fields

    @property
    def _limit_field(self) -> str:
        """Return the field of the output limit. OpenAI refuses the old name; most servers know no other."""
        is_new = self._is_openai or "max_tokens" in PROVIDERS[self._provider].refuses
        return "max_completion_tokens" if is_new else "max_tokens"

    @property
    def _is_openai(self) -> bool:
        host = self._endpoint.host
        return host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com"))


class _Accumulator(StreamAccumulator):
    """Reads the chunks of Chat Completions."""

    has_tags = True

    def __init__(self, body: dict[str, Any], max_output_tokens: int) -> None:
        super().__init__(max_output_tokens, body)
        self._field = ""
        self._details: list[dict[str, Any]] = []

    def add(self, event: object) -> bool:
        self._has_begun = True
        self._read_names(event)
        usage = field(event, "usage")
        if usage is not None:
            self._usage = _read_usage(usage)
        for choice in list_in(event, "choices"):
            delta = field(choice, "delta") or field(choice, "message")
            self._add_delta(delta)
            self._add_calls(delta)
            finish = text_in(choice, "finish_reason")
            self._finish = _FINISH_REASONS.get(finish.lower(), "other") if finish else self._finish
        # The usage follows, and then the end mark, which is no event. A server that ignores the output limit
        # may never come to it.
        return self._is_full

    def accept_json(self, answer: object) -> bool:
        if not isinstance(field(answer, "choices"), list):
            return False
        self.add(answer)
        return True

    def _add_delta(self, delta: object) -> None:
        content, refusal = field(delta, "content"), _read_text(field(delta, "refusal"))
        self._add_tagged(_read_text(content))
        self._thinking.add(_read_text(content, "thinking"))
        self._refused = self._refused or bool(refusal)
        self.text.add(refusal)
        self._add_details(list_in(delta, "reasoning_details"))
        # The protocol lacks these fields. Servers send one of them, or the same in two.
        for name in [self._field] if self._field else ["reasoning", "reasoning_content"]:
            reasoning = _read_text(field(delta, name))
            if reasoning:
                self._field = name
                self._thinking.add(reasoning)
                break

    def _add_details(self, details: list[Any]) -> None:
        """Put the `reasoning_details` together: OpenRouter sends each of them in pieces, with an index."""
        for detail in details:
            if not isinstance(detail, dict) or len(self._details) >= _MAX_DETAILS:
                continue
            place = (detail.get("index"), detail.get("type"))
            begun = (one for one in self._details if (one.get("index"), one.get("type")) == place)
            known = next(begun, None) if isinstance(place[0], int) else None
            if known is None:
                self._details.append(dict(detail))
                continue
            for name, value in detail.items():
                if name in _JOINED and isinstance(value, str) and isinstance(known.get(name), str):
                    known[name] += value
                elif value is not None:
                    known[name] = value

    def _carry(self) -> Carry:
        """Return what the server wants back, in the field in which it came."""
        if self._details:
            return ({"reasoning_details": self._details},)
        return ({self._field: str(self._thinking)},) if self._field else ()

    def _add_calls(self, delta: object) -> None:
        for call in list_in(delta, "tool_calls"):
            index = field(call, "index")
            made = field(call, "function") or field(call, "custom")
            self._tools.add(
                index if isinstance(index, int) else None,
                id_=field(call, "id"),
                name=field(made, "name"),
                arguments=field(made, "arguments") or field(made, "input"),
            )
        old = field(delta, "function_call")
        if isinstance(old, dict):  # what the protocol had before it had tools
            self._tools.add("function_call", name=old.get("name"), arguments=old.get("arguments"))


def _make_message(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": _make_content(message)}
    for item in message.carry:
        made |= {name: value for name, value in item.items() if name in CARRY_FIELDS}
    return made


def _make_content(message: Message) -> str | list[dict[str, Any]]:
    """Return the content of a message: a text, which every server takes, or parts if there are images."""
    text = encodable(message.content)
    if not message.images:
        return text
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": image.data_url}} for image in message.images
    ]
    return [*parts, {"type": "text", "text": text}]


def _read_text(content: object, kind: str = "text") -> str:
    """Return the text of a delta. Some servers send a list of parts, of which only some are text. Mistral's
    models send their thinking so."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == kind]
        return "".join(_read_text(part.get(kind)) for part in parts)
    return content if isinstance(content, str) and kind == "text" else ""


def _read_usage(usage: object) -> TokenUsage:
    prompt, output = count_in(usage, "prompt_tokens"), count_in(usage, "completion_tokens")
    reasoning = count_in(usage, "completion_tokens_details", "reasoning_tokens")
    if reasoning and count_in(usage, "total_tokens") == prompt + output + reasoning:
        output += reasoning  # some servers count thinking apart from the reply, but charge for it
    return TokenUsage(
        input_tokens=prompt,
        output_tokens=output,
        cached_tokens=count_in(usage, "prompt_tokens_details", "cached_tokens"),
        cache_write_tokens=count_in(usage, "prompt_tokens_details", "cache_write_tokens"),
        reasoning_tokens=min(reasoning, output),
    )
