"""AnthropicModel and OpenAIModel against a real server: what is sent and what is made of the answer."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.errors import ConfigurationError, ModelProtocolError, ModelUnavailable
from rlm.models.anthropic import AnthropicModel
from rlm.models.base import Message, ModelWindow, Request, TokenUsage
from rlm.models.endpoint import Endpoint
from rlm.models.messages import cache_borders, encodable
from rlm.models.openai import OpenAIModel
from rlm.models.options import ModelOptions, RetryPolicy
from rlm.models.registry import resolve
from rlm.models.server_events import EventDecoder


def ask(*contents: str, most: int = 100) -> Request:
    messages = tuple(Message("user", content) for content in contents or ("hello",))
    return Request("child", (Message("system", "be brief"), *messages), most, "task")


async def test_a_streamed_reply_is_put_together_with_its_usage(make_model, provider_server, providers):
    """driver.md 7.1: the messages go to the provider; text and tokens come back whole."""
    text = "Ἑλλάς 🙂 " * 50
    provider_server.play(providers.Answer(text, usage=(1000, 42, 600), piece=3))
    model = make_model(provider_server.url)
    reply = await model.generate(ask("what?", most=77))
    assert reply.text == text
    assert reply.finish_reason == "stop"
    # The fake splits Anthropic's cached tokens into read and written halves: only read ones are cached.
    cached, written = (300, 300) if make_model.protocol == "anthropic" else (600, 0)
    assert reply.usage == TokenUsage(1000, 42, cached, written)
    (sent,) = provider_server.requests
    assert (sent.system, sent.prompt) == ("be brief", "what?")
    assert sent.body["stream"] is True
    assert sent.body["max_tokens"] == 77
    assert model.name == f"{make_model.protocol}:m"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "refusal"), ("tool_use", "other")],
)
async def test_finish_reasons(make_model, provider_server, providers, finish, reason):
    """driver.md 4.5: a reply cut by the output limit says so; a refusal is an answer, not an error."""
    provider_server.play(providers.Answer("some", finish=finish))
    reply = await make_model(provider_server.url).generate(ask())
    assert (reply.text, reply.finish_reason) == ("some", reason)
    assert len(provider_server.requests) == 1


async def test_anthropic_window_overrun_is_a_length(provider_server, providers):
    provider_server.play(providers.Answer("cut", finish="model_context_window_exceeded"))
    model = AnthropicModel("m", Endpoint(provider_server.url, "k", "ANTHROPIC_API_KEY"))
    assert (await model.generate(ask())).finish_reason == "length"
    await model.aclose()


async def test_openai_refusal_text_is_a_refusal(provider_server, providers):
    chunk = b'data: {"choices":[{"index":0,"delta":{"refusal":"I will not"},"finish_reason":"stop"}]}\n\n'
    provider_server.play(providers.Raw(chunk + b"data: [DONE]\n\n"))
    model = OpenAIModel("m", Endpoint(f"{provider_server.url}/v1", "k", "OPENAI_API_KEY"))
    reply = await model.generate(ask())
    assert (reply.text, reply.finish_reason) == ("I will not", "refusal")
    await model.aclose()


async def test_openai_content_may_come_in_parts(provider_server, providers):
    """Some servers send a list, with the reasoning in it."""
    parts = [
        {"type": "thinking", "thinking": []},
        {"type": "text", "text": "4"},
        {"type": "text", "text": "2"},
    ]
    chunk = {"choices": [{"index": 0, "delta": {"content": parts}, "finish_reason": "stop"}]}
    provider_server.play(providers.Raw(f"data: {json.dumps(chunk)}\n\n".encode()))
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    assert (await model.generate(ask())).text == "42"
    await model.aclose()


async def test_reasoning_is_not_part_of_the_text(make_model, provider_server, providers):
    provider_server.play(providers.Answer("42", reasoning="let me think", usage=(5, 900, 0)))
    reply = await make_model(provider_server.url).generate(ask())
    assert (reply.text, reply.usage.output_tokens) == ("42", 900)


async def test_a_server_that_counts_no_tokens_gets_an_estimate(provider_server, providers):
    """The estimate covers what was sent, what was said and what was reasoned."""
    provider_server.play(
        providers.Answer("answer", usage=None), providers.Answer("answer", "stop", None, 7, "so then " * 99)
    )
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    plain = await model.generate(ask("word " * 1000))
    reasoned = await model.generate(ask("word " * 1000))
    assert 1000 <= plain.usage.input_tokens < 4000
    assert 0 < plain.usage.output_tokens < 10
    assert reasoned.usage.output_tokens >= plain.usage.output_tokens + 99
    await model.aclose()


async def test_anthropic_marks_stable_prefixes_for_its_cache(provider_server):
    """At most four: the first and the latest. Empty messages, which the API refuses, are left out."""
    messages = [Message("system", "rules", stable=True), Message("user", "")]
    messages += [Message("assistant" if n % 2 else "user", f"turn {n}", stable=True) for n in range(6)]
    model = AnthropicModel("m", Endpoint(provider_server.url, "k", "ANTHROPIC_API_KEY"))
    await model.generate(Request("root", tuple(messages), 10, "task"))
    await model.aclose()
    body = provider_server.requests[0].body
    assert body["system"] == [{"type": "text", "text": "rules", "cache_control": {"type": "ephemeral"}}]
    marked = [
        turn["content"][0]["text"] for turn in body["messages"] if "cache_control" in turn["content"][0]
    ]
    assert marked == ["turn 3", "turn 4", "turn 5"]
    assert len(body["messages"]) == 6


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12), st.integers(1, 5))
def test_cache_borders_stay_within_their_number(flags, most):
    messages = [Message("user", "x" if full else "", stable=stable) for stable, full in flags]
    borders = cache_borders(messages, most)
    usable = [index for index, (stable, full) in enumerate(flags) if stable and full]
    assert borders <= set(usable)
    assert len(borders) == min(most, len(usable))
    assert not usable or usable[0] in borders
    assert most == 1 or not usable or usable[-1] in borders


@pytest.mark.parametrize("host", ["https://api.openai.com/v1", "https://eu.api.openai.com/v1"])
def test_openai_itself_is_given_max_completion_tokens(host):
    body = OpenAIModel("m", Endpoint(host, "k", "OPENAI_API_KEY"))._body(ask(most=9))
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


async def test_other_servers_are_given_max_tokens_and_asked_for_usage(provider_server):
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    await model.generate(ask(most=9))
    await model.aclose()
    body = provider_server.requests[0].body
    assert body["max_tokens"] == 9
    assert "max_completion_tokens" not in body
    assert body["stream_options"] == {"include_usage": True}


async def test_nothing_of_openais_goes_to_another_server(provider_server, monkeypatch):
    """driver.md 6.4: the key, organisation, project and extra headers of OpenAI stay with OpenAI."""
    env = {
        "OPENAI_API_KEY": "sk-planted-key",
        "OPENAI_ADMIN_KEY": "sk-planted-admin",
        "OPENAI_ORG_ID": "planted-organisation",
        "OPENAI_PROJECT_ID": "planted-project",
        "OPENAI_CUSTOM_HEADERS": "X-Gateway: planted-header\nAuthorization: Bearer planted-token",
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    model = resolve(f"openai:m@{provider_server.url}/v1", env)
    await model.generate(ask())
    await model.aclose()
    keyed = resolve(f"openai:m@{provider_server.url}/v1", {**env, "RLM_OPENAI_COMPATIBLE_KEY": "local-key"})
    await keyed.generate(ask())
    await keyed.aclose()
    first, second = provider_server.requests
    assert "planted" not in str(first.headers) + str(second.headers)
    assert second.headers["authorization"] == "Bearer local-key"


async def test_what_the_environment_holds_for_a_provider_goes_to_it(provider_server, monkeypatch):
    """Its own endpoint, or the gateway in its place: organisation, project, the headers of a gateway."""
    monkeypatch.setenv("OPENAI_ORG_ID", "an-organisation")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: one")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Gateway: two")
    for model in (
        OpenAIModel("m", Endpoint(f"{provider_server.url}/v1", "k", "OPENAI_API_KEY")),
        AnthropicModel("m", Endpoint(provider_server.url, "k", "ANTHROPIC_API_KEY")),
    ):
        await model.generate(ask())
        await model.aclose()
    first, second = (request.headers for request in provider_server.requests)
    assert (first["openai-organization"], first["x-gateway"]) == ("an-organisation", "one")
    assert "openai-project" not in first
    assert first["authorization"] == second["authorization"] == "Bearer k"
    assert second["x-gateway"] == "two"
    assert second["anthropic-version"]


@pytest.mark.parametrize("text", ["\ud800", "a\udc00b", "\ud83d\ude42"])
async def test_text_that_utf_8_cannot_carry_is_sent_all_the_same(make_model, provider_server, text):
    await make_model(provider_server.url).generate(ask(text))
    expected = {"\ud800": "\ufffd", "a\udc00b": "a\ufffdb", "\ud83d\ude42": "🙂"}[text]
    assert provider_server.requests[0].prompt == expected


@given(st.text())
def test_encodable_leaves_good_text_alone_and_mends_the_rest(text):
    encodable(text).encode("utf-8")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert encodable(text) == text


async def test_fifty_calls_at_once_share_one_client(make_model, provider_server):
    together = threading.Barrier(2)

    def slowly(received):
        if len(provider_server.requests) == 50:
            together.wait(10)
        return received.prompt

    provider_server.always = slowly
    model, twin = make_model(provider_server.url), make_model(provider_server.url)
    calls = [(model if n % 2 else twin).generate(ask(str(n))) for n in range(50)]
    running = asyncio.gather(*calls)
    await asyncio.to_thread(together.wait, 10)
    assert [reply.text for reply in await running] == [str(n) for n in range(50)]
    # The next calls find connections to reuse.
    before = provider_server.connections
    assert before <= 50
    await asyncio.gather(*[model.generate(ask("again")) for _ in range(20)])
    assert provider_server.connections == before
    assert (await model._user.get()) is (await twin._user.get())


async def test_a_client_outlives_all_but_its_last_user(make_model, provider_server):
    first, second = make_model(provider_server.url), make_model(provider_server.url)
    await asyncio.gather(first.generate(ask()), second.generate(ask()))
    shared = await second._user.get()
    await first.aclose()
    await first.aclose()
    assert not shared.client.is_closed()
    assert (await second.generate(ask())).text == "ok"
    await second.aclose()
    assert shared.client.is_closed()
    # A closed model takes a client anew.
    assert (await second.generate(ask())).text == "ok"


def test_one_model_serves_one_event_loop_after_another(provider_server):
    model = resolve(f"openai:m@{provider_server.url}/v1", {})

    async def once():
        reply = await model.generate(ask())
        await model.aclose()
        return reply.text

    assert [asyncio.run(once()) for _ in range(2)] == ["ok", "ok"]


async def test_cancelling_a_call_closes_its_connection(make_model, provider_server, providers):
    """driver.md 2.8: nothing is orphaned."""
    provider_server.play(providers.Silence())
    call = asyncio.create_task(make_model(provider_server.url).generate(ask()))
    while not provider_server.requests:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await asyncio.to_thread(provider_server.hung_up.wait, 5)
    assert len(provider_server.requests) == 1


async def test_a_proxy_is_gone_through(make_model, provider_server):
    """driver.md 7.4: the proxy is an option."""
    reply = await make_model("http://no.such.host.invalid:81", proxy=provider_server.url).generate(ask())
    assert reply.text == "ok"
    assert provider_server.requests[0].path.startswith("http://no.such.host.invalid:81/v1/")


async def test_a_proxy_is_told_who_asks(make_model, provider_server):
    """driver.md 7.4: name and password of a proxy stand in its URL; the provider's key is not the proxy's."""
    proxy = provider_server.url.replace("://", "://user:pass%20word@")
    await make_model("http://no.such.host.invalid:81", key="sk-the-key", proxy=proxy).generate(ask())
    headers = provider_server.requests[0].headers
    assert headers["proxy-authorization"] == "Basic " + b64encode(b"user:pass word").decode()
    assert headers["authorization"] == "Bearer sk-the-key"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl is needed to make a certificate")
    return folder / "cert.pem", folder / "key.pem"


async def test_a_ca_file_is_trusted_beside_the_system(make_model, providers, certificate):
    """driver.md 7.4: CA settings are an option; without it the error says which to set, at once."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    with providers.ProviderServer(tls=context) as server:
        reply = await make_model(server.url, ca_file=str(certificate[0])).generate(ask())
        assert reply.text == "ok"
        retried = []
        with pytest.raises(
            ModelUnavailable, match=r"certificate of localhost:.* is not trusted; set ca_file"
        ):
            await make_model(server.url, on_retry=lambda *told: retried.append(told)).generate(ask())
        assert retried == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ca_file": "/no/such/file.pem"}, "can't be read"),
        ({"ca_file": __file__}, "holds no certificate"),
        ({"proxy": "localhost:3128"}, "the proxy is not a usable URL"),
        ({"proxy": "http://user:secret@:80"}, "the proxy is not a usable URL"),
        ({"idle_seconds": 0}, "above 0 seconds"),
    ],
)
def test_bad_options_are_refused_before_any_call(make_model, options, said):
    with pytest.raises(ConfigurationError, match=said) as caught:
        make_model("http://localhost:1", **options)
    assert "secret" not in str(caught.value)


