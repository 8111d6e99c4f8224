"""Test that calls are gathered into batches, and that each gets its own reply at half the price."""

from __future__ import annotations

import asyncio
import json

import pytest
from batch_server import ask

from rlm.errors import ConfigurationError, ModelProtocolError, ModelRejected, ModelUnavailable
from rlm.models.base import TokenUsage
from rlm.models.call_settings import CallSettings
from rlm.models.catalog.info import ModelInfo, Prices
from rlm.models.http.batches import BatchApi, batch_api_of
from rlm.models.resolution import resolve
from rlm.models.slow_model import make_slow


async def test_calls_are_gathered_into_one_batch_and_get_their_own_replies(slow, batch_server, providers):
    """The results come in another order than the requests."""
    batch_server.always = lambda request: providers.Answer(f"re {request.prompt}", usage=(11, 7, 0))
    batch_server.on_lines = lambda lines: lines[::-1]
    model = slow()
    replies = await asyncio.gather(*(model.generate(ask(f"q{number}")) for number in range(40)))
    assert [reply.text for reply in replies] == [f"re q{number}" for number in range(40)]
    assert {reply.usage for reply in replies} == {TokenUsage(11, 7)}
    assert {reply.finish_reason for reply in replies} == {"stop"}
    (batch,) = batch_server.created
    assert {reply.batch for reply in replies} == {batch.id}
    assert set(batch_server.billed.values()) == {1}
    system = next(iter(batch.entries.values()))
    assert "be brief" in str(system)


async def test_thinking_and_a_cut_reply_are_read_as_in_a_stream(slow, batch_server, providers):
    batch_server.always = providers.Answer("half", finish="length", reasoning="hm")
    reply = await slow().generate(ask("q"))
    assert (reply.text, reply.finish_reason) == ("half", "length")


async def test_a_batch_has_the_settings_of_the_calls(slow, batch_server):
    model = slow(calls=CallSettings(body={"top_p": 0.7}))
    await model.generate(ask("q"))
    (batch,) = batch_server.created
    (entry,) = batch.entries.values()
    body = entry.get("body") or entry.get("params") or entry
    assert body["top_p"] == 0.7


async def test_a_batch_is_split_at_the_limits_of_requests_and_bytes(slow, batch_server, monkeypatch):
    model = slow()
    monkeypatch.setattr(type(model.api), "max_requests", 3)
    await asyncio.gather(*(model.generate(ask(f"q{number}")) for number in range(8)))
    assert sorted(len(batch.entries) for batch in batch_server.created) == [2, 3, 3]
    monkeypatch.setattr("rlm.models.slow_model._MAX_BYTES", 3_200)
    await asyncio.gather(*(model.generate(ask(f"{number}" * 1_000)) for number in range(4)))
    assert [len(batch.entries) for batch in batch_server.created[3:]] == [2, 2]
    with pytest.raises(ModelProtocolError, match="larger than a batch may be"):
        await model.generate(ask("x" * 4_000))
    assert len(batch_server.created) == 5


async def test_the_same_call_of_a_run_is_sent_once_and_that_of_another_run_again(slow, batch_server):
    model = slow()
    requests = [ask("q"), ask("q"), ask("q", sample=1), ask("q", run="run/part"), ask("q", run="other/")]
    await asyncio.gather(*map(model.generate, requests))
    assert batch_server.calls == 4


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("errored", ModelRejected, "refuses the request"),
        ("expired", ModelUnavailable, "expired"),
        ("canceled", ModelUnavailable, "cancelled"),
        ("absent", ModelProtocolError, "without a result"),
    ],
)
async def test_a_request_that_has_no_reply_fails_alone_and_is_sent_again_when_asked_again(
    slow, batch_server, kind, error, words
):
    batch_server.outcome = lambda request: kind if request.prompt == "bad" else None
    model = slow()
    outcomes = await asyncio.gather(
        *(model.generate(ask(prompt)) for prompt in ("one", "bad", "two")), return_exceptions=True
    )
    assert [outcomes[0].text, outcomes[2].text] == ["ok", "ok"]
    assert isinstance(outcomes[1], error)
    assert words in str(outcomes[1])
    batch_server.outcome = lambda _: None
    assert (await model.generate(ask("bad"))).text == "ok"
    assert set(batch_server.billed.values()) == {1}


