"""Test Ollama's own API: the size of the context goes with each request, so that no prompt is cut."""

from __future__ import annotations

import json

import pytest

from rlm.models import Message, ModelOptions, ModelWindow, Request, RetryPolicy, resolve
from rlm.models.base import Image
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import ModelInfo
from rlm.models.http.model import learn
from rlm.models.http.reply_limits import MAX_EVENT, ReplyTooLarge
from rlm.models.http.streaming import LineDecoder

REQUEST = Request("child", (Message("system", "S"), Message("user", "Hi")), 100, task="")
QUICK = RetryPolicy(base=0.001, cap=0.002, attempts=3)
SHOWN = {
    "license": "MIT",
    "parameters": 'stop    "<|im_end|>"\ntemperature                    0.6',
    "details": {"family": "qwen3", "parameter_size": "8.2B"},
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
    "capabilities": ["completion", "tools", "thinking"],
}


def lines(*events: dict) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def chat(text: str = "ok", **end: object) -> bytes:
    base = {"model": "qwen3:8b", "created_at": "2026-11-20T10:00:00Z"}
    return lines(
        base | {"message": {"role": "assistant", "content": "", "thinking": "Hm."}, "done": False},
        *(base | {"message": {"role": "assistant", "content": piece}, "done": False} for piece in text),
        base
        | {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
        | {"total_duration": 5_000, "prompt_eval_count": 26, "eval_count": 12}
        | end,
    )


@pytest.fixture
def ollama(pages):
    pages.pages |= {
        "/api/show": SHOWN,
        "/api/ps": {"models": []},
        "/api/chat": lambda _: (200, "application/x-ndjson", chat()),
    }
    return pages


def make(ollama, name: str = "ollama:qwen3:8b", **options: object):
    return resolve(name, {"OLLAMA_HOST": ollama.url}, ModelOptions(retry=QUICK, **options))  # type: ignore[arg-type]


def sent(ollama) -> dict:
    return [asked.json for asked in ollama.asked if asked.path == "/api/chat"][-1]


async def test_a_request_sets_the_size_that_the_window_says(ollama) -> None:
    model = make(ollama)
    await learn([model])
    assert model.window.whole == ModelWindow(16_384, 4_096, sees=False)  # it lists no vision
    reply = await model.generate(REQUEST)
    await model.aclose()
    assert (reply.text, reply.thinking, reply.finish_reason) == ("ok", "Hm.", "stop")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (26, 12)
    body = sent(ollama)
    assert body["options"] == {"num_ctx": 16_384, "num_predict": 4_196}
    assert body["messages"][0] == {"role": "system", "content": "S"}
    assert "think" not in body


@pytest.mark.parametrize(
    ("shown", "loaded", "context"),
    [
        ({}, None, 16_384),
        ({"parameters": "num_ctx                        8192\nstop x"}, None, 8_192),
        ({"parameters": "num_ctx 99999999"}, None, 40_960),
        ({}, 32_768, 32_768),
        ({}, 4_096, 16_384),
        ({"model_info": {"llama.context_length": 2_048}}, None, 2_048),
        ({"model_info": {"llama.context_length": "many"}}, None, 16_384),
        ({"model_info": []}, None, 16_384),
    ],
)
async def test_where_the_size_comes_from(ollama, shown: dict, loaded: int | None, context: int) -> None:
    """The model's own file, else the loaded model if it holds more than the default, never above what it was
    trained for."""
    ollama.pages["/api/show"] = SHOWN | shown
    if loaded is not None:
        ollama.pages["/api/ps"] = {"models": [{"name": "qwen3:8b", "context_length": loaded}]}
    model = make(ollama)
    await learn([model])
    assert model.window.whole.context == context
    assert model.window.whole.known


async def test_the_users_window_is_sent(ollama) -> None:
    model = make(ollama, info=ModelInfo(window=24_000, output=2_000))
    await model.generate(REQUEST)
    await model.aclose()
    assert sent(ollama)["options"]["num_ctx"] == 24_000


@pytest.mark.parametrize(
    ("effort", "levels", "think"),
    [
        ("none", None, False),
        ("high", None, True),
        ("high", ["low", "high"], "high"),
        ("max", ["low", "high"], "high"),
    ],
)
async def test_effort_is_said_in_its_words(ollama, effort, levels, think) -> None:
    if levels is not None:
        ollama.pages["/api/show"] = SHOWN | {"thinking": {"values": levels, "default": "low"}}
    model = make(ollama, calls=CallSettings(effort=effort, temperature=0.2, seed=7))
    await learn([model])
    await model.generate(REQUEST)
    await model.aclose()
    assert sent(ollama)["think"] == think
    assert sent(ollama)["options"]["seed"] == 7


async def test_a_model_that_does_not_think_is_not_told_to(ollama) -> None:
    """It would refuse the request."""
    ollama.pages["/api/show"] = SHOWN | {"capabilities": ["completion"]}
    model = make(ollama, calls=CallSettings(effort="high"))
    await learn([model])
    await model.generate(REQUEST)
    await model.aclose()
    assert "think" not in sent(ollama)


async def test_a_last_line_without_its_end_is_read(ollama) -> None:
    """So is one behind a byte order mark; what is not counted is estimated."""
    body = b"\xef\xbb\xbf" + chat("fine", prompt_eval_count=0, eval_count=0).rstrip()
    ollama.pages["/api/chat"] = lambda _: (200, "application/x-ndjson", body)
    model = make(ollama)
    reply = await model.generate(REQUEST)
    await model.aclose()
    assert (reply.text, reply.finish_reason) == ("fine", "stop")
    assert reply.usage.input_tokens > 0
    assert len([asked for asked in ollama.asked if asked.path == "/api/chat"]) == 1


@pytest.mark.parametrize("url", ["{}", "{}/v1", "{}/v1/", "{}/"])
async def test_a_url_may_be_written_with_or_without_v1(ollama, url: str) -> None:
    model = resolve(f"ollama:qwen3:8b@{url.format(ollama.url)}", {})
    assert (await model.generate(REQUEST)).text == "ok"
    await model.aclose()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999"),
        (":9999", "http://127.0.0.1:9999"),
        ("[::]:9999", "http://[::1]:9999"),
        ("gpu.lan", "http://gpu.lan:11434"),
        ("https://ollama.example.com", "https://ollama.example.com"),
        ("http://gpu.lan:8080/", "http://gpu.lan:8080"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert resolve("ollama:x", {"OLLAMA_HOST": host})._endpoint.base_url == url  # type: ignore[attr-defined]


def test_lines_are_bounded() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b'{"a":1}\n\n{"b"') == [b'{"a":1}']
    assert decoder.feed(b":2}\r\n") == [b'{"b":2}\r']
    decoder.feed(b"x" * (MAX_EVENT + 1))
    with pytest.raises(ReplyTooLarge):
        decoder.feed(b"x")


async def test_pictures_go_with_the_message_that_has_them(ollama):
    """Ollama takes them as base64 beside the text."""
    picture = Image("image/png", b"\x89PNG", 10, 10)
    request = Request("child", (Message("system", "S"), Message("user", "What?", images=(picture,))), 100, "")
    await make(ollama).generate(request)
    system, user = sent(ollama)["messages"]
    assert "images" not in system
    assert user == {"role": "user", "content": "What?", "images": [picture.base64]}


async def test_it_sees_what_the_user_the_server_or_its_name_says(ollama):
    assert make(ollama, "ollama:llava").window.sees is True
    assert make(ollama).window.sees is None
    assert make(ollama, info=ModelInfo(window=8_192, sees=True)).window.sees is True
    ollama.pages["/api/show"] = SHOWN | {"capabilities": ["completion", "vision"]}
    model = make(ollama, "ollama:seeing:8b")
    await learn([model])
    assert model.window.sees is True
