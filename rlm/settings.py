"""The settings of runs. Limits are declared in `rlm.limits`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlm.limits import Limits
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import ModelInfo
from rlm.models.options import ModelOptions
from rlm.sandbox.types import KernelLimits

if TYPE_CHECKING:
    from rlm.prompts.recipes.root import Contract
    from rlm.sandbox.host.jupyter_sandbox import SandboxLevel

__all__ = ["ChildSettings", "DirectSettings", "Limits", "RootSettings", "Settings"]


@dataclass(frozen=True, slots=True)
class RootSettings:
    """Settings of the root.

    output_limit: characters of stdout shown to it in each round.
    output_tokens: tokens of one reply.
    compact_at: the share of its window that its messages may fill before older rounds are summarized.
    """

    contract: Contract = "one-block"
    output_limit: int = 8_000
    output_tokens: int = 8_000
    compact_at: float = 0.8


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """Settings of children: the tokens of one reply. The tokens of one prompt and the calls in flight are
    limits.

    chunk_chars: the characters of a chunk where a cell names no size. None is as much as a child takes.
    """

    output_tokens: int = 8_000
    chunk_chars: int | None = None


@dataclass(frozen=True, slots=True)
class DirectSettings:
    """Settings of direct answers: the maximum tokens of the input, and of the reply."""

    below_tokens: int = 16_000
    output_tokens: int = 8_000


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of runs. The types of the nested settings describe their own fields.

    strategy: "rlm" for rounds of code, "direct" for one call, "map-reduce" for children that read every part
        and one call that answers from their notes. "auto" chooses, see docs/tasks.md.
    sandbox: the isolation level, or "auto" for the strongest available one.
    store: the journal's file or URL. None is a file in the user's state folder.
    store_mb: above this size in megabytes, the store drops its oldest finished runs.
    document_cache: cache the text of large files between runs, in the user's cache folder.
    keep_input: store a copy of the input with the run, so that it can be resumed without its files. At most
        16 MB, or 64 MB if the input cannot be read again.
    cache: reuse children's answers to identical calls from earlier runs in the store.
    check_support: let a model check whether the citations support the answer's claims. None: in research and
        summaries, but not in other answers. False: their words are compared in any case.
    tool_seconds: the timeout of one call of a tool.
    slow: send every call in a batch of its provider, which may take up to 24 hours and costs half the price.
        A run then has 26 hours by default, and 1,000 calls in flight.
    options, sub_options: what each call of the root's model asks for, and of the children's.
    facts: windows, prices and settings of calls by model name. They override the built-in ones; `options` and
        `sub_options` override these.
    """

    strategy: Literal["auto", "rlm", "direct", "map-reduce"] = "auto"
    sandbox: SandboxLevel = "auto"
    store: Path | str | None = None
    document_cache: bool = True
    keep_input: bool = True
    store_mb: int = 2_048
    cache: bool = False
    check_support: bool | None = None
    tool_seconds: float = 60.0
    root: RootSettings = field(default_factory=RootSettings)
    child: ChildSettings = field(default_factory=ChildSettings)
    direct: DirectSettings = field(default_factory=DirectSettings)
    kernel: KernelLimits = field(default_factory=KernelLimits)
    slow: bool = False
    models: ModelOptions = field(default_factory=ModelOptions)
    options: CallSettings = field(default_factory=CallSettings)
    sub_options: CallSettings = field(default_factory=CallSettings)
    facts: Mapping[str, ModelInfo] = field(default_factory=dict)

    def with_options(
        self,
        options: CallSettings | Mapping[str, Any] | None,
        sub_options: CallSettings | Mapping[str, Any] | None,
    ) -> Settings:
        """Return the settings with other options of the models; None leaves them as they are. A mapping has
        the keys of a settings file. Raises ConfigurationError."""
        changed: dict[str, Any] = {
            name: given if isinstance(given, CallSettings) else CallSettings.from_table(f"{name}.", given)
            for name, given in (("options", options), ("sub_options", sub_options))
            if given is not None
        }
        return replace(self, **changed)

    def with_reply_caps(self, root: int | None, child: int | None) -> Settings:
        """Return the settings with other output limits for replies of the root and of children; None leaves
        one as it is."""
        caps = {"root": root, "direct": root, "child": child}
        return replace(
            self,
            **{
                name: replace(getattr(self, name), output_tokens=tokens)
                for name, tokens in caps.items()
                if tokens is not None
            },
        )
