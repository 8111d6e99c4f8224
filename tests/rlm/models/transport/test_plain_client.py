"""Test our own client: it sends what the official SDKs send, and spares their import."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlm.models.base import Message, Request
from rlm.models.call_settings import CallSettings
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.resolution import resolve

REQUEST = Request("child", (Message("system", "be brief"), Message("user", "née 🙂 \ud800 <b>")), 100, "task")
ONCE = RetryPolicy(attempts=1)
_OWN = ("user-agent", "connection", "host", "accept-encoding")
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


def openai(url: str) -> Any:
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key="sk-the-key", base_url=f"{url}/v1", max_retries=0)


def anthropic(url: str) -> Any:
    from anthropic import AsyncAnthropic

    return AsyncAnthropic(api_key="sk-the-key", base_url=url, max_retries=0, open_telemetry=False)


@pytest.mark.parametrize("environment", _ENVIRONMENTS)
@pytest.mark.parametrize(
    ("name", "api", "sdk", "path"),
    [
        ("openai:m", "chat", openai, "/chat/completions"),
        ("openai:m", "responses", openai, "/responses"),
        ("anthropic:m", None, anthropic, "/v1/messages"),
    ],
)
async def test_it_sends_what_the_official_sdk_sends(
    provider_server, monkeypatch, name, api, sdk, path, environment
):
    """The same headers and the same bytes of the body, whatever the environment holds for the provider."""
    import httpx2

    url = provider_server.url
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    calls = CallSettings(headers={"X-Mine": "three"}, body={"words": "née"}, api=api)
    env = {
        "OPENAI_API_KEY": "sk-the-key",
        "ANTHROPIC_API_KEY": "sk-the-key",
        "OPENAI_BASE_URL": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
    }
    model = resolve(name, env | environment, ModelOptions(calls=calls))
    await model.generate(REQUEST)
    await model.aclose()
    ours = provider_server.requests[0]
    async with sdk(url) as client:
        sent = {"headers": {"X-Mine": "three"}}
        answer = await client.post(path, cast_to=httpx2.Response, body=ours.body, options=sent, stream=True)
        await answer.aclose()
    theirs = provider_server.requests[1]
    assert (ours.path, ours.body) == (theirs.path, theirs.body)
    assert _told(ours.headers) == _told(theirs.headers)
    assert ours.headers["content-length"] == theirs.headers["content-length"]
    own = "mine" if "user-agent" in str(environment) and name == "openai:m" else "rlm-kernel/"
    assert ours.headers["user-agent"].startswith(own)


def _told(headers: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name not in _OWN and not name.startswith("x-stainless-")
    }


@pytest.mark.parametrize("name", ["openai:m@", "mistral:m", "ollama:m"])
async def test_another_server_gets_the_key_and_nothing_that_is_for_openai(provider_server, monkeypatch, name):
    url = provider_server.url
    for environment in _ENVIRONMENTS:
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
    env = {
        "MISTRAL_API_KEY": "sk-the-key",
        "MISTRAL_BASE_URL": f"{url}/v1",
        "OLLAMA_API_KEY": "sk-the-key",
        "OLLAMA_HOST": url,
        "RLM_OPENAI_COMPATIBLE_KEY": "sk-the-key",
        "RLM_OPENAI_COMPATIBLE_KEY_HOST": url.removeprefix("http://"),
    }
    model = resolve(f"{name}{url}/v1" if name.endswith("@") else name, env)
    await model.generate(REQUEST)
    await model.aclose()
    (sent,) = provider_server.requests
    usual = {"accept", "accept-encoding", "authorization", "content-length", "content-type", *_OWN}
    assert set(sent.headers) <= usual
    assert sent.headers["authorization"] == "Bearer sk-the-key"


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "openai:gpt-6.1-sol"])
def test_a_run_of_a_default_model_imports_no_sdk(provider_server, tmp_path: Path, name):
    """A whole run of a model that thinks, over the Messages and the Responses API."""
    code = (
        "import asyncio, sys\n"
        "from rlm import RLM, Settings\n"
        "from rlm.models import CallSettings, ModelOptions\n"
        "async def main():\n"
        "    calls = {'openai:gpt-6.1-sol': CallSettings(api='responses')}.get(sys.argv[1], CallSettings())\n"
        "    options = ModelOptions(calls=calls)\n"
        "    settings = Settings(strategy='direct', store=sys.argv[2], models=options)\n"
        "    rlm = RLM(sys.argv[1], settings=settings)\n"
        "    await rlm.run('What is it?', 'A short text.')\n"
        "    await rlm.aclose()\n"
        "asyncio.run(main())\n"
        "print([m for m in ('anthropic', 'openai') if m in sys.modules])"
    )
    env = {
        **os.environ,
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{provider_server.url}/v1",
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": provider_server.url,
    }
    program = [sys.executable, "-c", code, name, tmp_path / "rlm.db"]
    done = subprocess.run(program, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert {request.path for request in provider_server.requests} <= {"/v1/messages", "/v1/responses"}
    assert provider_server.requests
