"""OpenAI's models and every server that speaks Chat Completions (Ollama, vLLM, llama.cpp, OpenRouter)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rlm.models.base import FinishReason, ModelWindow, Reply, Request, TokenUsage
from rlm.models.catalog.windows import window_of
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import ErrorMapper
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.shared_clients import ClientLease, ClientPool
from rlm.models.http.streaming import stream_completion
from rlm.models.http.wire_messages import alternating, encodable, field
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = ["OPENAI_URL", "OpenAIModel"]

OPENAI_URL = "https://api.openai.com/v1"

_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length", "content_filter": "refusal"}


def _make(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
        default_headers=_without_ambient_headers(endpoint) if endpoint.private else None,
        http_client=http,
    )
    if endpoint.private:
        # The SDK takes these from the environment; they are for OpenAI alone.
        client.organization = client.project = None
    return client


def _without_ambient_headers(endpoint: Endpoint) -> dict[str, Any]:
    """Headers that undo OPENAI_CUSTOM_HEADERS, which the SDK would send to any server."""
    from openai import Omit

    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    headers: dict[str, Any] = {line.partition(":")[0].strip(): Omit() for line in lines if ":" in line}
    ours = {name: value for name, value in headers.items() if name.lower() != "authorization"}
    return ours | {"Authorization": f"Bearer {endpoint.key}"}


_clients = ClientPool("openai", "/chat/completions", _make)


class OpenAIModel:
    """A Model. Nothing is imported or connected before the first call.

    `model` is the server's own name; `name` is the one to show, by default `openai:MODEL`. The base URL of
    `endpoint` is with `/v1`, where the server has it.
    """

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
    ) -> None:
        self._options = options or ModelOptions()
        self._model = model
        self._name = name or f"openai:{model}"
        self._endpoint = endpoint
        self._user = ClientLease(_clients, endpoint, self._options)
        self._tell = ErrorMapper(self._name, model, endpoint, proxy_to(endpoint, self._options))
        # OpenAI refuses the old name for its newer models; other servers know no other.
        host = urlsplit(endpoint.base_url).hostname or ""
        ours = host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com"))
        self._limit = "max_completion_tokens" if ours else "max_tokens"

    def __repr__(self) -> str:
        return f"OpenAIModel({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return self._options.window or window_of(self._model)

    async def generate(self, request: Request) -> Reply:
        """One reply, streamed and put together, after whatever retries. Raises ModelError alone. Where the
        server counts no tokens, `usage` is our own estimate."""
        body = self._body(request)
        shared = await self._user.get()
        return await with_retries(
            lambda: stream_completion(shared, body, _Gathered(body), self._tell),
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            reached=lambda: shared.reached,
            on_retry=self._options.on_retry,
        )

    async def aclose(self) -> None:
        """Close this model's use of its client; the last user closes the connections. Safe to call twice."""
        await self._user.aclose()

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [
                {"role": message.role, "content": encodable(message.content)}
                for message in alternating(request.messages)
            ],
            self._limit: request.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }


class _Gathered:
    """A Gathering. Where the server counts no tokens, they are estimated, for the request `body`."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._finish = ""
        self._began = False
        self._usage: TokenUsage | None = None

    def reply(self) -> Reply | None:
        if not self._finish:
            return None
        said, refused = "".join(self._text), "".join(self._refusal)
        reason = "refusal" if refused else _FINISH_REASONS.get(self._finish, "other")
        return Reply(said or refused, reason, self.spent)

    @property
    def spent(self) -> TokenUsage:
        if self._usage is not None:
            return self._usage
        if not self._began:
            return TokenUsage()
        return _estimated(self._body, "".join(self._text + self._refusal), "".join(self._reasoning))

    def add(self, event: object) -> bool:
        self._began = True
        usage = field(event, "usage")
        if usage is not None:
            self._usage = _counted(usage)
        choices = field(event, "choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = field(choice, "delta") or field(choice, "message")
            self._text.append(_said(field(delta, "content")))
            self._refusal.append(_said(field(delta, "refusal")))
            # Not in the protocol, sent by most servers of models that reason.
            self._reasoning.append(_said(field(delta, "reasoning_content")))
            finish = field(choice, "finish_reason")
            self._finish = finish if isinstance(finish, str) and finish else self._finish
        return False  # the usage follows, and then what is no event

    def take_whole(self, answer: object) -> bool:
        """Some servers ignore that a stream was asked for, and send the whole completion as JSON."""
        if not isinstance(field(answer, "choices"), list):
            return False
        self.add(answer)
        return True


def _said(content: object) -> str:
    """The text of a delta: a string, or, from some servers, a list of parts of which some are text."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(_said(part.get("text")) for part in parts)
    return content if isinstance(content, str) else ""


def _counted(usage: object) -> TokenUsage:
    return TokenUsage(
        input_tokens=_whole(field(usage, "prompt_tokens")),
        output_tokens=_whole(field(usage, "completion_tokens")),
        cached_tokens=_whole(field(field(usage, "prompt_tokens_details"), "cached_tokens")),
    )


def _whole(count: object) -> int:
    """A count as servers may send it: absent, or anything."""
    return count if isinstance(count, int) and count > 0 else 0


def _estimated(body: dict[str, Any], said: str, reasoning: str) -> TokenUsage:
    from rlm.prompts.tokens.counters import get_counter

    count = get_counter("estimate").count
    return TokenUsage(
        input_tokens=sum(count(message["content"]) for message in body["messages"]),
        output_tokens=count(said) + count(reasoning),
    )
