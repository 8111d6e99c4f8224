"""From a model's name to a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlm.errors import ConfigurationError
from rlm.models.base import EXTRACTIVE, Model
from rlm.models.catalog.names import ModelName, check_url, parse_name
from rlm.models.http.endpoint import Endpoint
from rlm.models.options import ModelOptions

__all__ = ["DEFAULT_ANTHROPIC", "DEFAULT_OPENAI", "default_model", "resolve"]

# As of 2026-11-20: the providers' middle sizes, neither deprecated.
DEFAULT_ANTHROPIC = "anthropic:claude-sonnet-5-5"
DEFAULT_OPENAI = "openai:gpt-6.1-sol"

# What a server that wants no key is sent in its place: the SDK insists on one.
_NO_KEY = "no-key-set"


def default_model(env: Mapping[str, str]) -> str:
    """The name used where the user gave none: by the key that `env` holds, else `extractive`."""
    if env.get("ANTHROPIC_API_KEY", "").strip():
        return DEFAULT_ANTHROPIC
    if env.get("OPENAI_API_KEY", "").strip():
        return DEFAULT_OPENAI
    return EXTRACTIVE


def resolve(
    name: str | None,
    env: Mapping[str, str],
    options: ModelOptions | None = None,
    *,
    store: str | Path | None = None,
) -> Model:
    """The model called `name`, ready to be asked; None is `default_model(env)`. Nothing is connected yet.

    `env` is read for ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL, OPENAI_API_KEY and OPENAI_BASE_URL, and, for
    a name with `@BASE_URL`, RLM_OPENAI_COMPATIBLE_KEY alone: OpenAI's key never goes to another server by
    such a name. `store` is the journal that `replay:RUN` is read from, at once; None is RLM_STORE's, else
    that of the state folder. Raises ConfigurationError, one line that says what to set, and JournalError.
    """
    options = options or ModelOptions()
    parsed = parse_name(default_model(env) if name is None else name)
    if parsed.provider == "anthropic":
        from rlm.models.providers.anthropic import ANTHROPIC_URL, AnthropicModel

        endpoint = _own_endpoint(parsed, env, "ANTHROPIC", ANTHROPIC_URL)
        return AnthropicModel(parsed.model, endpoint, name=parsed.text, options=options)
    if parsed.provider == "openai":
        from rlm.models.providers.openai import OPENAI_URL, OpenAIModel

        if parsed.base_url is None:
            endpoint = _own_endpoint(parsed, env, "OPENAI", OPENAI_URL)
        else:
            variable = "RLM_OPENAI_COMPATIBLE_KEY"
            key = env.get(variable, "").strip() or _NO_KEY
            endpoint = Endpoint(parsed.base_url, key, variable, private=True)
        return OpenAIModel(parsed.model, endpoint, name=parsed.text, options=options)
    if parsed.provider == "scripted":
        from rlm.models.offline.scripted import ScriptedModel

        return ScriptedModel.from_file(parsed.model, window=options.window)
    if parsed.provider == "replay":
        from rlm.journal import default_store
        from rlm.models.offline.journal_replay import ReplayModel

        return ReplayModel.of(parsed.model, store or env.get("RLM_STORE") or default_store(env))
    from rlm.models.offline.extractive import ExtractiveModel

    return ExtractiveModel()


def _own_endpoint(parsed: ModelName, env: Mapping[str, str], prefix: str, url: str) -> Endpoint:
    """The provider's own endpoint, or the gateway that its `_BASE_URL` variable names."""
    variable = f"{prefix}_API_KEY"
    key = env.get(variable, "").strip()
    if not key:
        raise ConfigurationError(
            f"{parsed.text} needs a key: set {variable}, or use --model extractive, which needs none"
        )
    gateway = env.get(f"{prefix}_BASE_URL", "").strip().rstrip("/")
    if gateway:
        check_url(gateway, f"{prefix}_BASE_URL")
        if prefix == "ANTHROPIC":
            gateway = gateway.removesuffix("/v1")
    return Endpoint(gateway or url, key, variable)
