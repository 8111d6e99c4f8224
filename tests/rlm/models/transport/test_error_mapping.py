"""Test the messages of failures: they name the remedy and never the key."""

from __future__ import annotations

import logging
import pickle
import socket
import traceback
from pathlib import Path

import pytest

import rlm.models
from rlm.errors import ConfigurationError, ModelError, ModelRejected
from rlm.models.base import Message, Request
from rlm.models.call_settings import CallSettings
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.errors import ErrorMapper, TransportFailure
from rlm.models.options import RetryPolicy
from rlm.models.resolution import resolve

REQUEST = Request("child", (Message("user", "hello"),), 100, "task")
PACKAGE = str(Path(rlm.models.__file__).parent)
KEY = "sk-ant-PLANTED-key-0123456789"
QUICK = RetryPolicy(attempts=2, base=0.001, cap=0.001)


@pytest.mark.parametrize(
    ("code", "message", "kind", "advice"),
    [
        (401, "", "", "is refused by 127.0.0.1:{port} (401); set {variable} to a valid key"),
        (402, "pay", "", "the account has no credit left (402): pay; add credit"),
        (403, "not yours", "", "may not use this model (403): not yours; ask for access"),
        (404, "model: m", "", "127.0.0.1:{port} knows no model 'm' (404): model: m; check the model's name"),
        (413, "big", "", "the prompt is longer than the model takes (413): big; send smaller slices"),
        (400, "prompt is too long: 9 tokens", "", "longer than the model takes (400)"),
        (400, "This model's maximum context length is 9", "", "longer than the model takes (400)"),
        (400, "no", "context_length_exceeded", "longer than the model takes (400)"),
        (
            400,
            "bad field",
            "",
            "127.0.0.1:{port} refuses the request (400): bad field; correct what it names",
        ),
        (307, "", "", "redirects (307); set the base URL to where the API really is"),
    ],
)
async def test_a_rejection_is_one_line_with_its_remedy(
    *, make_model, provider_server, providers, code, message, kind, advice
):
    """A rejection is one line that says what to change."""
    provider_server.play(providers.Status(code, message, kind or "invalid_request_error"))
    with pytest.raises(ModelRejected) as caught:
        await make_model(provider_server.url).generate(REQUEST)
    variable = f"{make_model.protocol.upper()}_API_KEY"
    text = str(caught.value)
    assert advice.format(port=provider_server.port, variable=variable) in text
    assert text.startswith(f"{make_model.protocol}:m: ")
    assert "\n" not in text


async def test_a_redirect_is_not_followed(make_model, provider_server, providers):
    """A redirect would send documents, and maybe the key, to a host that the user did not name."""
    with providers.ProviderServer() as other:
        provider_server.play(providers.Status(307, headers={"location": f"{other.url}/v1/messages"}))
        with pytest.raises(ModelRejected, match=r"redirects \(307\); set the base URL"):
            await make_model(provider_server.url).generate(REQUEST)
        assert other.requests == []


async def test_a_host_that_is_none_is_refused_at_once(make_model):
    """It is not mistaken for a dropped connection, which would be retried for minutes."""
    with pytest.raises(ModelRejected, match=r"no valid HTTP request can be made for http://1\.2\.3\.4\.5:9"):
        await make_model("http://1.2.3.4.5:9").generate(REQUEST)


async def test_a_base_url_without_v1_is_suspected(provider_server, providers):
    provider_server.play(providers.Status(404, "page not found"))
    model = resolve(f"openai:llama@{provider_server.url}", {})
    with pytest.raises(ModelRejected, match=r"check the model's name \(most servers want it to end in /v1\)"):
        await model.generate(REQUEST)
    await model.aclose()


async def test_a_server_that_wants_a_key_says_which_to_set(provider_server, providers):
    provider_server.always = providers.Status(401)
    keyless = resolve(f"openai:llama@{provider_server.url}/v1", {"OPENAI_API_KEY": KEY})
    with pytest.raises(
        ModelRejected, match=r"wants a key, and none is set for it \(401\).*; set RLM_OPENAI_COMP"
    ) as caught:
        await keyless.generate(REQUEST)
    assert "refused" not in str(caught.value)
    env = {"RLM_OPENAI_COMPATIBLE_KEY": "k-1", "RLM_OPENAI_COMPATIBLE_KEY_HOST": provider_server.url}
    keyed = resolve(f"openai:llama@{provider_server.url}/v1", env)
    with pytest.raises(ModelRejected, match="the key in RLM_OPENAI_COMPATIBLE_KEY is refused"):
        await keyed.generate(REQUEST)
    await keyless.aclose()
    await keyed.aclose()


