"""Test that a provider costs a file and an entry in the registry: a made-up one appears everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlm.errors import ConfigurationError
from rlm.models import Message, Request, TokenUsage, default_model, price, resolve, window_of
from rlm.models.catalog.names import parse_name
from rlm.models.http.model import import_early
from rlm.models.registry import PROVIDERS, ProviderSpec, list_forms

FILE = """
from rlm.models.http.model import HttpModel
from rlm.models.providers.openai import OpenAIModel


class AcmeModel(HttpModel):
    prefix = "acme"
    path = OpenAIModel.path

    def body(self, request):
        return {
            "model": self._model,
            "stream": True,
            "max_tokens": request.max_output_tokens,
            "messages": [{"role": "user", "content": request.messages[-1].content}],
        }

    def accumulator(self, body):
        return OpenAIModel.accumulator(self, body)
"""
ENTRY = {
    "factory": "acme_provider:AcmeModel",
    "key_variable": "ACME_KEY",
    "base_url": "https://acme.invalid/v1",
    "base_url_variable": "ACME_URL",
    "default_model": "road-2",
    "telemetry_name": "acme.cloud",
    "price_list": "acme",
    "bare_names": "road-",
    "bare_forms": ["road-*"],
    "windows": {"road-2": [77_000, 7_000]},
}


@pytest.fixture
def entry(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "acme_provider.py").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(PROVIDERS, "acme", ProviderSpec(**ENTRY))
    window_of.cache_clear()
    yield
    window_of.cache_clear()
    parse_name.cache_clear()
    sys.modules.pop("acme_provider", None)


@pytest.mark.parametrize("name", ["acme:road-2", "road-2"])
async def test_it_is_resolved_by_name_and_asked(entry, provider_server, name) -> None:
    env = {"ACME_KEY": "sk-acme", "ACME_URL": f"{provider_server.url}/v1"}
    model = resolve(name, env)
    import_early([model])
    assert (model.name, model.window.context, model.window.output) == (name, 77_000, 7_000)
    assert (await model.generate(Request("child", (Message("user", "hi"),), 10, "task"))).text == "ok"
    await model.aclose()
    (sent,) = provider_server.requests
    assert (sent.headers["authorization"], sent.body["model"]) == ("Bearer sk-acme", "road-2")


def test_its_key_makes_it_the_default(entry) -> None:
    assert default_model({"ACME_KEY": "k"}) == "acme:road-2"
    with pytest.raises(ConfigurationError, match="set ACME_KEY"):
        resolve("acme:road-2", {})


def test_messages_name_its_forms(entry) -> None:
    assert "acme:NAME, " in list_forms()
    assert "road-*" in list_forms()
    with pytest.raises(ConfigurationError, match=r"did you mean 'acme:x'\?; .*acme:NAME"):
        parse_name("acmee:x")


def test_a_name_without_a_list_price_has_none(entry) -> None:
    assert price("acme:road-2", TokenUsage(10, 10)) is None


def test_it_takes_no_url_unless_its_entry_says_so(entry, monkeypatch) -> None:
    assert parse_name("acme:m@http://host/v1").base_url is None
    monkeypatch.setitem(PROVIDERS, "acme", ProviderSpec(**ENTRY, server_key_variable="ACME_SERVER_KEY"))
    parse_name.cache_clear()
    assert parse_name("acme:m@http://host/v1").base_url == "http://host/v1"
    assert "acme:NAME@BASE_URL" in list_forms()


def test_the_command_line_and_telemetry_show_it(tmp_path: Path) -> None:
    """It is registered before the command line is imported, like an entry of the file."""
    code = (
        "import json, sys\n"
        "from rlm.models.registry import PROVIDERS, ProviderSpec\n"
        "PROVIDERS['acme'] = ProviderSpec(**json.loads(sys.argv.pop(1)))\n"
        "if sys.argv[1] == 'telemetry':\n"
        "    from rlm.telemetry.spans import _find_provider as find_provider\n"
        "    print(find_provider('acme:x'), find_provider('road-9'), find_provider('own model'))\n"
        "else:\n"
        "    from rlm.cli import main\n"
        "    main()\n"
    )

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", code, json.dumps(ENTRY), *arguments]
        return subprocess.check_output(command, text=True, cwd=tmp_path, env={"HOME": str(tmp_path)})

    assert "acme: ACME_KEY is not set" in run("models")
    listed = json.loads(run("models", "--json"))
    assert listed["keys"]["ACME_KEY"] is False
    assert {"name": "acme:road-2", "window": 77_000}.items() <= listed["models"][0].items()
    assert run("telemetry").split() == ["acme.cloud", "acme.cloud", "rlm"]
