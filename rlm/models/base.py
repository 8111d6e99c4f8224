"""Requests to models and their replies: one protocol for every provider.

Providers use `Request.messages`. The other fields (`task`, `slices`, `last_cell`) hold the same facts without
prose, for models that are programs. Nothing parses our own prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from rlm.results import TokenUsage
from rlm.sandbox.types import CellResult, Span

__all__ = [
    "EXTRACTIVE",
    "Carry",
    "FinishReason",
    "Message",
    "Model",
    "ModelWindow",
    "Reply",
    "Request",
    "Role",
    "SliceText",
    "TokenUsage",
    "is_extractive",
]

EXTRACTIVE = "extractive"
"""The name of the built-in model that is a program. It needs no key, and its cells need no isolation."""

Role = Literal["root", "child", "summary", "direct", "check"]
FinishReason = Literal["stop", "length", "refusal", "other"]
Carry = tuple[Mapping[str, Any], ...]
"""JSON objects of a reply that its provider wants back with it in the next request: signed thinking blocks,
reasoning items. Only the provider that made them reads them."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `stable` marks the end of a prefix that later requests repeat (a cache border).
    `long_lived`: the next request that repeats it may come after more than five minutes.
    `carry` is that of the reply that an assistant's message repeats."""

    role: Literal["system", "user", "assistant"]
    content: str
    stable: bool = False
    carry: Carry = ()
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
    enforce it do so, and the caller checks the reply. Tokens are counted by the model's own tokenizer."""

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


@dataclass(frozen=True, slots=True)
class Reply:
    """`finish_reason` is `length` when the output limit cut the text, and `refusal` when a policy did.
    `usage` includes every attempt of the call, as far as known. `thinking` is what the model thought before
    and within its reply, as far as the provider shows it; `text` holds none of it. `response_id` is the
    provider's, and `model` the model that it says answered; both are empty where it says nothing."""

    text: str
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)
    thinking: str = ""
    carry: Carry = ()
    response_id: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """A model's context window and output limit, in tokens. `known` is False for the defaults."""

    context: int
    output: int
    known: bool = True


class Model(Protocol):
    """A model that can be called. `name` is the name that the user gave (`openai:gpt-5`)."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> ModelWindow: ...

    async def generate(self, request: Request) -> Reply:
        """Return one reply, after any retries. Raises ModelError and no other exception of a provider."""

    async def aclose(self) -> None: ...


def is_extractive(model: Model) -> bool:
    """Return whether `model` is the built-in program that answers with extracts."""
    return model.name == EXTRACTIVE
