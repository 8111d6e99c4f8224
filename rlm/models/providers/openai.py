"""OpenAI's models and every server that speaks Chat Completions (Ollama, vLLM, llama.cpp, OpenRouter)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from rlm.escaping import encodable
from rlm.models.base import FinishReason, Message, Reply, Request, TokenUsage
from rlm.models.http.batches.openai import OpenAIBatches
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_COUNT, BoundedText
from rlm.models.http.shared_clients import ClientPool
from rlm.models.http.streaming import StreamAccumulator
from rlm.models.http.wire_messages import alternating, field
from rlm.models.structured.portable_schema import PortableSchema
from rlm.models.structured.tool_calls import ToolCallCollector

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel", "without_ambient_headers"]

_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length", "content_filter": "refusal"}
_LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")


def _make_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
        default_headers=_drop_ambient_headers(endpoint) if endpoint.private else None,
        http_client=http,
    )
    if endpoint.private:
        # The SDK reads these from the environment, but they are meant for OpenAI only.
        client.organization = client.project = None
    return client


def without_ambient_headers() -> dict[str, Any]:
    """Return headers that cancel OPENAI_CUSTOM_HEADERS, which the SDK would send to any server."""
    from openai import Omit

    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    names = (line.partition(":")[0].strip() for line in lines if ":" in line)
    return {name: Omit() for name in names if name.lower() not in ("authorization", "api-key")}


def _drop_ambient_headers(endpoint: Endpoint) -> dict[str, Any]:
    """Return the headers for a server that is not OpenAI's. The key goes there even if
    OPENAI_CUSTOM_HEADERS holds another."""
    return without_ambient_headers() | {"Authorization": f"Bearer {endpoint.key}"}


class OpenAIModel(HttpModel):
    """A model of OpenAI's, or of a server with the same protocol. Where the server counts no tokens, the
    usage of a reply is our own estimate. The base URL of `endpoint` includes `/v1` where the server has
    it."""

    prefix = "openai"
    takes_completion_limit: ClassVar[bool] = False
    """Whether the output limit has its new name for every server of this class."""
    clients = ClientPool("openai", "/chat/completions", _make_client)
    batches = OpenAIBatches

    def body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [
                {"role": message.role, "content": _make_content(message)}
                for message in alternating(request.messages)
            ],
            self._limit_field: request.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def schema_fields(self, schema: PortableSchema) -> dict[str, Any]:
        form = {"name": "reply", "schema": schema.schema, "strict": schema.strict}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body, next(body[name] for name in _LIMIT_FIELDS if name in body))

    @property
    def _limit_field(self) -> str:
        """Return the field of the output limit. OpenAI refuses the old name; other servers know no other."""
        host = urlsplit(self._endpoint.base_url).hostname or ""
        ours = (
            self.takes_completion_limit
            or host == "openai.com"
            or host.endswith((".openai.com", ".openai.azure.com"))
        )
        return _LIMIT_FIELDS[0] if ours else _LIMIT_FIELDS[1]


class _Accumulator:
    """Implements StreamAccumulator for Chat Completions. Estimates the tokens of `body` and of the reply
    where the server counts none."""

    def __init__(self, body: dict[str, Any], max_output_tokens: int) -> None:
        self._body = body
        self._text = BoundedText(max_output_tokens)
        self._refusal = BoundedText(max_output_tokens)
        self._reasoning = BoundedText(max_output_tokens)
        self._tools = ToolCallCollector(max_output_tokens)
        self._finish = ""
        self._has_begun = False
        self._usage: TokenUsage | None = None

    @property
    def text(self) -> BoundedText:
        return self._text

    def reply(self) -> Reply | None:
        text, refusal = str(self._text), str(self._refusal)
        calls = self._tools.calls
        if self._is_overlong:
            return Reply(text or refusal, "length", self.spent, tool_calls=calls)
        if not self._finish:
            return None
        reason = "refusal" if refusal else _FINISH_REASONS.get(self._finish, "other")
        return Reply(text or refusal, reason, self.spent, tool_calls=calls)

    @property
    def _is_overlong(self) -> bool:
        return self._text.is_full or self._refusal.is_full or self._tools.is_full

    @property
    def spent(self) -> TokenUsage:
        if self._usage is not None:
            return self._usage
        if not self._has_begun:
            return TokenUsage()
        called = "".join(f"{call.name}{call.arguments}" for call in self._tools.calls)
        return _estimate_usage(self._body, f"{self._text}{self._refusal}{called}", str(self._reasoning))

    def add(self, event: object) -> bool:
        self._has_begun = True
        usage = field(event, "usage")
        if usage is not None:
            self._usage = _read_usage(usage)
        choices = field(event, "choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = field(choice, "delta") or field(choice, "message")
            self._text.add(_read_text(field(delta, "content")))
            self._refusal.add(_read_text(field(delta, "refusal")))
            # The protocol lacks this field, but most servers of reasoning models send it.
            self._reasoning.add(_read_text(field(delta, "reasoning_content")))
            self._add_calls(delta)
            finish = field(choice, "finish_reason")
            self._finish = finish if isinstance(finish, str) and finish else self._finish
        # The usage follows, and then the end mark, which is no event. A server that ignores the output limit
        # may never come to it.
        return self._is_overlong

    def _add_calls(self, delta: object) -> None:
        calls, old = field(delta, "tool_calls"), field(delta, "function_call")
        for call in calls if isinstance(calls, list) else ():
            index = field(call, "index")
            made = field(call, "function") or field(call, "custom")
            self._tools.add(
                index if isinstance(index, int) else None,
                id_=field(call, "id"),
                name=field(made, "name"),
                arguments=field(made, "arguments") or field(made, "input"),
            )
        if isinstance(old, dict):  # what the protocol had before it had tools
            self._tools.add("function_call", name=old.get("name"), arguments=old.get("arguments"))

    def accept_json(self, answer: object) -> bool:
        """Accept a whole completion: some servers ignore `stream` and send JSON."""
        if not isinstance(field(answer, "choices"), list):
            return False
        self.add(answer)
        return True


def _make_content(message: Message) -> str | list[dict[str, Any]]:
    """Return the content of a message: a text, which every server takes, or parts if there are images."""
    text = encodable(message.content)
    if not message.images:
        return text
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": image.data_url}} for image in message.images
    ]
    return [*parts, {"type": "text", "text": text}]


def _read_text(content: object) -> str:
    """Return the text of a delta. Some servers send a list of parts, of which only some are text."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(_read_text(part.get("text")) for part in parts)
    return content if isinstance(content, str) else ""


def _read_usage(usage: object) -> TokenUsage:
    return TokenUsage(
        input_tokens=_read_count(field(usage, "prompt_tokens")),
        output_tokens=_read_count(field(usage, "completion_tokens")),
        cached_tokens=_read_count(field(field(usage, "prompt_tokens_details"), "cached_tokens")),
    )


def _read_count(count: object) -> int:
    """Return `count`, or 0 where a server sends nothing or something else."""
    return min(count, MAX_COUNT) if isinstance(count, int) and count > 0 else 0


def _estimate_usage(body: dict[str, Any], text: str, reasoning: str) -> TokenUsage:
    from rlm.prompts.tokens.counters import get_counter

    count = get_counter("estimate").count
    return TokenUsage(
        input_tokens=sum(count(_read_text(message["content"])) for message in body["messages"]),
        output_tokens=count(text) + count(reasoning),
    )
