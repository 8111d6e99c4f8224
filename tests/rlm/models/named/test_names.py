"""Test the names of models by provider, and where each provider's key goes."""

from __future__ import annotations

import pytest

from rlm.errors import ConfigurationError
from rlm.models import Message, Request, default_model, resolve
from rlm.models.catalog.names import parse_name
from rlm.models.registry import COMPATIBLE, PROVIDERS

REQUEST = Request("child", (Message("user", "Hi"),), 100, task="")
HOSTED = [prefix for prefix, spec in PROVIDERS.items() if spec.factory == COMPATIBLE and spec.port is None]


@pytest.mark.parametrize(
    ("name", "provider", "model", "url"),
    [
        ("claude-opus-5-5", "anthropic", "claude-opus-5-5", None),
        ("  gpt-5  ", "openai", "gpt-5", None),
        ("openai/gpt-5", "openai", "gpt-5", None),
        ("o3", "openai", "o3", None),
        ("o1-2024-12-17", "openai", "o1-2024-12-17", None),
        ("openai:llama3:8b@http://localhost:11434/v1/", "openai", "llama3:8b", "http://localhost:11434/v1"),
        ("openai:@cf/meta/llama@https://h.example/v1", "openai", "@cf/meta/llama", "https://h.example/v1"),
        ("openai/org/model@http://[::1]:1/v1", "openai", "org/model", "http://[::1]:1/v1"),
        ("vllm:Qwen/Qwen3-8B@http://h:1/v1", "vllm", "Qwen/Qwen3-8B", "http://h:1/v1"),
        ("openrouter/meta/llama:free", "openrouter", "meta/llama:free", None),
        ("ollama:hf.co/org/model:Q4_K_M", "ollama", "hf.co/org/model:Q4_K_M", None),
        ("vertex:claude-sonnet-4-5@20250929", "vertex", "claude-sonnet-4-5@20250929", None),
        ("bedrock:us.anthropic.claude-x-v1:0", "bedrock", "us.anthropic.claude-x-v1:0", None),
    ],
)
def test_names_by_provider(name: str, provider: str, model: str, url: str | None) -> None:
    parsed = parse_name(name)
    assert (parsed.provider, parsed.model, parsed.base_url) == (provider, model, url)
    assert parsed.text == name.strip()
    assert parsed.canonical == f"{provider}:{model}{f'@{url}' if url else ''}"


@pytest.mark.parametrize("name", ["extractive", "scripted:a b/c.jsonl"])
def test_names_of_models_that_ask_no_provider(name: str) -> None:
    provider, _, model = name.partition(":")
    assert (parse_name(name).provider, parse_name(name).model, parse_name(name).canonical) == (
        provider,
        model,
        name,
    )


def test_a_key_is_bound_to_its_providers_host() -> None:
    env = {variable: "key-0123456789" for spec in PROVIDERS.values() for variable in spec.key_variables}
    for prefix in HOSTED:
        endpoint = resolve(f"{prefix}:m", env)._endpoint  # type: ignore[attr-defined]
        assert endpoint.base_url == PROVIDERS[prefix].base_url
    with pytest.raises(ConfigurationError, match="needs a key: set GROQ_API_KEY"):
        resolve("groq:m", {name: key for name, key in env.items() if name != "GROQ_API_KEY"})
    # A URL in a name may come from anywhere: no provider's own key goes there.
    for name in ("vllm:m@http://evil.example/v1", "ollama:m@http://evil.example"):
        assert resolve(name, env)._endpoint.key == "no-key-set"  # type: ignore[attr-defined]


@pytest.mark.parametrize("prefix", ["ollama", "vllm", "llamacpp", "lmstudio"])
def test_a_server_of_ones_own_needs_no_key(prefix: str) -> None:
    endpoint = resolve(f"{prefix}:m", {})._endpoint  # type: ignore[attr-defined]
    assert endpoint.base_url == PROVIDERS[prefix].base_url
    assert endpoint.key_remedy == f"set {PROVIDERS[prefix].key_variable}"


def test_a_password_in_a_variable_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="OLLAMA_HOST holds a user name or password") as caught:
        resolve("ollama:m", {"OLLAMA_HOST": "me:hunter2@gpu.lan:11434"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({}, "extractive"),
        ({"ANTHROPIC_API_KEY": "", "OPENAI_API_KEY": " "}, "extractive"),
        ({"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}, "anthropic:claude-sonnet-5-5"),
        ({"GEMINI_API_KEY": "k"}, "gemini:gemini-3.8-flash"),
        ({"GOOGLE_API_KEY": "k"}, "extractive"),
        ({"OPENROUTER_API_KEY": "k"}, "extractive"),
        ({"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "k", "AWS_REGION": "r"}, "extractive"),
        ({"MISTRAL_API_KEY": "k", "OPENAI_API_KEY": "k"}, "openai:gpt-6.1-sol"),
    ],
)
def test_a_key_that_is_set_for_other_reasons_makes_no_default(env: dict[str, str], name: str) -> None:
    assert default_model(env) == name
    assert resolve(None, env).name == name
