"""OpenAI's models and every server that speaks Chat Completions (Ollama, vLLM, llama.cpp, OpenRouter)."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rlm.models.base import FinishReason, ModelWindow, Reply, Request, TokenUsage
from rlm.models.clients import ClientUser, SharedClient, SharedClients
from rlm.models.endpoint import Endpoint
from rlm.models.failures import Failure, FailureTeller
from rlm.models.limiter import limiter_of
from rlm.models.messages import alternating, encodable, field
from rlm.models.options import ModelOptions
from rlm.models.retry import with_retries
from rlm.models.windows import window_of

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI, AsyncStream

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


_clients: SharedClients[AsyncOpenAI] = SharedClients("openai", _make)


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
        self._user = ClientUser(_clients, endpoint, self._options)
        self._tell = FailureTeller(self._name, model, endpoint, self._options.proxy)
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
            lambda: self._attempt(shared, body),
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

    async def _attempt(self, shared: SharedClient[AsyncOpenAI], body: dict[str, Any]) -> Reply | Failure:
        import httpx2
        import openai

        gathered = _Gathered()
        try:
            # Chunks as plain dicts: making the SDK's models of them takes longer than all else of a call.
            with shared.client() as client:
                stream: AsyncStream[object] = await client.post(
                    "/chat/completions",
                    cast_to=object,
                    body=body,
                    stream=True,
                    stream_cls=openai.AsyncStream[object],
                )
                shared.reached = True
                async with stream:
                    result = await self._read(stream, gathered, body)
        except openai.APIStatusError as error:
            shared.reached = True
            result = self._tell.status(
                error.status_code, kinds=_kinds(error), detail=_detail(error), headers=error.response.headers
            )
        except (openai.APIConnectionError, httpx2.RequestError, httpx2.StreamError) as error:
            result = self._tell.transport(error)
        except openai.APIError as error:  # an error event within the stream
            result = self._tell.in_stream(_kinds(error), _detail(error))
        except Exception as error:  # the provider's edge: nothing of what was sent can be trusted
            result = self._tell.garbled(error)
        if isinstance(result, Failure) and gathered.began:
            return replace(result, spent=gathered.counted(body))
        return result

    async def _read(
        self, stream: AsyncStream[object], gathered: _Gathered, body: dict[str, Any]
    ) -> Reply | Failure:
        content_type = stream.response.headers.get("content-type", "")
        if "event-stream" in content_type:
            async for chunk in stream:
                gathered.take(chunk)
        else:
            # Some servers ignore that a stream was asked for, and send the whole completion as JSON.
            whole = _completion(await stream.response.aread()) if "json" in content_type else None
            if whole is None:
                return self._tell.not_a_stream(content_type)
            gathered.take(whole)
        if not gathered.finish:
            return self._tell.dropped()
        said, refused = "".join(gathered.text), "".join(gathered.refusal)
        reason = "refusal" if refused else _FINISH_REASONS.get(gathered.finish, "other")
        return Reply(said or refused, reason, gathered.counted(body))


class _Gathered:
    """What the chunks of one stream, or one completion that came whole, add up to.

    `take` is total, whatever a server calls a chunk. An exception would leave the SDK's generators half-way,
    in a cycle, and what the garbage collector then does to them ends in "generator already executing".
    """

    def __init__(self) -> None:
        self.text: list[str] = []
        self.refusal: list[str] = []
        self.reasoning: list[str] = []
        self.finish = ""
        self.began = False
        self._usage: TokenUsage | None = None

    def counted(self, body: dict[str, Any]) -> TokenUsage:
        """Tokens as the server counted them, else as we do, for the request `body`."""
        if self._usage is not None:
            return self._usage
        return _estimated(body, "".join(self.text + self.refusal), "".join(self.reasoning))

    def take(self, chunk: object) -> None:
        self.began = True
        usage = field(chunk, "usage")
        if usage is not None:
            self._usage = _counted(usage)
        choices = field(chunk, "choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = field(choice, "delta") or field(choice, "message")
            self.text.append(_said(field(delta, "content")))
            self.refusal.append(_said(field(delta, "refusal")))
            # Not in the protocol, sent by most servers of models that reason.
            self.reasoning.append(_said(field(delta, "reasoning_content")))
            finish = field(choice, "finish_reason")
            self.finish = finish if isinstance(finish, str) and finish else self.finish


def _completion(body: bytes) -> dict[str, Any] | None:
    """The chat completion that `body` holds; None if it holds something else."""
    try:
        data = json.loads(body)
    except ValueError:
        return None
    return data if isinstance(data, dict) and isinstance(data.get("choices"), list) else None


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
    from prompts.tokens import get_counter

    count = get_counter("estimate").count
    return TokenUsage(
        input_tokens=sum(count(message["content"]) for message in body["messages"]),
        output_tokens=count(said) + count(reasoning),
    )


def _kinds(error: Any) -> tuple[str, ...]:
    return tuple(str(kind) for kind in (error.code, error.type) if kind)


def _detail(error: Any) -> str:
    """The server's own words: an SDK's message may hold the whole body instead."""
    body = error.body
    message = body.get("message") if isinstance(body, dict) else body
    return message if isinstance(message, str) else ""
