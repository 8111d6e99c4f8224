"""Test names of models, their windows and prices."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlm.models
from rlm.errors import ConfigurationError
from rlm.models import ModelWindow, TokenUsage, price, resolve, window_of
from rlm.models.catalog.names import parse_name
from rlm.models.catalog.prices import cost, find_listing
from rlm.models.registry import PROVIDERS

DEFAULTS = [f"{prefix}:{spec.default_model}" for prefix, spec in PROVIDERS.items() if spec.default_model]
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-1", "OPENAI_API_KEY": "sk-oai-1"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "unknown model ''"),
        ("llama3", "unknown model 'llama3'; the forms are anthropic:NAME"),
        ("antropic:claude-opus-5", "did you mean 'anthropic:claude-opus-5'?"),
        ("OpenAI:gpt-5", "did you mean 'openai:gpt-5'?"),
        ("claud-sonnet-5-5", "did you mean 'claude-sonnet-5-5'?"),
        ("extractiv", "did you mean 'extractive'?"),
        ("o5-mini", "unknown model 'o5-mini'"),
        ("replay:", "names no model"),
        ("anthropic:", "names no model"),
        ("scripted:", "names no model"),
        ("openai:@http://localhost/v1", "names no model"),
        ("openai:gpt 5", "holds a blank"),
        ("openai:llama@localhost:11434", "must begin with http:// or https://"),
        ("openai:llama@ftp://host/v1", "the base URL of openai:llama is not a usable URL"),
        ("openai:llama@http://my..host/v1", "the base URL of openai:llama names no host that can be"),
        ("openai:llama@http://", "not a usable URL"),
        ("openai:llama@http://host:99999/v1", "check its host and port"),
        ("openai:llama@http://host:0/v1", "not a usable URL"),
        ("openai:llama@http://[::1/v1", "check its host and port"),
        ("openai:llama@http://host/v 1", "holds a blank"),
        ("openai:llama@http://host/v1?key=hunter2", "holds a query"),
        ("openai:llama@http://me:hunter2@host/v1", "set RLM_OPENAI_COMPATIBLE_KEY"),
        ("opnai:llama@http://me:hunter2@host/v1", "unknown model"),
    ],
)
def test_a_bad_name_is_one_line_that_helps(name, message):
    """Unknown names: one line that says what to set, and no password in it."""
    with pytest.raises(ConfigurationError) as caught:
        resolve(name, KEYS)
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert "hunter2" not in text
    assert caught.value.__cause__ is None


@given(
    st.text(max_size=60)
    | st.text("openai:@/htp.-o1 \n[]?#", max_size=40).map(lambda tail: f"openai:m@http://{tail}")
)
def test_no_name_makes_anything_but_a_configuration_error(name):
    """Whatever the user types, it is a name or a ConfigurationError on one line."""
    try:
        parsed = parse_name(name)
    except ConfigurationError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert parsed.text == name.strip()


@pytest.mark.parametrize(
    ("name", "variable"), [("claude-opus-5", "ANTHROPIC_API_KEY"), ("openai:gpt-5", "OPENAI_API_KEY")]
)
@pytest.mark.parametrize("env", [{}, {"ANTHROPIC_API_KEY": " ", "OPENAI_API_KEY": ""}])
def test_a_missing_key_says_which_variable_to_set(name, variable, env):
    """Missing keys: one line that says what to set."""
    with pytest.raises(ConfigurationError, match=f"{name} needs a key: set {variable}"):
        resolve(name, env)


def test_defaults_are_known_priced_and_not_deprecated():
    """A deprecated default would fail on its first call."""
    from anthropic.resources.messages import DEPRECATED_MODELS

    for name in DEFAULTS:
        model = parse_name(name).model
        assert window_of(model, parse_name(name).provider).known
        assert price(name, TokenUsage(1000, 1000)) > 0
        assert model not in DEPRECATED_MODELS


async def test_a_gateway_in_the_environment_gets_the_provider_s_key(provider_server):
    """ANTHROPIC_BASE_URL and OPENAI_BASE_URL work as in the SDKs, with or without a slash at the end."""
    from rlm.models import Message, Request

    request = Request("child", (Message("user", "hi"),), 10, "task")
    env = {
        **KEYS,
        "ANTHROPIC_BASE_URL": f"{provider_server.url}/v1/",
        "OPENAI_BASE_URL": f"{provider_server.url}/v1/",
    }
    for name in ("claude-opus-5", "gpt-5"):
        model = resolve(name, env)
        assert (await model.generate(request)).text == "ok"
        await model.aclose()
    sent = [(received.path, received.headers["authorization"]) for received in provider_server.requests]
    assert sent == [("/v1/messages", "Bearer sk-ant-1"), ("/v1/chat/completions", "Bearer sk-oai-1")]
    with pytest.raises(ConfigurationError, match="OPENAI_BASE_URL is not a usable URL"):
        resolve("gpt-5", {**KEYS, "OPENAI_BASE_URL": "localhost"})


def test_windows():
    """An unknown model has 128,000 and 8,000 tokens, and `known` is False."""
    assert window_of("claude-haiku-4-5-20251001") == ModelWindow(200_000, 64_000, sees=True)
    assert window_of("gpt-5-2025-08-07") == window_of("gpt-5") == ModelWindow(400_000, 128_000, sees=True)
    assert window_of("claude-sonnet-5-5").context == 1_000_000
    for unknown in ("llama3", "gpt-5-mini-foo", "gpt-5x", "gpt-", ""):
        assert replace(window_of(unknown), sees=None) == ModelWindow(128_000, 8_000, known=False)


@pytest.mark.parametrize(
    ("name", "window"),
    [
        ("bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0", (200_000, 64_000)),
        ("vertex:claude-sonnet-4-5@20250929", (200_000, 64_000)),
        ("vertex:gemini-2.5-pro", (1_048_576, 65_536)),
        ("azure:gpt-5", (400_000, 128_000)),
        ("openai:gpt-5-pro", (400_000, 128_000)),
    ],
)
def test_clouds_have_the_limits_of_a_models_maker(name, window):
    parsed = parse_name(name)
    found = window_of(parsed.model, parsed.provider)
    assert (found.context, found.output, found.known) == (*window, True)


@pytest.mark.parametrize("module", ["registry", "resolution"])
def test_importing_the_registry_imports_neither_libraries_nor_an_event_loop(module):
    """The start of the command line must not pay for providers. A bare package replaces `rlm`, so that
    only the registry's imports count.
    """
    code = (
        "import sys, types\n"
        "bare = sys.modules['rlm'] = types.ModuleType('rlm')\n"
        "bare.__path__ = [sys.argv[1]]\n"
        "before = set(sys.modules); __import__('rlm.models.' + sys.argv[2])\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    command = [sys.executable, "-c", code, str(Path(rlm.models.__file__).parent.parent), module]
    imported = set(subprocess.check_output(command, text=True).split())
    assert imported <= {"rlm", *sys.stdlib_module_names}
    assert not imported & {"asyncio", "ssl", "http", "sqlite3"}


@pytest.mark.parametrize(
    ("name", "dollars"),
    [
        ("extractive", 0.0),
        ("scripted:x.jsonl", 0.0),
        ("openai:llama3@http://localhost:11434/v1", 0.0),
        ("openai:gpt-5@http://localhost:1/v1", 0.0),
        ("openai:llama3@http://192.168.1.7:8000/v1", 0.0),
        ("openai:llama3@http://100.64.0.7:8000/v1", 0.0),
        ("openai:llama3@http://gpu-box:8000/v1", 0.0),
        ("openai:llama3@http://[fd00::1]:8000/v1", 0.0),
        ("openai:llama3@https://llm.example.com/v1", None),
        ("openai:llama3@http://134744072/v1", None),
        ("openai:llama3@http://8.8.8.8/v1", None),
        ("ollama:llama3", 0.0),
        ("vllm/meta/llama", 0.0),
        ("ollama:llama3@https://llm.example.com", None),
        ("openai:no-such-model", None),
        ("nonsense", None),
        ("claude-haiku-4-5", 0.9 + 0.01 + 2.5),
        ("anthropic:claude-haiku-4-5", 0.9 + 0.01 + 2.5),
        ("openai:gpt-5", 1.125 + 0.0125 + 5.0),
    ],
)
def test_prices(name, dollars):
    """US dollars, or None where the price is not known; cached input at its own rate."""
    found = price(name, TokenUsage(input_tokens=1_000_000, output_tokens=500_000, cached_tokens=100_000))
    assert found == (None if dollars is None else pytest.approx(dollars))


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_any_usage_has_a_price(sent, output, cached):
    """A server's odd counts, even contradictory ones, must not break the cost cap."""
    found = price("gpt-5", TokenUsage(sent, output, cached))
    assert found is not None
    assert found >= 0


def test_the_shipped_prices_are_those_of_their_source():
    """For one model in thirty of every provider, at a short and at a long prompt."""
    source = pytest.importorskip("genai_prices")
    from genai_prices.data_snapshot import get_snapshot

    models = [(one.id, model.id) for one in get_snapshot().providers for model in one.models[::30]]
    for provider, model in models:
        for sent, cached, written, long, output in (
            (1_000, 0, 0, 0, 500),
            (300_000, 100_000, 50_000, 20_000, 4_000),
        ):
            given = source.Usage(
                input_tokens=sent,
                cache_read_tokens=cached,
                cache_write_tokens=written,
                cache_write_1h_tokens=long,
                output_tokens=output,
            )
            usage = TokenUsage(sent, output, cached, written, 0, long)
            entry = find_listing(model, provider)
            if entry is None:
                with pytest.raises(LookupError):
                    source.calc_price(given, model, provider_id=provider)
                continue
            expected = source.calc_price(given, model, provider_id=provider)
            assert cost(entry, usage) == pytest.approx(float(expected.total_price))
            assert entry.get("context") == expected.model.context_window
