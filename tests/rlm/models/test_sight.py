"""Test what is known of models that see: who does, and what a picture takes."""

from __future__ import annotations

import pytest

from rlm.errors import ConfigurationError
from rlm.models import ModelOptions, resolve
from rlm.models.base import Image, ModelWindow
from rlm.models.catalog.families import image_tokens, sees
from rlm.models.catalog.info import ModelInfo, reported_info


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-5",
        "claude-3-5-sonnet-20241022",
        "gpt-5-mini",
        "gpt-4o",
        "o3",
        "gemini-2.5-flash",
        "qwen2.5vl:7b",
        "Qwen/Qwen3-VL-8B-Instruct",
        "llava:13b",
        "llama3.2-vision",
        "anthropic/claude-opus-4.1",
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "gemma3:12b",
    ],
)
def test_families_that_see(model):
    assert sees(model) is True


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-oss-120b", False),
        ("o3-mini", None),
        ("gemma3:1b", None),
        ("deepseek-chat", None),
        ("qwen3:8b", None),
        ("llama3.1", None),
        ("my-model", None),
    ],
)
def test_other_models_are_not_taken_to_see(model, known):
    assert sees(model) is known


def test_the_users_table_decides():
    facts = ModelInfo.from_table("models.x", {"sees": True})
    assert facts.apply_to_window(ModelWindow(8_000, 1_000)) == ModelWindow(8_000, 1_000, sees=True)
    assert resolve("openai:gpt-5", {"OPENAI_API_KEY": "k"}).window.sees is True
    with pytest.raises(ConfigurationError, match=r"models\.x\.sees is 1: give true or false"):
        ModelInfo.from_table("models.x", {"sees": 1})


@pytest.mark.parametrize(
    ("model", "size", "low", "high"),
    [
        # A page of A4 at 1,568 pixels: Anthropic counts pixels, OpenAI tiles or patches.
        ("anthropic:claude-sonnet-5", (1108, 1568), 2317, 2317),
        ("openai:gpt-4o", (1024, 1024), 765, 2600),
        ("openai:gpt-5", (1108, 1568), 1105, 3800),
        ("openai:gpt-4o-mini", (1024, 1024), 25_000, 27_000),
        ("openai:local", (1, 1), 1, 300),
    ],
)
def test_a_picture_is_estimated_by_its_pixels(model, size, low, high):
    assert low <= image_tokens(model, Image("image/png", b"", *size)) <= high


@pytest.fixture(autouse=True)
def _forget_reports():
    yield
    reported_info.clear()


def test_facts_of_a_server_take_no_sight_away():
    """The server's word counts, then what is known of the name."""
    gemini = resolve("gemini:gemini-3.8-flash", {"GEMINI_API_KEY": "k"})
    reported_info[gemini.name] = ModelInfo(window=1_048_576, output=65_536)
    assert gemini.window == ModelWindow(1_048_576 - 16_000, 65_536 - 16_000, sees=True, thinking=16_000)
    for reported in (True, False):
        vllm = resolve("vllm:some-model", {})
        reported_info[vllm.name] = ModelInfo(window=32_000, sees=reported)
        assert vllm.window.sees is reported
        reported_info[vllm.name] = ModelInfo(sees=reported)
        assert (vllm.window.sees, vllm.window.known) == (reported, False)


def test_a_window_of_the_user_s_keeps_the_sight_that_the_server_reports():
    model = resolve("vllm:some-model", {}, ModelOptions(info=ModelInfo(window=9_000, output=1_000)))
    reported_info[model.name] = ModelInfo(window=32_000, sees=True)
    assert model.window == ModelWindow(9_000, 1_000, sees=True)
