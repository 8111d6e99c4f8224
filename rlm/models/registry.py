"""The providers: everything that the product knows of each, in one entry.

To add a provider, add its entry here: where it speaks Chat Completions, that is all; else write
`rlm/models/providers/NAME.py` with an `HttpModel`. Another package adds one by an entry point
(`rlm.models.plugins`). Names, help texts, `rlm models`, prices and telemetry read `PROVIDERS` when they are
called. This module imports nothing: the command line reads it at start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["COMPATIBLE", "OFFLINE", "PROVIDERS", "ProviderSpec", "known_models", "list_forms"]

OFFLINE: Mapping[str, str] = {
    "extractive": "extractive",
    "scripted": "scripted:FILE",
    "replay": "replay:RUN",
}
"""Models that ask no provider and cost nothing, with the form of their names."""

COMPATIBLE = "rlm.models.providers.openai:OpenAIModel"
"""The factory of a provider that speaks Chat Completions."""
_SERVER_KEY = "RLM_OPENAI_COMPATIBLE_KEY"


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """One provider. Its key in `PROVIDERS` is the prefix of its models' names (`openai` in
    `openai:gpt-5`)."""

    factory: str
    """`module:Class` of its HttpModel, or of a function with the same parameters; imported when a model of
    this provider is first resolved."""
    key_variable: str
    base_url: str
    """May hold names of `settings` in braces. Empty where only `base_url_variable` knows it."""
    base_url_variable: str
    """Names a gateway that replaces `base_url` and receives the provider's own key."""
    default_model: str
    """The model to use when the user names none and this provider's key is set. Empty: there is none."""
    telemetry_name: str
    """The value of `gen_ai.provider.name`."""
    price_list: str
    """The provider's id in `catalog/prices.jsonl`; empty where that lacks it or a program costs nothing."""
    bare_names: str | None = None
    """A regular expression. Names that it matches at their start need no prefix."""
    bare_forms: tuple[str, ...] = ()
    """How help texts write `bare_names`."""
    server_key_variable: str | None = None
    """The key for other servers with this protocol, which a name selects by `@BASE_URL`. None where names
    take no URL."""
    strip_from_gateway: str = ""
    """An ending that users write in the gateway's URL and the SDK adds itself."""
    windows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Tokens of context and of output by model. Dated versions of a model share its entry."""
    models: tuple[str, ...] = ()
    """Other models of it to name to users."""
    other_key_variables: tuple[str, ...] = ()
    """Variables that may hold the key where `key_variable` does not. They make no model the default."""
    needs_key: bool = True
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What its class reads from `Endpoint.settings`, with the variables that may hold it; the first that is
    set counts."""
    required: tuple[str, ...] = ()
    """Names in `settings` without which no request can be made."""
    refuses: tuple[str, ...] = ()
    """Fields of Chat Completions that answer a request with an error."""
    own_sdk: bool = False
    """The provider made the SDK: it gets the organisation, project and headers that the environment sets."""
    facts: Literal["", "list", "server", "gemini"] = ""
    """Where the provider itself reports windows and prices: in its list of models, or as a server of one of
    the usual programs does, or as Google does."""
    port: int | None = None
    """The usual port on this machine, where it is a program that people run themselves."""
    title: str = ""
    """How it is called, where the prefix does not say it."""
    extra: str = ""
    """The extra of this package that installs what it needs."""

    @property
    def server_host_variable(self) -> str:
        """The variable that names the servers to which the key in `server_key_variable` may go."""
        return f"{self.server_key_variable}_HOST"

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Every variable that may hold its key; the first that is set counts."""
        return (self.key_variable, *self.other_key_variables)


def _compatible(prefix: str, base_url: str, title: str, **rest: Any) -> ProviderSpec:
    """Return a provider that speaks Chat Completions, with the usual names of its variables."""
    facts: dict[str, Any] = {
        "key_variable": f"{prefix.upper()}_API_KEY",
        "base_url_variable": f"{prefix.upper()}_BASE_URL",
        "default_model": "",
        "telemetry_name": prefix,
        "price_list": prefix,
    }
    return ProviderSpec(factory=COMPATIBLE, base_url=base_url, title=title, **(facts | rest))


def _local(prefix: str, port: int, title: str, **rest: Any) -> ProviderSpec:
    """Return a program that people run themselves, and that speaks Chat Completions."""
    return _compatible(
        prefix,
        f"http://127.0.0.1:{port}/v1",
        title,
        price_list="",
        server_key_variable=_SERVER_KEY,
        needs_key=False,
        facts="server",
        port=port,
        **rest,
    )


# Models as of 2026-11-20. Default models are the middle sizes, none deprecated. A provider of many vendors'
# models has none, nor has a cloud whose variables are set for other reasons.
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
        own_sdk=True,
        windows={"claude-mythos-5": (1_000_000, 128_000)},
        models=("claude-fable-5", "claude-opus-5-5", "claude-haiku-5-5"),
    ),
    "openai": ProviderSpec(
        factory="rlm.models.providers.openai_responses:make_openai_model",
        key_variable="OPENAI_API_KEY",
        base_url="https://api.openai.com/v1",
        base_url_variable="OPENAI_BASE_URL",
        default_model="gpt-6.1-sol",
        telemetry_name="openai",
        price_list="openai",
        bare_names=r"gpt-|o[134](-|$)",
        bare_forms=("gpt-*", "o1|o3|o4-*"),
        server_key_variable=_SERVER_KEY,
        own_sdk=True,
        models=("gpt-6-astra", "gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra", "gpt-5", "gpt-5-mini"),
    ),
    "gemini": ProviderSpec(
        factory=COMPATIBLE,
        key_variable="GEMINI_API_KEY",
        other_key_variables=("GOOGLE_API_KEY",),
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        base_url_variable="GEMINI_BASE_URL",
        default_model="gemini-3.8-flash",
        telemetry_name="gcp.gemini",
        price_list="google",
        windows={"gemini-2.5-pro": (1_048_576, 65_536)},
        models=("gemini-3.5-flash",),
        facts="gemini",
        title="Google Gemini",
    ),
    "openrouter": _compatible("openrouter", "https://openrouter.ai/api/v1", "OpenRouter", facts="list"),
    "mistral": _compatible(
        "mistral",
        "https://api.mistral.ai/v1",
        "Mistral",
        default_model="mistral-medium-3-5",
        telemetry_name="mistral_ai",
        refuses=("stream_options",),  # it counts the tokens of every stream
        facts="list",
    ),
    "deepseek": _compatible(
        "deepseek", "https://api.deepseek.com/v1", "DeepSeek", default_model="deepseek-v4-pro"
    ),
    "groq": _compatible("groq", "https://api.groq.com/openai/v1", "Groq", facts="list"),
    "together": _compatible("together", "https://api.together.xyz/v1", "Together", facts="list"),
    "azure": ProviderSpec(
        factory="rlm.models.providers.clouds:make_azure_model",
        key_variable="AZURE_OPENAI_API_KEY",
        other_key_variables=("AZURE_OPENAI_AD_TOKEN",),
        base_url="",
        base_url_variable="AZURE_OPENAI_ENDPOINT",
        default_model="",
        telemetry_name="azure.ai.openai",
        price_list="azure",
        strip_from_gateway="/openai/v1",
        settings={"api_version": ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION")},
        refuses=("max_tokens",),
        title="Azure OpenAI",
    ),
    "bedrock": ProviderSpec(
        factory="rlm.models.providers.clouds:make_bedrock_model",
        key_variable="AWS_BEARER_TOKEN_BEDROCK",
        base_url="https://bedrock-runtime.{region}.amazonaws.com",
        base_url_variable="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        default_model="",
        telemetry_name="aws.bedrock",
        price_list="aws",
        needs_key=False,
        settings={
            "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
            "access_key": ("AWS_ACCESS_KEY_ID",),
            "secret_key": ("AWS_SECRET_ACCESS_KEY",),
            "session_token": ("AWS_SESSION_TOKEN",),
            "profile": ("AWS_PROFILE",),
        },
        required=("region",),
        title="Amazon Bedrock",
        extra="bedrock",
    ),
    "vertex": ProviderSpec(
        factory="rlm.models.providers.clouds:make_vertex_model",
        key_variable="GOOGLE_OAUTH_ACCESS_TOKEN",
        base_url="https://{location}-aiplatform.googleapis.com/v1",
        base_url_variable="VERTEX_BASE_URL",
        default_model="",
        telemetry_name="gcp.vertex_ai",
        price_list="google",
        needs_key=False,
        settings={
            "project": ("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID", "GCLOUD_PROJECT"),
            "location": ("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION", "GOOGLE_CLOUD_REGION"),
        },
        required=("project", "location"),
        windows={"gemini-2.5-pro": (1_048_576, 65_536)},
        title="Google Vertex AI",
        extra="vertex",
    ),
    "ollama": ProviderSpec(
        factory="rlm.models.providers.ollama:OllamaModel",
        key_variable="OLLAMA_API_KEY",
        base_url="http://127.0.0.1:11434",
        base_url_variable="OLLAMA_HOST",
        default_model="",
        telemetry_name="ollama",
        price_list="",
        server_key_variable=_SERVER_KEY,
        strip_from_gateway="/v1",
        needs_key=False,
        facts="server",
        port=11434,
        title="Ollama",
    ),
    "vllm": _local("vllm", 8000, "vLLM"),
    "llamacpp": _local("llamacpp", 8080, "llama.cpp"),
    "lmstudio": _local("lmstudio", 1234, "LM Studio", key_variable="LM_API_TOKEN"),
}


def known_models() -> tuple[str, ...]:
    """Return the names of all models in the registry, with their prefixes (`openai:gpt-5`)."""
    return tuple(
        f"{prefix}:{model}"
        for prefix, spec in PROVIDERS.items()
        for model in dict.fromkeys((*spec.windows, *spec.models, spec.default_model))
        if model
    )


def list_forms() -> str:
    """Return the forms of a model's name, for messages."""
    forms: list[str] = []
    for prefix, spec in PROVIDERS.items():
        forms.append(f"{prefix}:NAME")
        if spec.server_key_variable is not None and spec.port is None:
            forms.append(f"{prefix}:NAME@BASE_URL")
    forms += [form for spec in PROVIDERS.values() for form in spec.bare_forms]
    return ", ".join([*forms, *OFFLINE.values()])
