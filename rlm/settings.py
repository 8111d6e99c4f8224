"""All that a caller may set: limits of a run, and how its parts go about their work."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from rlm.errors import ConfigurationError
from rlm.models.catalog.overrides import ModelFacts
from rlm.models.options import ModelOptions
from rlm.prompts.recipes.root import Contract
from rlm.sandbox.host.jupyter_sandbox import SandboxLevel
from rlm.sandbox.types import KernelLimits

__all__ = ["ChildSettings", "DirectSettings", "Limits", "RootSettings", "Settings"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run may take, its whole tree of sub-RLMs and children included (`rounds`: each RLM of it).

    `rounds` counts the last round, in which a root may only finalize. `depth` is how many levels of
    sub-RLMs get a kernel of their own; `sub_calls` counts child calls; `tokens` are input and output;
    `cost_usd` holds only where prices are known. `cell_seconds` is a cell's own computing, `seconds` the
    whole run by the clock. `concurrency` is calls in flight a provider; `violations` in a row end the run.
    Raises ConfigurationError naming the field that can't be.
    """

    rounds: int = 30
    depth: int = 1
    sub_calls: int = 1_000
    tokens: int = 10_000_000
    cost_usd: float = 5.0
    seconds: float = 1_800.0
    cell_seconds: float = 120.0
    concurrency: int = 16
    violations: int = 3

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            whole = isinstance(item.default, int)
            least = 0 if item.name in {"depth", "sub_calls", "cost_usd"} else 1 if whole else None
            wanted = "a whole number" if whole else "a number"
            wanted += " above 0" if least is None else f" of at least {least}"
            kinds = (int,) if whole else (int, float)
            if (
                isinstance(value, bool)
                or not isinstance(value, kinds)
                or not math.isfinite(value)
                or (value <= 0 if least is None else value < least)
            ):
                raise ConfigurationError(f"is {value!r}; give {wanted}", option=f"limits.{item.name}")


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
