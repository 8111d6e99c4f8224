"""Anthropic's models, over the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm.models.base import FinishReason, Message, ModelWindow, Reply, Request, TokenUsage
from rlm.models.catalog.windows import window_of
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.error_mapping import ErrorMapper
from rlm.models.http.proxy import proxy_to
from rlm.models.http.rate_limit import limiter_of
from rlm.models.http.retry import with_retries
from rlm.models.http.shared_clients import ClientLease, ClientPool
from rlm.models.http.streaming import stream_completion
from rlm.models.http.wire_messages import cache_borders, encodable, field
from rlm.models.options import ModelOptions

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

__all__ = ["ANTHROPIC_URL", "AnthropicModel"]

ANTHROPIC_URL = "https://api.anthropic.com"

_COUNTED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_CACHE_BORDERS = 4  # the API takes no more in one request
_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def _make(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
        open_telemetry=False,
        http_client=http,
    )


_clients = ClientPool("anthropic", "/v1/messages", _make)


class AnthropicModel:
    """A Model. Nothing is imported or connected before the first call.

    `model` is Anthropic's own name; `name` is the one to show, by default `anthropic:MODEL`. The base URL
    of `endpoint` is without `/v1`.
    """

    def __init__(
        self, model: str, endpoint: Endpoint, *, name: str | None = None, options: ModelOptions | None = None
    ) -> None:
        self._options = options or ModelOptions()
        self._model = model
        self._name = name or f"anthropic:{model}"
        self._endpoint = endpoint
        self._user = ClientLease(_clients, endpoint, self._options)
        self._tell = ErrorMapper(self._name, model, endpoint, proxy_to(endpoint, self._options))

    def __repr__(self) -> str:
        return f"AnthropicModel({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return self._options.window or window_of(self._model)

    async def generate(self, request: Request) -> Reply:
        """One reply, streamed and put together, after whatever retries. Raises ModelError alone."""
        body = _body(self._model, request)
        shared = await self._user.get()
        return await with_retries(
            lambda: stream_completion(shared, body, _Gathered(), self._tell),
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            reached=lambda: shared.reached,
            on_retry=self._options.on_retry,
        )

    async def aclose(self) -> None:
        """Close this model's use of its client; the last user closes the connections. Safe to call twice."""
        await self._user.aclose()


class _Gathered:
    """A Gathering."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._stop_reason = ""
        self._whole = False
        self._counts: dict[str, int] = {}

    def reply(self) -> Reply | None:
        if not self._whole:
            return None
        return Reply("".join(self._text), _FINISH_REASONS.get(self._stop_reason, "other"), self.spent)

    @property
    def spent(self) -> TokenUsage:
        """Tokens so far; those of the reply are only known at its end."""
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
            self._note(field(field(event, "message"), "usage"))
        elif kind == "content_block_start":
            self._say(field(event, "content_block"), "text")
        elif kind == "content_block_delta":
            self._say(field(event, "delta"), "text_delta")
        elif kind == "message_delta":
            self._note(field(event, "usage"))
            reason = field(field(event, "delta"), "stop_reason")
            self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
        elif kind == "message_stop":
            self._whole = True
        return self._whole

    def take_whole(self, answer: object) -> bool:
        return False

    def _say(self, part: object, kind: str) -> None:
        text = field(part, "text")
        if field(part, "type") == kind and isinstance(text, str):
            self._text.append(text)

    def _note(self, usage: object) -> None:
        """Keep what `usage` tells: later events repeat the counts of earlier ones, grown."""
        for name in _COUNTED:
            value = field(usage, name)
            if isinstance(value, int) and value >= 0:
                self._counts[name] = value


def _body(model: str, request: Request) -> dict[str, Any]:
    borders = cache_borders(request.messages, _CACHE_BORDERS)
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for index, message in enumerate(request.messages):
        if not message.content:  # the API refuses an empty block
            continue
        block = _block(message, cached=index in borders)
        if message.role == "system":
            system.append(block)
        else:
            turns.append({"role": message.role, "content": [block]})
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_output_tokens,
        "messages": turns,
        "stream": True,
    }
    if system:
        body["system"] = system
    return body


def _block(message: Message, *, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": encodable(message.content)}
    if cached:
        block["cache_control"] = {"type": "ephemeral"}
    return block