async def test_a_request_that_failed_for_a_reason_that_passes_is_sent_in_another_batch(slow, batch_server):
    asked: list[str] = []

    def outcome(request):
        asked.append(request.prompt)
        return "server_error" if asked.count("bad") == 1 and request.prompt == "bad" else None

    batch_server.outcome = outcome
    model = slow()
    replies = await asyncio.gather(*(model.generate(ask(prompt)) for prompt in ("one", "bad")))
    assert [reply.text for reply in replies] == ["ok", "ok"]
    assert [len(batch.entries) for batch in batch_server.created] == [2, 1]


async def test_a_batch_that_fails_as_a_whole_fails_its_calls(slow, batch_server):
    if slow.protocol == "anthropic":
        pytest.skip("Message Batches fail by request")
    batch_server.fails = "model_not_found"
    with pytest.raises(ModelRejected, match="the batch is no good"):
        await slow().generate(ask("q"))
    batch_server.fails = "token_limit_exceeded"
    with pytest.raises(ModelUnavailable, match="limits the rate"):
        await slow().generate(ask("q"))
    assert len(batch_server.created) == 4  # three attempts: the queue may have room later
    batch_server.fails = ""
    assert (await slow().generate(ask("q"))).text == "ok"


async def test_creating_and_polling_are_retried(slow, batch_server, providers):
    batch_server.refuse.extend([providers.Status(429, headers={"retry-after": "0"}), providers.Status(529)])
    batch_server.refuse_polls.extend([providers.Status(500), providers.Dropped(""), providers.Status(429)])
    assert (await slow().generate(ask("q"))).text == "ok"
    assert batch_server.calls == 1


async def test_a_batch_whose_creation_was_not_confirmed_is_sent_again(slow, batch_server):
    batch_server.lose = 1
    assert (await slow().generate(ask("q"))).text == "ok"
    assert len(batch_server.created) == 2


async def test_a_refused_batch_fails_its_calls_and_is_not_remembered(slow, batch_server, providers):
    batch_server.refuse.append(providers.Status(401, kind="authentication_error"))
    with pytest.raises(ModelRejected, match="_API_KEY"):
        await slow().generate(ask("q"))
    assert (await slow().generate(ask("q"))).text == "ok"


async def test_a_batch_that_the_provider_does_not_know_is_named(slow, batch_server, providers):
    batch_server.refuse_polls.append(providers.Status(404, kind="not_found_error"))
    with pytest.raises(ModelRejected, match="batch_0 is not known to the provider"):
        await slow().generate(ask("q"))
    assert (await slow().generate(ask("q"))).text == "ok"  # the same batch, with the right key
    assert len(batch_server.created) == 1


async def test_a_download_that_breaks_off_is_repeated_and_nothing_is_lost(slow, batch_server):
    batch_server.cut = 2
    model = slow()
    replies = await asyncio.gather(*(model.generate(ask(f"q{number}")) for number in range(20)))
    assert len(replies) == 20
    assert set(batch_server.billed.values()) == {1}


async def test_hostile_lines_of_results_are_skipped(slow, batch_server):
    """Garbage, other ids, second results, a line larger than any reply: the true results still arrive."""

    def spoil(lines):
        forged = [line.replace(b'"ok"', b'"forged"') for line in lines]
        foreign = [forged[0].replace(b'"custom_id": "', b'"custom_id": "x')]
        deep = [b'{"custom_id":' + b"[" * 100_000]
        return [
            b"\xff\xfe",
            b"null",
            b"[]",
            b'{"custom_id": 7}',
            *deep,
            *foreign,
            b"x" * 5_000_000,
            *lines,
            *forged,
        ]

    batch_server.on_lines = spoil
    model = slow()
    replies = await asyncio.gather(*(model.generate(ask(f"q{number}", most=30_000)) for number in range(3)))
    assert {reply.text for reply in replies} == {"ok"}


@pytest.mark.parametrize(
    "record", [b'{"custom_id": "KEY"}', b'{"custom_id": "KEY", "result": [], "response": 3}']
)
async def test_a_line_that_holds_no_result_fails_its_call(slow, batch_server, record):
    batch_server.on_lines = lambda lines: [record.replace(b"KEY", _key_of(line)) for line in lines]
    with pytest.raises(ModelProtocolError):
        await slow().generate(ask("q"))


