"""Test what servers report of their models, in the shapes of the programs that people run."""

from __future__ import annotations

import asyncio
import time

import pytest

from rlm.models import ModelOptions, ModelWindow, TokenUsage, price, resolve
from rlm.models.catalog.info import ModelInfo, Prices, info_for
from rlm.models.http.model import learn
from rlm.runs.notes import window_warnings

VLLM = {
    "object": "list",
    "data": [
        {
            "id": "Qwen/Qwen3-8B",
            "object": "model",
            "created": 1,
            "owned_by": "vllm",
            "root": "Qwen/Qwen3-8B",
            "parent": None,
            "max_model_len": 40_960,
            "permission": [],
        }
    ],
}
LLAMACPP = {
    "models": [{"name": "qwen.gguf", "model": "qwen.gguf", "capabilities": ["completion"]}],
    "object": "list",
    "data": [
        {
            "id": "qwen.gguf",
            "object": "model",
            "created": 1,
            "owned_by": "llamacpp",
            "meta": {"vocab_type": 2, "n_vocab": 151_936, "n_ctx_train": 40_960, "n_embd": 4_096},
        }
    ],
}
PROPS = {
    "default_generation_settings": {"id": 0, "n_ctx": 8_192, "params": {"n_predict": -1}},
    "total_slots": 4,
    "model_path": "qwen.gguf",
    "modalities": {"vision": True, "audio": False},
}
LMSTUDIO = {
    "object": "list",
    "data": [{"id": "qwen3-8b", "object": "model", "owned_by": "organization_owner"}],
}
LMSTUDIO_V0 = {
    "object": "list",
    "data": [
        {
            "id": "qwen3-8b",
            "type": "llm",
            "state": "loaded",
            "max_context_length": 40_960,
            "loaded_context_length": 12_288,
        }
    ],
}
OLLAMA = {"object": "list", "data": [{"id": "qwen3:8b", "object": "model", "owned_by": "library"}]}
OPENROUTER = {
    "data": [
        {
            "id": "meta/llama-9",
            "context_length": 131_072,
            "architecture": {"input_modalities": ["text", "image"]},
            "pricing": {"prompt": "0.0000002", "completion": "0.000001", "input_cache_read": "0.00000005"},
            "top_provider": {"context_length": 65_536, "max_completion_tokens": 16_384},
        },
        {
            "id": "openrouter/auto",
            "context_length": 2_000_000,
            "pricing": {"prompt": "-1", "completion": "-1"},
        },
        {"id": "free/one:free", "context_length": 32_768, "pricing": {"prompt": "0", "completion": "0"}},
    ]
}


@pytest.mark.parametrize(
    ("name", "listed", "more", "window"),
    [
        ("openai:Qwen/Qwen3-8B@{}/v1", VLLM, {}, (40_960, 8_000)),
        ("vllm:Qwen/Qwen3-8B@{}/v1", VLLM, {}, (40_960, 8_000)),
        ("openai:any@{}/v1", LLAMACPP, {"/props": PROPS}, (8_192, 2_048)),
        ("llamacpp:any@{}/v1", LLAMACPP, {"/props": PROPS}, (8_192, 2_048)),
        ("llamacpp:any@{}/v1", LLAMACPP, {"/props": {"n_ctx": 4_096}}, (4_096, 1_024)),
        ("openai:qwen3-8b@{}/v1", LMSTUDIO, {"/api/v0/models": LMSTUDIO_V0}, (12_288, 3_072)),
        ("lmstudio:qwen3-8b@{}/v1", LMSTUDIO, {"/api/v0/models": LMSTUDIO_V0}, (12_288, 3_072)),
    ],
)
async def test_the_window_of_a_server(
    pages, name: str, listed: dict, more: dict, window: tuple[int, int]
) -> None:
    pages.pages |= {"/v1/models": listed, **more}
    model = resolve(name.format(pages.url), {})
    assert not model.window.whole.known
    await learn([model])
    assert (model.window.whole.context, model.window.whole.output, model.window.whole.known) == (
        *window,
        True,
    )
    assert window_warnings([model]) == []
    asked = len(pages.asked)
    await learn([model, resolve(name.format(pages.url), {})])
    assert len(pages.asked) == asked, "a server is asked once"


async def test_a_variable_names_the_server(pages) -> None:
    pages.pages["/v1/models"] = VLLM
    model = resolve("vllm/Qwen/Qwen3-8B", {"VLLM_BASE_URL": pages.url, "VLLM_API_KEY": "vllm-key-1"})
    await learn([model])
    assert model.window.whole.context == 40_960
    assert pages.asked[0].headers["authorization"] == "Bearer vllm-key-1"


async def test_ollamas_compatible_api_has_its_default_and_one_warning(pages) -> None:
    pages.pages |= {"/v1/models": OLLAMA, "/api/show": {"model_info": {"qwen3.context_length": 40_960}}}
    model = resolve(f"openai:qwen3:8b@{pages.url}/v1", {})
    await learn([model])
    assert model.window.whole.context == 4_096
    (warning,) = window_warnings([model, model])
    assert "Ollama may cut the prompts" in warning
    assert "ollama:qwen3:8b" in warning


