"""Requests to models and their replies: one protocol for every provider.

Providers use `Request.messages`. The other fields (`task`, `slices`, `last_cell`) hold the same facts without
prose, for models that are programs. Nothing parses our own prompts.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rlm.results import EXTRACTIVE, TokenUsage
from rlm.sandbox.types import CellResult, Span

if TYPE_CHECKING:
    from rlm.models.call_settings import Effort

__all__ = [
    "EXTRACTIVE",
    "Carry",
    "FinishReason",
    "Image",
    "Message",
    "Model",
    "ModelWindow",
    "OnRetry",
    "Reply",
    "ReplyListener",
    "Request",
    "RetryReason",
    "Role",
    "SliceText",
    "TokenUsage",
    "ToolCall",
    "call_key",
    "collects_later",
    "is_extractive",
    "price_share",
]

Role = Literal["root", "child", "summary", "direct", "check"]
FinishReason = Literal["stop", "length", "refusal", "other"]
Carry = tuple[Mapping[str, Any], ...]
"""JSON objects of a reply that its provider wants back with it in the next request: signed thinking blocks,
reasoning items. Only the provider that made them reads them."""


RetryReason = Literal[
    "unreachable", "dropped", "timeout", "rate_limited", "overloaded", "server_error", "conflict", "garbled"
]
"""Why an attempt is retried. `rate_limited` and `overloaded` ask for fewer requests at a time."""

OnRetry = Callable[[int, float, RetryReason], None]
"""Called before each wait with the number of the failed attempt (from 1), the seconds to wait, and the
reason."""


@dataclass(frozen=True, slots=True)
class ReplyListener:
    """What a request's caller wants to hear. The functions are called from the event loop and must not
    block.

    `on_tokens` gets the number of pieces (about a token each) that a reply has brought since its last call,
    at most once a second. `on_text` gets what the text of the reply has grown by, at most every 50 ms, and
    None when an attempt failed after text had come: what came so far is void.
    """

    on_tokens: Callable[[int], None] | None = None
    on_text: Callable[[str | None], None] | None = None
    on_retry: OnRetry | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture for a model that sees. `media_type` is like `image/png`, `data` holds the bytes of the file,
    and `width` and `height` are its pixels."""

    media_type: str
    data: bytes = field(repr=False)
    width: int = 0
    height: int = 0

    @property
    def sha256(self) -> str:
        """Return the hash of the bytes, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def base64(self) -> str:
        """Return the bytes as providers want them in JSON."""
        return base64.b64encode(self.data).decode("ascii")

    @property
    def data_url(self) -> str:
        """Return the picture as a URL that holds its bytes."""
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `stable` marks the end of a prefix that later requests repeat (a cache border).
    `long_lived`: the next request that repeats it may come after more than five minutes.
    `carry` is that of the reply that an assistant's message repeats. A provider sends `images` before the
    content, in their order."""

    role: Literal["system", "user", "assistant"]
    content: str
    stable: bool = False
    carry: Carry = ()
    images: tuple[Image, ...] = ()
    long_lived: bool = False


@dataclass(frozen=True, slots=True)
class SliceText:
    """A piece of text for a child. `span` is None when the text is not part of the body."""

    text: str
    span: Span | None = None
    document: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `round` counts from 1 for a root and is 0 for every other role. `final` marks a root's last
    round, in which only `finalize` is useful. `sample` distinguishes repeated requests with the same prompt.
    `schema` is the JSON Schema of the reply. The messages hold it, too: it only lets a provider that can
    enforce it do so, and the caller checks the reply. `effort` replaces that of the model's settings, and
    `thinking` the tokens of thinking in its window. A model may ignore `listener`. `run` names the run that
    asks and, behind a slash, its sub-RLM or part. Tokens are counted by the model's own tokenizer."""

    role: Role
    messages: tuple[Message, ...]
    max_output_tokens: int
    task: str
    slices: tuple[SliceText, ...] = ()
    round: int = 0
    last_cell: CellResult | None = None
    final: bool = False
    sample: int = 0
    schema: Mapping[str, Any] | None = None
    effort: Effort | None = None
    thinking: int | None = None
    listener: ReplyListener | None = field(default=None, compare=False, repr=False)
    run: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that a reply calls, though none is offered. `arguments` is JSON, or code as it is."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    """`finish_reason` is `length` when the output limit cut the text, and `refusal` when a policy did.
    `usage` includes every attempt of the call, as far as known. `thinking` is what the model thought before
    and within its reply, as far as the provider shows it; `text` holds none of it. `response_id` is the
    provider's, and `model` the model that it says answered; both are empty where it says nothing. `batch` is
    the provider's id of the batch that brought the reply, empty for a reply at once. `tool_calls` are apart
    from the text until the reply is used (`structured.as_text`)."""

    text: str
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    thinking: str = ""
    carry: Carry = ()
    response_id: str = ""
    model: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    batch: str = ""


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """A model's context window and output limit, in tokens. `known` is False for the defaults. `context` is
    for prompts and the text of replies, `output` for the text alone: the `thinking` tokens that a reply may
    take besides its text are not part of either. `sees` tells whether the model takes pictures; None means
    unknown."""

    context: int
    output: int
    known: bool = True
    sees: bool | None = None
    thinking: int = 0

    @property
    def whole(self) -> ModelWindow:
        """Return the window with the room for thinking as a part of the context."""
        return replace(self, context=self.context + self.thinking, thinking=0)


class Model(Protocol):
    """A model that can be called. `name` is the name that the user gave (`openai:gpt-5`)."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> ModelWindow: ...

    async def generate(self, request: Request) -> Reply:
        """Return one reply, after any retries. Raises ModelError and no other exception of a provider."""

    async def aclose(self) -> None: ...


def call_key(model: str, request: Request) -> str:
    """Return a hash of the model's name, the parameters and the prompt. Requests with equal keys may share a
    reply."""
    messages = [[message.role, message.content] for message in request.messages]
    parts: list[object] = [model, request.max_output_tokens, request.sample, messages]
    images = [[image.sha256 for image in message.images] for message in request.messages]
    if any(images):
        parts.append(images)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def price_share(model: Model) -> float:
    """Return the share of its list price that a call of `model` costs: less than 1 for one that waits in a
    batch."""
    return float(getattr(model, "price_share", 1.0))


def collects_later(model: Model) -> bool:
    """Return whether a cancelled call of `model` is answered all the same, and its reply collected when the
    call is made again: that of one that waits in a batch."""
    return bool(getattr(model, "collects_later", False))


def is_extractive(model: Model) -> bool:
    """Return whether `model` is the built-in program that answers with extracts."""
    return model.name == EXTRACTIVE