async def test_results_without_end_are_given_up(slow, batch_server, monkeypatch):
    monkeypatch.setattr("rlm.models.slow_model._RESULT_BYTES", 1_000)
    batch_server.on_lines = lambda lines: [b"{}"] * 100_000
    with pytest.raises(ModelProtocolError, match="more than"):
        await slow().generate(ask("q"))


async def test_the_progress_counts_the_requests_of_all_batches(slow, batch_server, progress, monkeypatch):
    batch_server.polls = 3
    monkeypatch.setattr("rlm.models.slow_model._FIRST_POLL", 0.3)
    model = slow()
    monkeypatch.setattr(type(model.api), "max_requests", 2)
    await asyncio.gather(*(model.generate(ask(f"q{number}")) for number in range(4)))
    assert max(one.total for one in progress) == 4
    assert {name for one in progress for name in one.batches} == {batch.id for batch in batch_server.created}
    assert all(0 <= one.done <= one.total and one.seconds >= 0 for one in progress)


async def test_a_call_that_is_cancelled_before_its_batch_is_sent_is_not_sent(slow, batch_server, monkeypatch):
    monkeypatch.setattr("rlm.models.slow_model._IDLE_SECONDS", 0.2)
    model = slow()
    calls = [asyncio.ensure_future(model.generate(ask(f"q{number}"))) for number in range(3)]
    await asyncio.sleep(0.05)
    calls[1].cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert batch_server.calls == 2


async def test_a_call_that_is_cancelled_in_its_batch_is_collected_when_asked_again(slow, batch_server):
    batch_server.hold()
    model = slow()
    waiting = asyncio.ensure_future(model.generate(ask("q")))
    while not batch_server.created:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await model.aclose()
    batch_server.release()
    assert (await slow().generate(ask("q"))).text == "ok"
    assert len(batch_server.created) == 1


async def test_a_root_is_known_by_its_round_and_not_by_the_seconds_in_its_last_message(slow, batch_server):
    model = slow()
    await model.generate(ask("Left: 5,000 s", role="root", round=1))
    await model.generate(ask("Left: 4,000 s", role="root", round=1))
    await model.generate(ask("Left: 4,000 s", role="root", round=2))
    assert batch_server.calls == 2


async def test_a_price_is_half_of_the_listed_one_also_where_it_is_the_users(slow):
    model = slow()
    facts = {model.name: ModelInfo(input_price=1.0, output_price=2.0)}
    usage = TokenUsage(1_000_000, 1_000_000)
    assert Prices(facts).of(model, usage) == 1.5
    assert Prices(facts).of(model.inner, usage) == 3.0


@pytest.mark.parametrize("name", ["extractive", "openai:m@http://127.0.0.1:1/v1"])
def test_a_model_without_a_batch_api_is_refused_by_name(name, tmp_path):
    with pytest.raises(ConfigurationError, match=r"has no batch API.* anthropic:NAME, openai:NAME"):
        make_slow(resolve(name, {}), tmp_path / "rlm.db", print, print)


def test_a_batch_of_a_model_that_thinks_goes_to_the_api_of_its_bodies():
    """OpenAI's models that think speak the Responses API."""
    api = batch_api_of(resolve("openai:gpt-6.1-sol", {"OPENAI_API_KEY": "k"}))
    entry = json.loads(api.encode("id", ask("q")))
    assert (entry["url"], "input" in entry["body"]) == ("/v1/responses", True)


def _key_of(line: bytes) -> bytes:
    return line.partition(b'"custom_id": "')[2][:64]


async def test_a_call_that_is_asked_again_while_its_batch_is_read_gets_its_reply(
    slow, batch_server, monkeypatch
):
    """The first caller is gone, and the results that are being read were asked for by it."""
    model = slow()
    again: list[asyncio.Future] = []
    read = BatchApi.reply

    def reply(api, record, request):
        if not again:
            first.cancel()
            again.append(asyncio.ensure_future(model.generate(ask("q"))))
        return read(api, record, request)

    monkeypatch.setattr(BatchApi, "reply", reply)
    first = asyncio.ensure_future(model.generate(ask("q")))
    await asyncio.gather(first, return_exceptions=True)
    async with asyncio.timeout(10):
        assert (await again[0]).text == "ok"
    assert len(batch_server.created) == 1
