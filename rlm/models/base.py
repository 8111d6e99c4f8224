"""What the runtime asks of a model, and what it gets back: one protocol for every provider.

Providers use `Request.messages`. The structure beside them (`task`, `slices`, `last_cell`) says the same
without prose, for models that are programs; nothing parses our own prompts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from rlm.results import TokenUsage
from rlm.sandbox.types import CellResult, Span

__all__ = [
    "EXTRACTIVE",
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
"""The name of the model that is a program of ours: it needs no key, and its cells no isolation."""

Role = Literal["root", "child", "summary", "direct"]
FinishReason = Literal["stop", "length", "refusal", "other"]


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `stable` marks the end of a prefix that later requests repeat (a cache border)."""

    role: Literal["system", "user", "assistant"]
    content: str
    stable: bool = False


@dataclass(frozen=True, slots=True)
class SliceText:
    """A piece of text a child is to read. `span` is None when the text is not part of the body."""

    text: str
    span: Span | None = None
    document: str | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One call. `round` counts from 1 for a root and is 0 for every other role. `final` says that this
    is a root's last round: nothing but `finalize` is of use. `sample` tells apart requests that want another
    answer to the same. Tokens are the model's own."""

    role: Role
    messages: tuple[Message, ...]
    max_output_tokens: int
    task: str
    slices: tuple[SliceText, ...] = ()
    round: int = 0
    last_cell: CellResult | None = None
    final: bool = False
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """`finish_reason` is `length` when the provider's output limit cut the text; `refusal` by policy.
    `usage` is that of every attempt the call took, as far as it is known."""

    text: str
    finish_reason: FinishReason = "stop"
    usage: TokenUsage = field(default_factory=TokenUsage)


@dataclass(frozen=True, slots=True)
class ModelWindow:
    """How much a model takes and gives, in tokens. `known` is False when these are only the defaults."""

    context: int
    output: int
    known: bool = True


class Model(Protocol):
    """A provider's model, ready to be asked. `name` is the name the user gave (`openai:gpt-5`)."""

    @property
    def name(self) -> str: ...

    @property
    def window(self) -> ModelWindow: ...

    async def generate(self, request: Request) -> Reply:
        """One reply, after whatever retries. Raises ModelError, and nothing else of a provider's."""

    async def aclose(self) -> None: ...


def is_extractive(model: Model) -> bool:
    """Whether it answers with extracts and no language model is asked."""
    return model.name == EXTRACTIVE