async def test_openrouter_reports_windows_and_prices(pages) -> None:
    pages.pages["/api/v1/models"] = OPENROUTER
    env = {"OPENROUTER_API_KEY": "sk-or-1", "OPENROUTER_BASE_URL": f"{pages.url}/api/v1"}
    models = [
        resolve(f"openrouter:{name}", env) for name in ("meta/llama-9", "openrouter/auto", "free/one:free")
    ]
    await learn(models)
    assert [(model.window.whole.context, model.window.whole.output) for model in models] == [
        (65_536, 16_384),
        (2_000_000, 8_000),
        (32_768, 8_000),
    ]
    usage = TokenUsage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000)
    prices = [Prices().of(model, usage) for model in models]
    assert prices[0] == pytest.approx(0.6 * 0.2 + 0.4 * 0.05 + 0.1)
    assert prices[1:] == [None, 0.0]
    own = {"openrouter/meta/llama-9": ModelInfo(input_price=1.0, output_price=1.0)}
    assert Prices(own).of(models[0], usage) == pytest.approx(1.1)


async def test_a_server_named_by_its_url_sets_no_price(pages, monkeypatch) -> None:
    """A price of 0 would lift the limit of the cost."""
    from rlm.models.http import fact_finder

    pages.pages["/v1/models"] = OPENROUTER
    model = resolve(f"openai:free/one:free@{pages.url}/v1", {})
    await learn([model])
    facts = model.facts  # type: ignore[attr-defined]
    assert facts.window == 32_768
    assert facts.input_price is None
    assert fact_finder._read_listing(OPENROUTER["data"][2], prices=True).input_price == 0.0


async def test_googles_own_api_reports_the_limits_of_gemini(pages) -> None:
    shown = {"name": "models/gemini-9", "inputTokenLimit": 2_000_000, "outputTokenLimit": 70_000}
    pages.pages["/v1beta/models/gemini-9"] = shown
    env = {"GOOGLE_API_KEY": "AIzaTest123", "GEMINI_BASE_URL": f"{pages.url}/v1beta/openai/"}
    model = resolve("gemini:gemini-9", env)
    await learn([model])
    assert model.window.whole == ModelWindow(2_000_000, 70_000, sees=True)
    assert pages.asked[0].headers["x-goog-api-key"] == "AIzaTest123"


async def test_the_user_goes_before_the_server(pages) -> None:
    pages.pages["/v1/models"] = VLLM
    name = f"vllm:Qwen/Qwen3-8B@{pages.url}/v1"
    model = resolve(name, {}, ModelOptions(info=ModelInfo(window=20_000, output=2_000)))
    both = resolve(name, {}, ModelOptions(info=ModelInfo(output=3_000)))
    await learn([model, both])
    assert model.window.whole == ModelWindow(20_000, 2_000)
    assert both.window.whole == ModelWindow(40_960, 3_000), (
        "an output limit alone leaves the window to the server"
    )


def test_a_table_counts_however_it_spells_the_name() -> None:
    facts = {"ollama/qwen3:8b": ModelInfo(window=9_000), "claude-x": ModelInfo(window=8_000)}
    assert info_for("ollama:qwen3:8b", facts) is facts["ollama/qwen3:8b"]
    assert info_for("anthropic:claude-x", facts) is facts["claude-x"]
    assert info_for("openai:gpt-5", facts) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"data": 5}',
        b'{"data": [{"id": "m", "owned_by": "vllm", "max_model_len": -1}]}',
        b'{"data": [{"id": "m", "max_model_len": 1e400}]}',
        b'{"data": [{"id": "m", "max_model_len": true}]}',
        b'{"data": [{"id": "m", "max_model_len": 99999999999999999999}]}',
        b'{"data": [{"id": "m", "max_model_len": {"a": "b"}, "owned_by": []}]}',
        b'{"data": [' + b"1," * 3_000_000 + b"1]}",
        b"[" * 100_000,
    ],
)
async def test_a_hostile_list_changes_nothing(pages, body: bytes) -> None:
    pages.pages["/v1/models"] = lambda _: (200, "application/json", body)
    model = resolve(f"openai:m@{pages.url}/v1", {})
    await learn([model])
    assert model.window.whole == ModelWindow(128_000, 8_000, known=False)
    (warning,) = window_warnings([model])
    assert "is a guess" in warning


async def test_a_silent_server_costs_a_second_and_no_run_waits_twice(pages) -> None:
    def wait(_) -> tuple[int, str, bytes]:
        time.sleep(3)
        return 200, "application/json", b"{}"

    pages.pages["/v1/models"] = wait
    models = [resolve(f"openai:m@{pages.url}/v1", {}) for _ in range(3)]
    began = time.monotonic()
    await asyncio.gather(*(learn([model]) for model in models))
    assert time.monotonic() - began < 2.5
    assert len(pages.asked) == 1


async def test_a_dry_run_asks_only_this_machine(pages, monkeypatch) -> None:
    pages.pages |= {"/v1/models": VLLM, "/api/v1/models": OPENROUTER}
    here = resolve(f"vllm:Qwen/Qwen3-8B@{pages.url}/v1", {})
    there = resolve("openrouter:meta/llama-9", {"OPENROUTER_API_KEY": "sk-or-1"})
    await learn([here, there], only_here=True)
    assert here.window.known
    assert not there.window.known
    assert price(here.name, TokenUsage(10, 10)) == 0.0
