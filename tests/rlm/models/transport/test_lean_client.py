"""Test our own client: it sends what the SDKs send, and spares their import."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlm.errors import ConfigurationError, ModelProtocolError
from rlm.models.base import Message, Request
from rlm.models.call_settings import CallSettings
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.resolution import resolve

REQUEST = Request("child", (Message("system", "be brief"), Message("user", "née 🙂 \ud800 <b>")), 100, "task")
ONCE = RetryPolicy(attempts=1)
_OWN = ("user-agent", "connection", "host")
"""Headers of a client itself. Those of the SDKs' telemetry begin with x-stainless-."""
_ENVIRONMENTS = (
    {},
    {"OPENAI_ORG_ID": "an-organisation", "OPENAI_PROJECT_ID": "a-project"},
    {
        "OPENAI_CUSTOM_HEADERS": "X-Gateway: one\nno header\nX-Empty:\nx-mine: two\n x-colon : a:b ",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: one\nanthropic-beta: a,b\nx-mine: two",
    },
    {
        "OPENAI_CUSTOM_HEADERS": "authorization: Bearer of-the-gateway\nuser-agent: mine",
        "ANTHROPIC_CUSTOM_HEADERS": "x-api-key: of-the-gateway\nAnthropic-Version: 2024-01-01",
    },
    {"ANTHROPIC_AUTH_TOKEN": "another", "OPENAI_ADMIN_KEY": "another"},
)


@pytest.mark.parametrize("environment", _ENVIRONMENTS)
@pytest.mark.parametrize("name", ["openai:m", "openai:m@", "anthropic:m", "mistral:m", "ollama:m"])
async def test_it_sends_what_the_sdk_sends(provider_server, monkeypatch, name, environment):
    """The same headers and the same bytes of the body, whatever the environment holds for the provider."""
    url = provider_server.url
    gateways = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "MISTRAL_BASE_URL": f"{url}/v1",
        "OLLAMA_HOST": url,
    }
    keys = {f"{name}_API_KEY": "sk-the-key" for name in ("OPENAI", "ANTHROPIC", "MISTRAL", "OLLAMA")}
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    calls = CallSettings(extra_headers={"X-Mine": "three"}, extra_body={"top_p": 0.5, "words": "née"})
    for client in ("lean", "sdk"):
        options = ModelOptions(client=client, calls=calls)
        env = {**keys, **gateways, **environment}
        model = resolve(f"{name}{url}/v1" if name.endswith("@") else name, env, options)
        await model.generate(REQUEST)
        await model.aclose()
    lean, sdks = provider_server.requests
    assert (lean.path, lean.body) == (sdks.path, sdks.body)
    assert _told(lean.headers) == _told(sdks.headers)
    assert lean.headers["content-length"] == sdks.headers["content-length"]
    own = "mine" if "user-agent" in str(environment) and name == "openai:m" else "rlm-kernel/"
    assert lean.headers["user-agent"].startswith(own)


def _told(headers: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name not in _OWN and not name.startswith("x-stainless-")
    }


def test_a_run_over_a_plain_protocol_imports_no_sdk(provider_server, tmp_path: Path):
    """A whole run, from the command line's first step to its answer."""
    code = (
        "import asyncio, sys\n"
        "from rlm import RLM, Settings\n"
        "async def main():\n"
        "    settings = Settings(strategy='direct', store=sys.argv[2])\n"
        "    rlm = RLM(sys.argv[1], settings=settings)\n"
        "    await rlm.run('What is it?', 'A short text.')\n"
        "    await rlm.aclose()\n"
        "asyncio.run(main())\n"
        "print([m for m in ('anthropic', 'openai') if m in sys.modules])"
    )
    program = [sys.executable, "-c", code, f"openai:m@{provider_server.url}/v1", tmp_path / "rlm.db"]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert provider_server.requests


@pytest.mark.parametrize(
    ("name", "is_lean"),
    [
        ("openai:gpt-4.1", True),
        ("openai:gpt-5@http://localhost:1/v1", True),
        ("anthropic:claude-haiku-4-5", True),
        ("claude-opus-4-8", True),
        ("claude-sonnet-5-5", False),  # thinks unless it is told not to
        ("openai:gpt-6.1-sol", False),  # over the Responses API
        ("azure:m", True),
        ("vertex:m", False),
        ("ollama:m", True),
        ("groq:m", True),
    ],
)
def test_what_needs_more_than_a_post_goes_by_the_sdk(name, is_lean):
    env = {
        **{f"{name}_API_KEY": "k" for name in ("OPENAI", "ANTHROPIC", "AZURE_OPENAI", "GROQ")},
        "AZURE_OPENAI_ENDPOINT": "https://one.openai.azure.com",
        "GOOGLE_CLOUD_PROJECT": "one",
        "GOOGLE_CLOUD_LOCATION": "one",
    }
    assert resolve(name, env).is_lean is is_lean
    assert not resolve("azure:m", env | {"OPENAI_API_VERSION": "2026-10-01"}).is_lean


