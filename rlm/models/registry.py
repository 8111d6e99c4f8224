"""The providers: everything that the product knows of each, in one entry.

To add a provider, write `rlm/models/providers/NAME.py` with an `HttpModel` and add its entry here. Names,
help texts, `rlm models`, prices and telemetry read `PROVIDERS` when they are called. This module imports
nothing: the command line reads it at start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["OFFLINE", "PROVIDERS", "ProviderSpec", "list_forms"]

OFFLINE: Mapping[str, str] = {
    "extractive": "extractive",
    "scripted": "scripted:FILE",
    "replay": "replay:RUN",
}
"""Models that ask no provider and cost nothing, with the form of their names."""


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """One provider. Its key in `PROVIDERS` is the prefix of its models' names (`openai` in
    `openai:gpt-5`)."""

    factory: str
    """`module:Class` of its HttpModel; imported when a model of this provider is first resolved."""
    key_variable: str
    base_url: str
    base_url_variable: str
    """Names a gateway that replaces `base_url` and receives the provider's own key."""
    default_model: str
    """The model to use when the user names none and this provider's key is set."""
    telemetry_name: str
    """The value of `gen_ai.provider.name`."""
    price_list: str
    """The provider's id in the data of genai-prices."""
    bare_names: str | None = None
    """A regular expression. Names that it matches at their start need no prefix."""
    bare_forms: tuple[str, ...] = ()
    """How help texts write `bare_names`."""
    server_key_variable: str | None = None
    """The key for other servers with this protocol, which a name selects by `@BASE_URL`. None where names
    take no URL."""
    strip_from_gateway: str = ""
    """An ending that users write in the gateway's URL and the SDK adds itself."""
    has_batches: bool = False
    """Whether its own servers have a batch API (`HttpModel.batch_api`), for messages."""
    windows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens of context and of output by model. Dated versions of a model share its entry."""

    @property
    def server_host_variable(self) -> str:
        """The variable that names the servers to which the key in `server_key_variable` may go."""
        return f"{self.server_key_variable}_HOST"


# Models and windows as of 2026-11-20. Default models are the middle sizes, none deprecated. Context windows
# come from the data of genai-prices 0.2.3, output limits from the model pages of platform.claude.com and
# developers.openai.com.
PROVIDERS: dict[str, ProviderSpec] = {
    "anthropic": ProviderSpec(
        factory="rlm.models.providers.anthropic:AnthropicModel",
        key_variable="ANTHROPIC_API_KEY",
        base_url="https://api.anthropic.com",
        base_url_variable="ANTHROPIC_BASE_URL",
        default_model="claude-sonnet-5-5",
        telemetry_name="anthropic",
        price_list="anthropic",
        bare_names=r"claude-",
        bare_forms=("claude-*",),
        strip_from_gateway="/v1",
        has_batches=True,
        windows={
            "claude-fable-5": (1_000_000, 128_000),
            "claude-mythos-5": (1_000_000, 128_000),
            "claude-opus-5": (1_000_000, 128_000),
            "claude-opus-5-5": (1_000_000, 128_000),
            "claude-sonnet-5": (1_000_000, 128_000),
            "claude-sonnet-5-5": (1_000_000, 128_000),
            "claude-haiku-5-5": (1_000_000, 128_000),
            "claude-opus-4-8": (1_000_000, 128_000),
            "claude-opus-4-7": (1_000_000, 128_000),
            "claude-opus-4-6": (1_000_000, 128_000),
            "claude-sonnet-4-6": (1_000_000, 128_000),
            "claude-opus-4-5": (200_000, 64_000),
            "claude-sonnet-4-5": (200_000, 64_000),
            "claude-haiku-4-5": (200_000, 64_000),
        },
    ),
    "openai": ProviderSpec(
        factory="rlm.models.providers.openai:OpenAIModel",
        key_variable="OPENAI_API_KEY",
        base_url="https://api.openai.com/v1",
        base_url_variable="OPENAI_BASE_URL",
        default_model="gpt-6.1-sol",
        telemetry_name="openai",
        price_list="openai",
        bare_names=r"gpt-|o[134](-|$)",
        bare_forms=("gpt-*", "o1|o3|o4-*"),
        server_key_variable="RLM_OPENAI_COMPATIBLE_KEY",
        has_batches=True,
        windows={
            "gpt-6-astra": (1_050_000, 128_000),
            "gpt-6-sol": (1_050_000, 128_000),
            "gpt-6-luna": (1_050_000, 128_000),
            "gpt-6.1-sol": (1_050_000, 128_000),
            "gpt-6.1-terra": (1_050_000, 128_000),
            "gpt-5.6-sol": (1_050_000, 128_000),
            "gpt-5.6-terra": (1_050_000, 128_000),
            "gpt-5.6-luna": (1_050_000, 128_000),
            "gpt-5.5": (1_000_000, 128_000),
            "gpt-5.4": (1_050_000, 128_000),
            "gpt-5.4-mini": (400_000, 128_000),
            "gpt-5.4-nano": (400_000, 128_000),
            "gpt-5.2": (400_000, 128_000),
            "gpt-5.1": (400_000, 128_000),
            "gpt-5": (400_000, 128_000),
            "gpt-5-mini": (400_000, 128_000),
            "gpt-5-nano": (400_000, 128_000),
            "gpt-4.1": (1_000_000, 32_768),
            "gpt-4.1-mini": (1_000_000, 32_768),
            "gpt-4.1-nano": (1_000_000, 32_768),
            "gpt-4o": (128_000, 16_384),
            "gpt-4o-mini": (128_000, 16_384),
            "o1": (200_000, 100_000),
            "o3": (200_000, 100_000),
            "o3-mini": (200_000, 100_000),
            "o4-mini": (200_000, 100_000),
        },
    ),
}


def list_forms(*, bare: bool = True) -> str:
    """Return the forms of a model's name, for messages and help texts. `bare` includes those without
    prefix."""
    forms: list[str] = []
    for prefix, spec in PROVIDERS.items():
        forms.append(f"{prefix}:NAME")
        if spec.server_key_variable is not None:
            forms.append(f"{prefix}:NAME@BASE_URL")
    if bare:
        forms += [form for spec in PROVIDERS.values() for form in spec.bare_forms]
    return ", ".join([*forms, *OFFLINE.values()])