def test_bad_retry_policies_are_refused():
    with pytest.raises(ConfigurationError, match="at least 1 attempt"):
        RetryPolicy(attempts=0)
    with pytest.raises(ConfigurationError, match="negative"):
        RetryPolicy(cap=-1)


def test_a_window_given_in_the_options_wins(make_model):
    """driver.md 7.3."""
    assert make_model("http://localhost:1", window=ModelWindow(7, 3)).window == ModelWindow(7, 3)
    assert make_model("http://localhost:1").window == ModelWindow(128_000, 8_000, known=False)


def test_no_sdk_is_imported_before_the_first_call():
    """libraries.md: importing an SDK costs seconds and memory."""
    code = (
        "import sys; from rlm.models import resolve, price, window_of\n"
        "env = {'ANTHROPIC_API_KEY': 'k', 'OPENAI_API_KEY': 'k'}\n"
        "resolve('claude-sonnet-5-5', env); resolve('gpt-5', env)\n"
        "print([m for m in ('anthropic', 'openai', 'httpx2', 'aiohttp', 'genai_prices') if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_options_are_shared_by_value_not_by_name(make_model):
    assert ModelOptions() == ModelOptions()
    assert "sk-test" not in repr(make_model("http://localhost:1"))


async def test_no_test_can_leave_this_machine():
    """tests/conftest.py: no test may reach a paid API."""
    with pytest.raises(PermissionError, match="tests stay on this machine"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with pytest.raises(PermissionError):
        await asyncio.open_connection("192.0.2.1", 443)
    assert not any("API_KEY" in name for name in os.environ)


def _whole(**fields) -> bytes:
    message = {"role": "assistant", "content": "forty-two", **fields}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
    ).encode()


async def test_a_server_that_does_not_stream_is_understood(provider_server, providers):
    """driver.md 7.1: some servers ignore `stream: true` and answer with the whole completion."""
    provider_server.play(
        providers.Raw(_whole(), "application/json"),
        providers.Raw(_whole(content=None, refusal="I will not"), "application/json; charset=utf-8"),
    )
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    plain = await model.generate(ask())
    assert (plain.text, plain.finish_reason) == ("forty-two", "stop")
    assert plain.usage == TokenUsage(input_tokens=9, output_tokens=3)
    refused = await model.generate(ask())
    assert (refused.text, refused.finish_reason) == ("I will not", "refusal")
    await model.aclose()


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b'{"choices": 5}', b'{"models": []}'])
async def test_json_that_is_no_completion_is_no_reply(provider_server, providers, body):
    provider_server.always = providers.Raw(body, "application/json")
    model = resolve(f"openai:m@{provider_server.url}/v1", {})
    with pytest.raises(ModelProtocolError, match="answers with 'application/json', not with a stream"):
        await model.generate(ask())
    await model.aclose()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("SSL_CERT_FILE", "/no/such/file.pem", "can't be read"),
        ("SSL_CERT_FILE", __file__, "holds no certificate"),
        ("http_proxy", "garbage", "is not a usable URL"),
        ("HTTPS_PROXY", "ftp://proxy:1", "is not a usable URL"),
        ("https_proxy", "http://user:secret@:80", "is not a usable URL"),
        ("all_proxy", "proxy:99999999", "is not a URL"),
    ],
)
def test_a_bad_environment_is_refused_before_any_call(make_model, monkeypatch, variable, value, said):
    """driver.md 7.4: proxies and certificates of the environment hold; a bad one is named, in one line."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError, match=rf"^{variable} .*{said}") as caught:
        make_model("http://localhost:1")
    assert "secret" not in str(caught.value)


async def test_a_good_environment_is_let_through(make_model, monkeypatch, provider_server):
    monkeypatch.setenv("https_proxy", "proxy.example:3128")
    monkeypatch.setenv("http_proxy", provider_server.url.removeprefix("http://"))
    assert (await make_model("http://no.such.host.invalid:81").generate(ask())).text == "ok"
    monkeypatch.setenv("all_proxy", "garbage")
    monkeypatch.setenv("no_proxy", "*")
    assert (await make_model(provider_server.url).generate(ask())).text == "ok"
    assert "://" not in provider_server.requests[-1].path


async def test_a_socks_proxy_is_refused_where_it_would_be_gone_through(make_model, monkeypatch):
    """driver.md 7.4: what the HTTP library can't do is said before any call, and only if it matters."""
    monkeypatch.setenv("all_proxy", "socks5://localhost:1080")
    with pytest.raises(ConfigurationError, match="over a SOCKS proxy of the environment"):
        make_model("http://provider.example:81")
    monkeypatch.setenv("no_proxy", "provider.example")
    make_model("http://provider.example:81")
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", "http://localhost:3128")
    make_model("http://provider.example:81")


