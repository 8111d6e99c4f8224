"""What the requests of a run share at their start, and how long a provider is asked to keep it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from rlm.driver import cache_lifetime
from rlm.driver.cache_lifetime import CacheLifetime
from rlm.models.base import Message, Request, TokenUsage
from rlm.models.catalog.info import price
from rlm.models.http.endpoint import Endpoint
from rlm.models.http.wire_messages import with_openai_cache
from rlm.models.options import ModelOptions
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.testing import ScriptedModel

BODY = "".join(f"Invoice {n}: paid {n * 3} euros by firm {n}.\n" for n in range(40))
BATCH = """\
found = sub_query_batch({task!r}, [(line.start, line.end) for line in read_lines()])
finalize(len(found))"""


async def test_forty_children_share_their_instructions_and_their_task(run, block, provider_server) -> None:
    """All that is the same stands before the slice, and the border of the cache is between them."""
    model = AnthropicModel("claude-haiku-4-5", Endpoint(provider_server.url, "key", "ANTHROPIC_API_KEY"))
    task = "List the amounts of this invoice."
    root = ScriptedModel.of(root=[block(BATCH.format(task=task))])
    result = await run(root, BODY, sub_model=model)
    assert result.answer == 40
    sent = [request.body for request in provider_server.requests]
    systems = {one["system"][0]["text"] for one in sent}
    (system,) = systems
    assert task.strip() in system
    assert all(one["system"][-1]["cache_control"] == {"type": "ephemeral"} for one in sent)
    users = [one["messages"][0]["content"][0]["text"] for one in sent]
    # What differs begins with the first line of the user's message, which holds the code of the slice.
    assert len({user[:30] for user in users}) == 40
    assert len(system) > 1_000


async def test_a_long_task_over_short_slices_is_shared_too(run, block, provider_server) -> None:
    """A code book over 40 lines: the cache can keep what all children read. A child is reminded of it."""
    model = AnthropicModel("claude-haiku-4-5", Endpoint(provider_server.url, "key", "ANTHROPIC_API_KEY"))
    task = "Put each invoice into one class. " + "Class 7 is for fees of any kind. " * 200
    root = ScriptedModel.of(root=[block(BATCH.format(task=task))])
    assert (await run(root, BODY, sub_model=model)).answer == 40
    sent = [request.body for request in provider_server.requests]
    (system,) = {one["system"][0]["text"] for one in sent}
    assert task.strip() in system
    users = [one["messages"][0]["content"][0]["text"] for one in sent]
    assert all("It begins: Put each invoice into one class." in user and len(user) < 800 for user in users)


def with_clock(monkeypatch, *times: float) -> None:
    clock = iter(times)
    monkeypatch.setattr(cache_lifetime.time, "monotonic", lambda: next(clock))


MESSAGES = (
    Message("system", "rules", stable=True),
    Message("user", "task"),
    Message("user", "x", stable=True),
)


@pytest.mark.parametrize(
    ("calls", "times", "is_long"),
    [
        (10, [0.0, 60.0, 120.0], [False, False, False]),
        (10, [0.0, 60.0, 400.0, 410.0], [False, False, True, True]),
        (1_000, [0.0, 10.0], [True, True]),
    ],
)
def test_the_roots_cache_is_kept_for_long_when_a_round_takes_long(monkeypatch, calls, times, is_long) -> None:
    """A pass of 1,000 children, 16 at a time, takes over five minutes."""
    with_clock(monkeypatch, *times)
    lifetime = CacheLifetime(calls, 16)
    for expected in is_long:
        assert [one.long_lived for one in lifetime.mark(MESSAGES)] == [expected, False, expected]


async def test_anthropic_is_asked_to_keep_long_lived_prefixes_for_an_hour(provider_server, providers) -> None:
    """What it wrote for an hour is told apart, as its price is."""
    model = AnthropicModel("claude-haiku-4-5", Endpoint(provider_server.url, "key", "ANTHROPIC_API_KEY"))
    provider_server.play(providers.Answer(usage=(1_000, 5, 800), kept_1h=300))
    messages = (Message("system", "rules", stable=True, long_lived=True), Message("user", "go"))
    reply = await model.generate(Request("root", messages, 100, "task"))
    await model.aclose()
    (sent,) = provider_server.requests
    assert sent.body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in sent.body["messages"][0]["content"][0]
    assert (reply.usage.cache_write_tokens, reply.usage.cache_write_1h_tokens) == (400, 300)


@pytest.mark.parametrize(
    ("url", "has_key"), [("https://api.openai.com/v1", True), ("http://127.0.0.1:9/v1", False)]
)
def test_openai_gets_a_key_for_what_requests_share(url, has_key) -> None:
    """Other servers may refuse a field that they do not know."""
    model = OpenAIModel("gpt-5-mini", Endpoint(url, "key", "OPENAI_API_KEY"), options=ModelOptions())
    rules = "Read carefully. " * 300

    def fields(*messages: Message) -> dict[str, object]:
        body = model.body(Request("child", messages, 100, "task"))
        return {name: value for name, value in body.items() if name.startswith("prompt_cache")}

    one = fields(Message("system", rules, stable=True), Message("user", "slice 1"))
    two = fields(Message("system", rules, stable=True), Message("user", "slice 2"))
    other = fields(Message("system", rules + "Answer in JSON.", stable=True), Message("user", "slice 1"))
    assert one == two
    if not has_key:
        assert one == other == {}
        return
    assert re.fullmatch("[0-9a-f]{32}", str(one["prompt_cache_key"]))
    assert one != other
    assert fields(Message("system", "too short to be cached", stable=True)) == {}


@pytest.mark.parametrize("model", ["gpt-5.6-sol", "gpt-6.1-sol", "gpt-10"])
def test_a_model_that_charges_for_writing_is_told_what_is_repeated(model) -> None:
    """Else it would write every slice to its cache, for a quarter more than the slice costs."""
    messages = [
        Message("system", "rules " * 1_000, stable=True),
        Message("user", "a slice that no other request has"),
    ]
    body = {"model": model, "messages": [{"role": one.role, "content": one.content} for one in messages]}
    sent = with_openai_cache(body, messages)
    assert sent["prompt_cache_options"] == {"mode": "explicit"}
    assert sent["messages"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert sent["messages"][1] == body["messages"][1]
    kept = with_openai_cache(body, [replace(messages[0], long_lived=True), messages[1]])
    assert kept["messages"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit", "ttl": "12h"}


def test_an_earlier_model_writes_for_nothing_and_is_told_nothing() -> None:
    messages = [Message("system", "rules " * 1_000, stable=True)]
    body = {"model": "gpt-5-mini", "messages": [{"role": "system", "content": messages[0].content}]}
    assert with_openai_cache(body, messages).keys() == {"model", "messages", "prompt_cache_key"}


async def test_what_openai_wrote_to_its_cache_is_charged(provider_server, providers) -> None:
    model = OpenAIModel("m", Endpoint(f"{provider_server.url}/v1", "key", "OPENAI_API_KEY"))
    provider_server.play(providers.Answer(usage=(1_000, 5, 200), written=700))
    reply = await model.generate(Request("child", (Message("user", "go"),), 100, "task"))
    await model.aclose()
    assert (reply.usage.cached_tokens, reply.usage.cache_write_tokens) == (200, 700)
    plain = price("openai:gpt-6.1-sol", TokenUsage(1_000))
    written = price("openai:gpt-6.1-sol", TokenUsage(1_000, cache_write_tokens=1_000))
    assert plain is not None
    assert written == pytest.approx(1.25 * plain)
