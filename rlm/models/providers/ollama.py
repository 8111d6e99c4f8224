"""Models that Ollama serves, over its own API.

Its Chat Completions can't set the size of the context: Ollama then cuts a longer prompt without a word, often
at 4,096 tokens. Its own API takes the size with each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rlm.escaping import encodable
from rlm.models.base import FinishReason, ModelWindow, Reply, Request, TokenUsage
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.model import HttpModel
from rlm.models.http.reply_limits import MAX_COUNT, MAX_EVENT, BoundedText, ReplyTooLarge
from rlm.models.http.shared_clients import ClientPool
from rlm.models.http.streaming import StreamAccumulator
from rlm.models.http.wire_messages import alternating, field
from rlm.models.providers.openai import without_ambient_headers

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

__all__ = ["LineDecoder", "OllamaModel"]

_DEFAULT_CONTEXT = 16_384
"""Tokens of context to ask for where nothing says what the machine has memory for. It holds the rounds of a
root, and takes about 2 GB besides an 8B model. Ollama's own default is too small for either."""
_REPLY_SHARE = 4
_LEVELS = {"minimal": "low", "xhigh": "high", "max": "high"}
"""Efforts that it does not know, with the nearest that it knows."""
_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length"}


def _make_client(endpoint: Endpoint, http: httpx2.AsyncClient) -> AsyncOpenAI:
    # Any SDK's client carries the request. It adds the key and the errors that the rest of the code knows.
    from openai import AsyncOpenAI

    client = AsyncOpenAI(
        api_key=endpoint.key,
        base_url=endpoint.base_url,
        max_retries=0,
        default_headers=without_ambient_headers() | {"Authorization": f"Bearer {endpoint.key}"},
        http_client=http,
    )
    client.organization = client.project = None
    return client


class LineDecoder:
    """Decodes a stream of lines, each of which is one JSON object."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in `chunk`, in order. Raises ReplyTooLarge."""
        if len(self._rest) > MAX_EVENT:
            raise ReplyTooLarge(f"a line of more than {MAX_EVENT:,} bytes")
        self._rest += chunk
        if b"\n" not in chunk:
            return []
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        return [bytes(line) for line in lines if line.strip()]


class OllamaModel(HttpModel):
    """A model that Ollama serves. The base URL of `endpoint` is without `/v1` and `/api`.

    Every request asks for the same size of context, because Ollama loads the model again when that changes.
    """

    prefix = "ollama"
    clients = ClientPool(
        "openai", "/api/chat", _make_client, stream_type="x-ndjson", make_decoder=LineDecoder
    )

    @property
    def window(self) -> ModelWindow:
        """Return the size to ask for: that of the user, else that of the model's own file, else a default, or
        that of the loaded model if it is larger; never more than the model was trained for. It is no guess:
        Ollama obeys."""
        given = self._options.window
        if given is not None and given.known:
            return given
        facts = self.facts
        asked = _DEFAULT_CONTEXT if facts is None else facts.context or _DEFAULT_CONTEXT
        if facts is not None and facts.is_default:
            asked = max(asked, _DEFAULT_CONTEXT)
        most = None if facts is None else facts.most_context
        context = min(asked, most or asked)
        output = context // _REPLY_SHARE if given is None else min(given.output, context)
        return ModelWindow(context, max(1, output))

    def body(self, request: Request) -> dict[str, Any]:
        calls = self._options.calls
        options: dict[str, Any] = {
            "num_ctx": self.window.context,
            "num_predict": request.max_output_tokens,
        }
        if calls.temperature is not None:
            options["temperature"] = calls.temperature
        if calls.seed is not None:
            options["seed"] = calls.seed
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [
                {"role": message.role, "content": encodable(message.content)}
                for message in alternating(request.messages)
            ],
            "stream": True,
            "options": options,
        }
        thinks = self.facts is not None and self.facts.thinks
        if calls.effort is not None and thinks:
            levels = self.facts.think_levels if self.facts is not None else ()
            nearest = _LEVELS.get(calls.effort, calls.effort)
            body["think"] = nearest if nearest in levels else calls.effort != "none"
        extra = dict(calls.extra_body)
        options.update(extra.pop("options", {}))
        return body | extra

    def accumulator(self, body: dict[str, Any]) -> StreamAccumulator:
        return _Accumulator(body["options"]["num_predict"])


class _Accumulator:
    """Implements StreamAccumulator for the lines of Ollama's chat."""

    def __init__(self, max_output_tokens: int) -> None:
        self._text = BoundedText(max_output_tokens)
        self._thinking = BoundedText(max_output_tokens)
        self._finish = ""
        self._model = ""
        self._usage = TokenUsage()

    def reply(self) -> Reply | None:
        text, thinking = str(self._text), str(self._thinking)
        if self._is_overlong:
            return Reply(text, "length", self.spent, thinking=thinking, model=self._model)
        if not self._finish:
            return None
        reason = _FINISH_REASONS.get(self._finish, "other")
        return Reply(text, reason, self.spent, thinking=thinking, model=self._model)

    @property
    def _is_overlong(self) -> bool:
        return self._text.is_full or self._thinking.is_full

    @property
    def spent(self) -> TokenUsage:
        """Return the tokens. Ollama reports them only at the end."""
        return self._usage

    def add(self, event: object) -> bool:
        message = field(event, "message")
        for name, kept in (("content", self._text), ("thinking", self._thinking)):
            piece = field(message, name)
            if isinstance(piece, str):
                kept.add(piece)
        if isinstance(field(event, "model"), str):
            self._model = field(event, "model")[:200]
        if field(event, "done") is True:
            reason = field(event, "done_reason")
            self._finish = reason if isinstance(reason, str) and reason else "stop"
            self._usage = TokenUsage(
                input_tokens=_read_count(field(event, "prompt_eval_count")),
                output_tokens=_read_count(field(event, "eval_count")),
            )
        return bool(self._finish) or self._is_overlong

    def accept_json(self, answer: object) -> bool:
        """Accept a whole reply, which a proxy may have collected."""
        return isinstance(field(answer, "message"), dict) and self.add(answer)


def _read_count(count: object) -> int:
    return min(count, MAX_COUNT) if type(count) is int and count > 0 else 0