def _render(error: BaseException) -> str:
    """Return everything that a log, a crash report or a debugger would show of `error`, locals included."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(
            repr(trace.tb_frame.f_locals) if trace.tb_frame.f_code.co_filename.startswith(PACKAGE) else ""
        )
        trace = trace.tb_next
    return "\n".join([repr(error), str(error), *traceback.format_exception(error), *frames])


async def test_the_key_is_in_no_error_no_log_and_no_repr(make_model, provider_server, providers, caplog):
    """Plant a key, cause every kind of error, and search everything for the key."""
    caplog.set_level(logging.DEBUG)
    echo = f"you sent Authorization: Bearer {KEY} and x-api-key {KEY}"
    failing = [
        *(
            providers.Status(code, echo)
            for code in (400, 401, 402, 403, 404, 408, 409, 413, 429, 500, 529, 307)
        ),
        providers.Status(429, echo, "insufficient_quota"),
        providers.StreamError("overloaded_error", echo),
        providers.StreamError("invalid_request_error", echo),
        providers.Dropped(KEY),
        providers.Dropped(KEY, politely=True),
        providers.Raw(f"data: {{{KEY}\n\nevent: message_start\ndata: {{{KEY}\n\n".encode()),
        providers.Raw(echo.encode(), "text/html"),
        providers.Silence(KEY),
    ]
    model = make_model(provider_server.url, key=KEY, retry=QUICK, idle_seconds=0.1)
    for behaviour in failing:
        provider_server.always = behaviour
        with pytest.raises(ModelError) as caught:
            await model.generate(REQUEST)
        error = caught.value
        assert KEY not in _render(error)
        assert "PLANTED" not in str(error)
        # Nothing of the SDK is attached: its exceptions hold the request, and so the key.
        assert error.__cause__ is None
        assert error.__context__ is None
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    sent = [request.headers["authorization"] for request in provider_server.requests]
    assert sent
    assert set(sent) == {f"Bearer {KEY}"}  # the key was there to leak
    assert KEY not in caplog.text
    assert KEY not in repr(model) + repr(vars(model))


async def test_the_key_is_in_no_connection_error(make_model, caplog):
    caplog.set_level(logging.DEBUG)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(ModelError) as caught:
            await make_model(url, key=KEY, retry=QUICK).generate(REQUEST)
    assert KEY not in _render(caught.value) + caplog.text


@pytest.mark.parametrize("key", ["", "sk with blank", "sk-line\nbreak", "sk-ünicode", "sk-\x7f"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    """HTTP libraries quote an invalid header in their error, so such a key is refused before."""
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY holds a blank or a character") as caught:
        Endpoint("http://localhost", key, "OPENAI_API_KEY")
    assert not key or key not in str(caught.value)


def test_a_provider_s_words_are_cut_cleaned_and_on_one_line():
    mapper = ErrorMapper("openai:m", "m", Endpoint("http://h", "the-real-key", "OPENAI_API_KEY"))
    words = "one\r\n\x1b[31mtwo\u202e the-real-key sk-proj-abcdefgh12345 Bearer abcdefghijkl " + "x" * 500
    text = str(mapper.map_status(400, detail=words, headers={}).final(1, 0.0))
    assert "one [31mtwo *** *** ***" in text
    assert text.isprintable()
    assert len(text) < 400


async def test_the_value_of_a_user_s_header_is_in_no_error(make_model, provider_server, providers):
    """It may be a gateway's key, and a gateway may repeat it."""
    calls = CallSettings(headers={"X-Gateway": "a-gateway-s-secret", "X-Team": "law"})
    provider_server.always = providers.Status(400, "law: X-Gateway a-gateway-s-secret is unknown")
    with pytest.raises(ModelRejected, match=r"law: X-Gateway \*\*\* is unknown"):
        await make_model(provider_server.url, calls=calls).generate(REQUEST)


def test_a_group_of_connection_errors_is_looked_into():
    """A host with several addresses fails with an exception group."""
    mapper = ErrorMapper("openai:m", "m", Endpoint("http://localhost:9", "key", "OPENAI_API_KEY"))
    error = TransportFailure("unreachable")
    error.__cause__ = OSError("all failed")
    error.__cause__.__cause__ = ExceptionGroup("tried", [ConnectionRefusedError(), TimeoutError()])
    assert "nothing listens at localhost:9" in mapper.map_exception(error).what


ODD_ERRORS = [
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b'"no"',
    b'{"error": []}',
    b'{"error": "text"}',
    b'{"error": {"type": {"a": 1}, "message": ["m"], "code": [], "details": 3}}',
    b'{"type": "error", "error": {"type": 5, "message": 7, "code": 502.5, "details": {"error_code": {}}}}',
]


@pytest.mark.parametrize("code", [400, 500])
async def test_an_error_s_body_may_be_anything(make_model, provider_server, providers, code):
    """`generate` raises ModelError and no exception of a provider's library."""
    model = make_model(provider_server.url, retry=QUICK)
    for body in ODD_ERRORS:
        provider_server.always = providers.Raw(body, "application/json", code)
        with pytest.raises(ModelError):
            await model.generate(REQUEST)


@pytest.mark.parametrize(
    "data",
    [
        *(body.decode("latin-1") for body in ODD_ERRORS),
        "3",
        '{"choices": 5}',
        '{"choices": [{"delta": 5}, 6]}',
        '{"choices": [{"delta": {"content": ["x"]}}]}',
        '{"choices": [{"delta": {"content": "x"}, "finish_reason": {}}]}',
        '{"type": "message_start"}',
        '{"type": "message_start", "message": {"usage": 7}}',
        '{"type": "content_block_delta", "delta": {"type": "text_delta"}}',
        '{"type": "message_delta", "delta": {"stop_reason": []}, "usage": []}',
    ],
)
async def test_an_event_s_data_may_be_anything(make_model, provider_server, providers, data):
    model = make_model(provider_server.url, retry=QUICK)
    for event in ("", "event: message_start\n", "event: message_delta\n", "event: error\n"):
        provider_server.always = providers.Raw(f"{event}data: {data}\n\n".encode("latin-1"))
        with pytest.raises(ModelError):
            await model.generate(REQUEST)
