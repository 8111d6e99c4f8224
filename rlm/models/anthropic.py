"""Anthropic's models, over the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm.models.base import FinishReason, Message, ModelWindow, Reply, Request, TokenUsage
from rlm.models.clients import ClientUser, SharedClient, SharedClients, http_client
from rlm.models.endpoint import Endpoint
from rlm.models.failures import Failure, FailureTeller
from rlm.models.limiter import limiter_of
from rlm.models.messages import cache_borders, encodable
from rlm.models.options import ModelOptions
from rlm.models.retry import with_retries
from rlm.models.windows import window_of

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic.types import RawMessageStreamEvent

__all__ = ["ANTHROPIC_URL", "AnthropicModel"]

ANTHROPIC_URL = "https://api.anthropic.com"

_CACHE_BORDERS = 4  # the API takes no more in one request
_FINISH_REASONS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def _make(endpoint: Endpoint, options: ModelOptions) -> AsyncAnthropic:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
        open_telemetry=False,
        http_client=http_client(options),
    )


_clients: SharedClients[AsyncAnthropic] = SharedClients("anthropic", _make)


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
        self._user = ClientUser(_clients, endpoint, self._options)
        self._tell = FailureTeller(self._name, model, endpoint, self._options.proxy)

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
            lambda: self._attempt(shared, body),
            self._options.retry,
            limiter=limiter_of(self._endpoint, self._options.concurrency),
            reached=lambda: shared.reached,
            on_retry=self._options.on_retry,
        )

    async def aclose(self) -> None:
        """Close this model's use of its client; the last user closes the connections. Safe to call twice."""
        await self._user.aclose()

    async def _attempt(self, shared: SharedClient[AsyncAnthropic], body: dict[str, Any]) -> Reply | Failure:
        import anthropic
        import httpx2

        try:
            stream: AsyncStream[RawMessageStreamEvent] = await shared.client.messages.create(
                **body, stream=True
            )
            shared.reached = True
            async with stream:
                return await self._read(stream)
        except anthropic.APIStatusError as error:
            shared.reached = True
            kinds = tuple(str(kind) for kind in (error.type, error.error_code) if kind)
            detail = error.api_message if isinstance(error.api_message, str) else ""
            if error.status_code == 200:
                return self._tell.in_stream(kinds, detail)
            return self._tell.status(
                error.status_code, kinds=kinds, detail=detail, headers=error.response.headers
            )
        except (anthropic.APIConnectionError, httpx2.RequestError, httpx2.StreamError) as error:
            return self._tell.transport(error)
        except Exception as error:  # the provider's edge: the SDK trusts the shape of what was sent
            return self._tell.garbled(error)

    async def _read(self, stream: AsyncStream[RawMessageStreamEvent]) -> Reply | Failure:
        content_type = stream.response.headers.get("content-type", "")
        if "event-stream" not in content_type:
            return self._tell.not_a_stream(content_type)
        text: list[str] = []
        counts: dict[str, int] = {}
        stop_reason, whole = "", False
        async for event in stream:
            if event.type == "message_start":
                _note(counts, event.message.usage)
            elif event.type == "content_block_start" and event.content_block.type == "text":
                text.append(event.content_block.text)
            elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                text.append(event.delta.text)
            elif event.type == "message_delta":
                _note(counts, event.usage)
                stop_reason = event.delta.stop_reason or stop_reason
            elif event.type == "message_stop":
                whole = True
        if not whole:
            return self._tell.dropped()
        return Reply("".join(text), _FINISH_REASONS.get(stop_reason, "other"), _usage(counts))


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
    body: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens, "messages": turns}
    if system:
        body["system"] = system
    return body


def _block(message: Message, *, cached: bool) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": encodable(message.content)}
    if cached:
        block["cache_control"] = {"type": "ephemeral"}
    return block


def _note(counts: dict[str, int], usage: object) -> None:
    """Keep what `usage` tells: later events repeat the counts of earlier ones, grown."""
    for field in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"):
        value = getattr(usage, field, None)
        if isinstance(value, int):
            counts[field] = value


def _usage(counts: dict[str, int]) -> TokenUsage:
    cached = counts.get("cache_read_input_tokens", 0)
    return TokenUsage(
        input_tokens=counts.get("input_tokens", 0) + cached + counts.get("cache_creation_input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cached_tokens=cached,
    )
