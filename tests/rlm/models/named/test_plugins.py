"""Test providers of other packages: installed by two files, found by entry point, loaded when needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlm.errors import ConfigurationError
from rlm.models import Message, Request, TokenUsage, default_model, price, resolve, window_of
from rlm.models import plugins as plugins_module
from rlm.models.catalog.names import parse_name
from rlm.models.plugins import load_plugins, plugin_package, plugin_prefixes
from rlm.models.registry import PROVIDERS, list_forms
from rlm.telemetry.spans import _find_provider

MODULE = """
from rlm.models.http.model import HttpModel
from rlm.models.providers.openai import OpenAIModel
from rlm.models.registry import ProviderSpec


class AcmeModel(HttpModel):
    prefix = "acme"
    path = "/speak"

    def body(self, request):
        said = [{"role": "user", "content": request.messages[-1].content}]
        return {"model": self.provider_model, "max_tokens": self.room(request), "messages": said}

    def accumulator(self, body):
        return OpenAIModel.accumulator(self, body)


SPEC = ProviderSpec(
    factory="acme_rlm:AcmeModel",
    key_variable="ACME_KEY",
    base_url="https://acme.invalid/v1",
    base_url_variable="ACME_URL",
    default_model="road-2",
    telemetry_name="acme.cloud",
    price_list="",
    bare_names="road-",
    bare_forms=("road-*",),
    windows={"road-2": (77_000, 7_000)},
)


def make():
    return SPEC


def broken():
    raise RuntimeError("no licence\\nand more")


def leaves():
    raise SystemExit(3)


nothing = 5
"""


def install(folder: Path, *entries: str) -> None:
    """Install a package as an installer does: its module, and its metadata."""
    (folder / "acme_rlm.py").write_text(MODULE)
    metadata = folder / "acme_rlm-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rlm\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[rlm.models]\n" + "\n".join(entries) + "\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def clear() -> None:
        plugins_module._find_entries.cache_clear()
        parse_name.cache_clear()
        window_of.cache_clear()
        sys.modules.pop("acme_rlm", None)

    def make(*entries: str) -> None:
        install(tmp_path, *entries)
        monkeypatch.syspath_prepend(str(tmp_path))
        clear()

    monkeypatch.setattr("rlm.models.registry.PROVIDERS", PROVIDERS)
    before = dict(PROVIDERS)
    yield make
    PROVIDERS.clear()
    PROVIDERS.update(before)
    clear()


@pytest.mark.parametrize("entry", ["acme = acme_rlm:SPEC", "acme = acme_rlm:make"])
@pytest.mark.parametrize("name", ["acme:road-2", "acme/road-2", "road-2"])
async def test_its_models_are_named_and_asked(installed, provider_server, entry: str, name: str) -> None:
    installed(entry)
    assert "acme" not in PROVIDERS
    model = resolve(name, {"ACME_KEY": "sk-acme", "ACME_URL": f"{provider_server.url}/v1"})
    assert (model.window.context, model.window.output) == (77_000, 7_000)
    assert (await model.generate(Request("child", (Message("user", "hi"),), 10, "task"))).text == "ok"
    await model.aclose()
    (sent,) = provider_server.requests
    assert (sent.headers["authorization"], sent.body["model"]) == ("Bearer sk-acme", "road-2")
    assert plugin_package("acme") == "acme-rlm"
    assert "acme:NAME, " in list_forms()
    assert "road-*" in list_forms()
    assert price(name, TokenUsage(10, 10)) is None
    assert [_find_provider(one) for one in ("acme:x", "road-9", "own model")] == ["acme.cloud"] * 2 + ["rlm"]
    assert parse_name("acme:m@http://host/v1").base_url is None


def test_nothing_is_loaded_for_the_names_of_others(installed) -> None:
    installed("acme = acme_rlm:broken")
    parse_name("openai:gpt-5")
    parse_name("ollama/qwen3")
    with pytest.raises(ConfigurationError, match=r"unknown model 'llama3'; .*acme:NAME"):
        parse_name("llama3")
    with pytest.raises(ConfigurationError, match="unknown model 'other:x'"):
        parse_name("other:x")


def test_its_key_makes_it_the_default_after_our_own(installed) -> None:
    installed("acme = acme_rlm:SPEC")
    assert default_model({"ACME_KEY": "k"}) == "acme:road-2"
    assert default_model({"ACME_KEY": "k", "OPENAI_API_KEY": "k"}) == "openai:gpt-6.1-sol"


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("broken", "RuntimeError: no licence"),
        ("leaves", "SystemExit: 3"),
        ("nothing", "TypeError: it is a int, not a ProviderSpec"),
        ("missing", "AttributeError"),
    ],
)
def test_a_broken_package_is_one_line(installed, attribute: str, reason: str) -> None:
    installed(f"acme = acme_rlm:{attribute}")
    with pytest.raises(ConfigurationError) as caught:
        resolve("acme:x", {})
    message = str(caught.value)
    assert message.startswith(f"the provider acme of the package acme-rlm can't be loaded ({reason}")
    assert "\n" not in message
    assert len(load_plugins()) == 1
    assert default_model({}) == "extractive"


def test_our_own_prefixes_stay_ours(installed) -> None:
    """A package that could rename `openai:` would get its key."""
    installed("openai = acme_rlm:SPEC", "scripted = acme_rlm:SPEC", "A b = acme_rlm:SPEC")
    assert plugin_prefixes() == ()
    assert resolve("openai:gpt-5", {"OPENAI_API_KEY": "k"})._endpoint.base_url.startswith(
        "https://api.openai.com"
    )


def test_the_command_line_lists_it_and_survives_a_broken_one(tmp_path: Path) -> None:
    install(tmp_path, "acme = acme_rlm:SPEC", "zoo = acme_rlm:broken")

    def run(*arguments: str) -> str:
        environment = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
        command = [sys.executable, "-m", "rlm", *arguments]
        return subprocess.check_output(command, text=True, cwd=tmp_path, env=environment)

    shown = run("models")
    assert "acme: ACME_KEY is not set; from the package acme-rlm" in shown
    assert "the provider zoo of the package acme-rlm can't be loaded (RuntimeError: no licence)" in shown
    listed = json.loads(run("models", "--json"))
    assert listed["keys"]["ACME_KEY"] is False
    assert listed["models"][0]["name"] == "acme:road-2"
    assert len(listed["broken"]) == 1
