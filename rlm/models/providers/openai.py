"""OpenAI's models and every server that speaks Chat Completions (Ollama, vLLM, llama.cpp, OpenRouter)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rlm.escaping import encodable
from rlm.models.base import FinishReason, Reply, Request, TokenUsage
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_COUNT, BoundedText
from rlm.models.http.shared_clients import ClientPool
from rlm.models.http.streaming import StreamAccumulator
from rlm.models.http.wire_messages import alternating, field, with_openai_cache

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = ["OpenAIModel"]

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


def _drop_ambient_headers(endpoint: Endpoint) -> dict[str, Any]:
    """Return headers that cancel OPENAI_CUSTOM_HEADERS, which the SDK would send to any server."""
    from openai import Omit

    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    headers: dict[str, Any] = {line.partition(":")[0].strip(): Omit() for line in lines if ":" in line}
    ours = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    return ours | {"Authorization": f"Bearer {endpoint.key}"}


class OpenAIModel(HttpModel):
    """A model of OpenAI's, or of a server with the same protocol. Where the server counts no tokens, the
    usage of a reply is our own estimate. The base URL of `endpoint` includes `/v1` where the server has
    it."""

    prefix = "openai"
    clients = ClientPool("openai", "/chat/completions", _make_client)

    def body(self, request: Request) -> dict[str, Any]:
        messages = alternating(request.messages)
        body = {
            "model": self._model,
            "messages": [
                {"role": message.role, "content": encodable(message.content)} for message in messages
            ],
            self._limit_field: request.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return with_openai_cache(body, messages) if self._is_openai else body

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body, next(body[name] for name in _LIMIT_FIELDS if name in body))

    @property
    def _limit_field(self) -> str:
        """Return the field of the output limit. OpenAI refuses the old name; other servers know no other."""
        return _LIMIT_FIELDS[0] if self._is_openai else _LIMIT_FIELDS[1]

    @property
    def _is_openai(self) -> bool:
        host = urlsplit(self._endpoint.base_url).hostname or ""
        return host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com"))


class _Accumulator:
    """Implements StreamAccumulator for Chat Completions. Estimates the tokens of `body` and of the reply
    where the server counts none."""

    def __init__(self, body: dict[str, Any], max_output_tokens: int) -> None:
        self._body = body
        self._text = BoundedText(max_output_tokens)
        self._refusal = BoundedText(max_output_tokens)
        self._reasoning = BoundedText(max_output_tokens)
        self._finish = ""
        self._has_begun = False
        self._usage: TokenUsage | None = None

    def reply(self) -> Reply | None:
        text, refusal = str(self._text), str(self._refusal)
        if self._is_overlong:
            return Reply(text or refusal, "length", self.spent)
        if not self._finish:
            return None
        reason = "refusal" if refusal else _FINISH_REASONS.get(self._finish, "other")
        return Reply(text or refusal, reason, self.spent)

    @property
    def _is_overlong(self) -> bool:
        return self._text.is_full or self._refusal.is_full

    @property
    def spent(self) -> TokenUsage:
        if self._usage is not None:
            return self._usage
        if not self._has_begun:
            return TokenUsage()
        return _estimate_usage(self._body, f"{self._text}{self._refusal}", str(self._reasoning))

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
            finish = field(choice, "finish_reason")
            self._finish = finish if isinstance(finish, str) and finish else self._finish
        # The usage follows, and then the end mark, which is no event. A server that ignores the output limit
        # may never come to it.
        return self._is_overlong

    def accept_json(self, answer: object) -> bool:
        """Accept a whole completion: some servers ignore `stream` and send JSON."""
        if not isinstance(field(answer, "choices"), list):
            return False
        self.add(answer)
        return True


def _read_text(content: object) -> str:
    """Return the text of a delta. Some servers send a list of parts, of which only some are text."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(_read_text(part.get("text")) for part in parts)
    return content if isinstance(content, str) else ""


def _read_usage(usage: object) -> TokenUsage:
    details = field(usage, "prompt_tokens_details")
    return TokenUsage(
        input_tokens=_read_count(field(usage, "prompt_tokens")),
        output_tokens=_read_count(field(usage, "completion_tokens")),
        cached_tokens=_read_count(field(details, "cached_tokens")),
        cache_write_tokens=_read_count(field(details, "cache_write_tokens")),
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