def test_connections_end_with_their_loop_though_nobody_closed_the_model(provider_server, caplog):
    """Whoever forgets `aclose` is not told of unclosed sessions at the end of the program."""
    model = resolve(f"openai:m@{provider_server.url}/v1", {})

    async def once():
        await model.generate(ask())
        return (await model._user.get()).client

    assert asyncio.run(once()).is_closed()
    gc.collect()
    assert "nclosed" not in caplog.text


async def test_calls_at_once_make_one_client(make_model, provider_server):
    """The first calls of a model come together: they share what the first of them makes."""
    model = make_model(provider_server.url)
    await asyncio.gather(*(model.generate(ask()) for _ in range(9)))
    shared = await model._user.get()
    assert shared.users == 1
    await model.aclose()
    assert shared.client.is_closed()


@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_a_connection_is_used_again_after_a_stream(make_model, provider_server, providers, pause):
    """The end of a chunked answer may come after its last event."""
    model = make_model(provider_server.url)
    provider_server.play(providers.Answer(pause=pause), providers.Answer(pause=pause))
    await model.generate(ask())
    await model.generate(ask())
    assert provider_server.connections == 1


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))), st.data())
def test_events_are_the_same_however_the_stream_is_cut(texts, data):
    """Any line end of the protocol, comments and other fields between, several lines of data."""
    wanted, stream = [], b""
    for text in texts:
        end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
        lines = [text] * data.draw(st.integers(1, 3))
        wanted.append("\n".join(lines).encode())
        fields = ["event: x", ": a comment", *(f"data: {line}" for line in lines), "id: 7", ""]
        stream += (end.join(fields) + end).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=9)))
    decoder = EventDecoder()
    given_out = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        given_out += decoder.feed(stream[start:stop])
    given_out += decoder.feed(b"\n")  # a carriage return at the very end waits for what follows it
    assert given_out == wanted