def test_claude_that_is_told_to_think_goes_by_the_sdk():
    def is_lean(name: str, **calls: object) -> bool:
        options = ModelOptions(calls=CallSettings(**calls))  # type: ignore[arg-type]
        return resolve(name, {"ANTHROPIC_API_KEY": "k"}, options).is_lean

    assert not is_lean("claude-opus-4-8", effort="high")
    assert not is_lean("claude-haiku-4-5", thinking_tokens=4_000)
    assert is_lean("claude-sonnet-5-5", effort="none")
    assert is_lean("claude-sonnet-5-5", thinking_tokens=0)


def test_the_client_is_chosen_by_the_options_else_by_the_environment():
    name = "openai:m@http://localhost:1/v1"
    assert not resolve(name, {"RLM_MODEL_CLIENT": "sdk"}).is_lean
    assert resolve(name, {"RLM_MODEL_CLIENT": "sdk"}, ModelOptions(client="lean")).is_lean
    assert not resolve(name, {"RLM_MODEL_CLIENT": "lean"}, ModelOptions(client="sdk")).is_lean
    with pytest.raises(ConfigurationError, match="RLM_MODEL_CLIENT names no client: set it to lean or sdk"):
        resolve(name, {"RLM_MODEL_CLIENT": "curl"})
    with pytest.raises(ConfigurationError, match="a model's client is 'curl': use 'lean' or 'sdk'"):
        ModelOptions(client="curl")  # type: ignore[arg-type]


async def test_a_small_body_that_inflates_without_end_is_cut(make_model, provider_server, providers):
    bomb = gzip.compress(b"data: {}\n\n" * 2_000_000)
    provider_server.play(providers.Raw(bomb, headers={"content-encoding": "gzip"}))
    with pytest.raises(ModelProtocolError, match="more than a reply holds"):
        await make_model(provider_server.url, retry=ONCE).generate(REQUEST)


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "x" * 500])
async def test_an_encoding_that_nobody_asked_for_is_refused(make_model, provider_server, providers, encoding):
    for code in (200, 400):
        provider_server.play(providers.Raw(b"{}", "application/json", code, {"content-encoding": encoding}))
        with pytest.raises(ModelProtocolError, match="the content encoding"):
            await make_model(provider_server.url, retry=ONCE).generate(REQUEST)


async def test_both_clients_describe_a_failure_in_the_same_words(provider_server, providers):
    """Status, text and remedy, and whether it is asked for again."""
    failing = [
        *(
            providers.Status(code, "no such thing", "kind")
            for code in (307, 400, 401, 404, 413, 418, 429, 500)
        ),
        providers.Status(429, "slow", headers={"retry-after": "7", "Retry-After-Ms": "1"}),
        providers.Raw(b"\xff\xfe", "application/json; charset=utf-16", 400),
        providers.Raw(b"[" * 100_000, "application/json", 400),
        providers.Raw(b"x" * 300_000, "text/plain", 500),
        providers.Raw(json.dumps({"detail": [{"loc": ["body", "seed"], "msg": "no"}]}).encode(), code=422),
        providers.Raw(b"<html>", "text/html"),
        providers.Raw(b"", ""),
        providers.Raw(b"not gzip", headers={"content-encoding": "gzip"}),
        providers.Raw(b'data: {"a": \n\n'),
        providers.Dropped(),
        providers.Dropped(politely=True),
        providers.StreamError(),
        providers.Silence(),
    ]
    for name in ("openai:m", "anthropic:m"):
        env = {
            "OPENAI_API_KEY": "sk-the-key",
            "ANTHROPIC_API_KEY": "sk-the-key",
            "OPENAI_BASE_URL": f"{provider_server.url}/v1",
            "ANTHROPIC_BASE_URL": provider_server.url,
        }
        for behaviour in failing:
            told: list[list[object]] = []
            for client in ("lean", "sdk"):
                heard: list[object] = []
                options = ModelOptions(
                    client=client,
                    idle_seconds=0.3 if isinstance(behaviour, providers.Silence) else 60.0,
                    retry=RetryPolicy(attempts=2, base=0.0, cap=0.0, retry_after_cap=0.0),
                    on_retry=lambda attempt, _wait, reason, heard=heard: heard.append((attempt, reason)),
                )
                model = resolve(name, env, options)
                provider_server.always = behaviour
                with pytest.raises(Exception) as caught:  # noqa: PT011 - the other client says which
                    await model.generate(REQUEST)
                await model.aclose()
                message = str(caught.value).split(" (2 attempts in ")[0]
                told.append([type(caught.value), message, caught.value.__cause__, heard])
            assert told[0] == told[1]
