"""All that a caller may set. Limits are declared in `rlm.limits`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rlm.limits import Limits
from rlm.models.catalog.overrides import ModelFacts
from rlm.models.options import ModelOptions
from rlm.prompts.recipes.root import Contract
from rlm.sandbox.host.jupyter_sandbox import SandboxLevel
from rlm.sandbox.types import KernelLimits

__all__ = ["ChildSettings", "DirectSettings", "Limits", "RootSettings", "Settings"]


@dataclass(frozen=True, slots=True)
class RootSettings:
    """How a root is run: characters of stdout it is shown a round, tokens of one of its replies, the share
    of its window that its messages may take before older rounds are folded."""

    contract: Contract = "one-block"
    output_limit: int = 8_000
    output_tokens: int = 8_000
    compact_at: float = 0.8


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """Tokens of a child's prompt and of its reply, and how many may be asked at once."""

    prompt_tokens: int = 32_000
    output_tokens: int = 8_000
    concurrency: int = 16


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """Up to how many tokens a context is answered directly, and how long the reply may be."""

    below_tokens: int = 16_000
    output_tokens: int = 8_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How runs go about their work. Each field's own type says what it holds.

    sandbox: the isolation level, or "auto" for the strongest there is; store: the journal's file or URL
    (None: the user's state folder), which loses its oldest finished runs when it takes more than store_mb
    megabytes; document_cache: whether the text of large files is kept from run to run in the user's cache
    folder; cache: children's answers are taken from earlier runs in the store, where the call is the same;
    facts: windows and prices by model name, which go before the shipped; tool_seconds: how long one call of
    a tool may take.
    """

    strategy: Literal["auto", "rlm", "direct"] = "auto"
    sandbox: SandboxLevel = "auto"
    store: Path | str | None = None
    document_cache: bool = True
    store_mb: int = 2_048
    cache: bool = False
    tool_seconds: float = 60.0
    root: RootSettings = field(default_factory=RootSettings)
    child: ChildSettings = field(default_factory=ChildSettings)
    direct: DirectSettings = field(default_factory=DirectSettings)
    kernel: KernelLimits = field(default_factory=KernelLimits)
    models: ModelOptions = field(default_factory=ModelOptions)
    facts: Mapping[str, ModelFacts] = field(default_factory=dict)
