"""Test retries against a real server that fails first and answers later."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from rlm.errors import ModelUnavailable
from rlm.models.base import Message, ReplyListener, Request
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.errors import AttemptFailure, ErrorMapper
from rlm.models.http.rate_limit import Limiter
from rlm.models.http.retry import with_retries
from rlm.models.options import RetryPolicy

REQUEST = Request("child", (Message("user", "hello"),), 100, "task")
MAPPER = ErrorMapper("openai:m", "m", Endpoint("http://localhost:9/v1", "key", "OPENAI_API_KEY"))


def heard(notices: list[tuple[object, ...]]) -> Request:
    return replace(REQUEST, listener=ReplyListener(on_retry=lambda *notice: notices.append(notice)))


@pytest.fixture
def notices():
    return []


@pytest.fixture
def model(make_model, provider_server):
    return make_model(provider_server.url)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (408, "timeout"),
        (409, "conflict"),
        (429, "rate_limited"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "overloaded"),
        (529, "overloaded"),
    ],
)
async def test_a_status_that_may_pass_is_tried_again(
    *, model, provider_server, providers, notices, code, reason
):
    """408, 409, 429 and 500 and above are retried, and `on_retry` is called."""
    provider_server.play(providers.Status(code), providers.Status(code))
    assert (await model.generate(heard(notices))).text == "ok"
    assert len(provider_server.requests) == 3
    assert [(attempt, why) for attempt, _, why in notices] == [(1, reason), (2, reason)]


async def test_retry_after_in_seconds_is_waited_for(model, provider_server, providers, notices):
    """Retry-After is honoured."""
    provider_server.play(providers.Status(429, headers={"retry-after": "0.3"}))
    await model.generate(heard(notices))
    first, second = provider_server.requests
    assert second.at - first.at >= 0.3
    assert 0.3 <= notices[0][1] < 0.31


async def test_retry_after_is_capped(make_model, provider_server, providers, notices):
    policy = RetryPolicy(base=0, retry_after_cap=0.1)
    model = make_model(provider_server.url, retry=policy)
    provider_server.play(providers.Status(503, headers={"Retry-After": "86400"}))
    await model.generate(heard(notices))
    assert notices == [(1, 0.1, "overloaded")]


@pytest.mark.parametrize(
    ("headers", "low", "high"),
    [
        ({"retry-after": "7"}, 7, 7),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5, 1.5),
        ({"retry-after": "IN AN HOUR"}, 3500, 3600),
        ({"retry-after": "AN HOUR AGO"}, None, None),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": "-3"}, None, None),
        ({"retry-after": "0"}, None, None),
        ({"retry-after": "9" * 400}, None, None),
        ({"retry-after-ms": "nan"}, None, None),
        ({}, None, None),
    ],
)
def test_retry_after_in_all_its_forms(headers, low, high):
    """Seconds, milliseconds or an HTTP date; nonsense counts as absent."""
    now = datetime.now(UTC)  # computed now: the cases are written long before they are tried
    dates = {
        "IN AN HOUR": format_datetime(now + timedelta(hours=1), usegmt=True),
        "AN HOUR AGO": format_datetime(now - timedelta(hours=1), usegmt=True),
    }
    given = {name: dates.get(value, value) for name, value in headers.items()}
    asked = MAPPER.map_status(429, headers=given).retry_after
    if low is None:
        assert asked is None
    else:
        assert low <= asked <= high


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("overloaded_error", "overloaded"),
        ("api_error", "server_error"),
        ("rate_limit_error", "rate_limited"),
        ("something_new", "server_error"),
        ("502", "server_error"),
    ],
)
async def test_an_error_within_the_stream_is_tried_again(
    *, model, provider_server, providers, notices, kind, reason
):
    """Mid-stream overloads are retried, though their HTTP status is 200."""
    provider_server.play(providers.StreamError(kind))
    assert (await model.generate(heard(notices))).text == "ok"
    assert [why for _, _, why in notices] == [reason]


async def test_no_attempt_begins_after_the_total(make_model, provider_server, providers, notices):
    provider_server.always = providers.Status(429, headers={"retry-after": "0.2"})
    policy = RetryPolicy(attempts=99, base=0, total=0.5)
    model = make_model(provider_server.url, retry=policy)
    with pytest.raises(ModelUnavailable, match="limits the rate"):
        await model.generate(heard(notices))
    assert [wait for _, wait, _ in notices] in ([0.2], [0.2, 0.2])
    assert len(provider_server.requests) == len(notices) + 1


@pytest.fixture
def closed_port():
    """A port at which nothing listens: bound, so that nobody else takes it, but not listening."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()[1]


async def test_nobody_listening_is_given_up_early(make_model, closed_port, notices):
    """Connection refused before any success: at most 3 attempts and 10 seconds."""
    url = f"http://127.0.0.1:{closed_port}"
    model = make_model(url)
    with pytest.raises(ModelUnavailable) as caught:
        await model.generate(heard(notices))
    assert f"nothing listens at 127.0.0.1:{closed_port} (3 attempts in" in str(caught.value)
    assert str(caught.value).endswith("; start the server there, or correct the base URL")
    assert [(attempt, why) for attempt, _, why in notices] == [(1, "unreachable"), (2, "unreachable")]


async def test_a_server_that_goes_away_after_an_answer_is_waited_for(make_model, providers, notices):
    """A restart in the middle of a run is not the same as a wrong address."""
    policy = RetryPolicy(attempts=5, base=0.001, cap=0.001)
    with providers.ProviderServer() as server:
        model = make_model(server.url, retry=policy)
        assert (await model.generate(heard(notices))).text == "ok"
    with pytest.raises(ModelUnavailable, match="5 attempts"):
        await model.generate(heard(notices))
    assert len(notices) == 4


async def test_an_unknown_host_is_named(make_model):
    model = make_model("http://no-such-host.invalid:99", retry=RetryPolicy(base=0, cap=0))
    with pytest.raises(ModelUnavailable, match=r"the host of no-such-host\.invalid:99 is not known"):
        await model.generate(REQUEST)


async def test_cancelling_ends_a_wait_at_once():
    """Cancellation passes through: no further attempt, no other exception."""
    waiting = asyncio.Event()
    attempts = []

    async def attempt():
        attempts.append(1)
        return AttemptFailure(ModelUnavailable, "busy", "wait", "overloaded", retry_after=50)

    task = asyncio.create_task(
        with_retries(
            attempt,
            RetryPolicy(),
            limiter=Limiter(16),
            has_answered=lambda: True,
            on_retry=lambda *_: waiting.set(),
        )
    )
    await asyncio.wait_for(waiting.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 1)
    assert attempts == [1]
