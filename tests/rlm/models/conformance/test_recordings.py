"""Test that every provider reads the recorded answers of its protocol, as the official SDK does.

The list of providers is the registry's. A provider with a protocol that has no recordings fails here: see
README.md for what it needs.
"""

from __future__ import annotations

import json

import pytest
from conformance_models import FRAMED, PROTOCOLS, VARIANTS, protocol_of
from official_sdks import READERS
from recorded_traffic import Recording, protocols, recordings

import rlm.errors
from rlm.errors import ModelError
from rlm.models.base import Message, Reply, Request, TokenUsage
from rlm.models.registry import PROVIDERS

KEY = "sk-PLANTED-key-0123456789"
REQUEST = Request("child", (Message("user", "hello"),), 1000, "task")
MAX_COUNT = 10**9

SHORT = {"plain", "tool_call", "usage_missing", "cut_before_the_end", "error_401", "error_context"}
"""For a provider that shares its protocol with another: what differs is how it is reached."""

FIRST = {protocol_of(variant): variant for variant in reversed(VARIANTS)}
CASES = [
    (variant, name, piece)
    for variant in VARIANTS
    for name in recordings(protocol_of(variant))
    for piece in (0, 3)
    if FIRST[protocol_of(variant)] == variant or (name in SHORT and not piece)
]


def check(reply: Reply, recording: Recording) -> None:
    expected = recording.expected
    assert reply.text == expected["text"]
    assert reply.finish_reason == expected["finish_reason"]
    assert reply.thinking == expected.get("thinking", "")
    check_usage(reply.usage, expected.get("usage"))
    if expected.get("tool_calls") != "any":
        calls = [[call.name, call.arguments] for call in reply.tool_calls]
        assert calls == expected.get("tool_calls", [])


def check_usage(usage: TokenUsage, expected: object) -> None:
    if isinstance(expected, dict):
        assert usage == TokenUsage(**expected)
    elif expected == "estimated":
        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
    else:
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens)
        assert all(isinstance(count, int) and 0 <= count <= 2 * MAX_COUNT for count in counts)


@pytest.mark.parametrize(("variant", "name", "piece"), CASES)
async def test_a_recorded_answer_is_read(make_provider, provider_server, variant, name, piece):
    """Text, end, thinking, calls and tokens; or one error that names no key, sent again only where it may
    help."""
    recording = recordings(protocol_of(variant))[name]
    provider_server.always = recording.played(key=KEY, piece=piece)
    model = make_provider(variant, provider_server.url, key=KEY)
    expected = recording.expected
    if "error" not in expected:
        check(await model.generate(REQUEST), recording)
        assert len(provider_server.requests) == 1
        return
    with pytest.raises(ModelError) as caught:
        await model.generate(REQUEST)
    message = str(caught.value)
    assert type(caught.value) is getattr(rlm.errors, expected["error"]), message
    assert message.startswith(f"{model.name}: ")
    assert expected.get("says", "") in message
    assert KEY not in message + repr(caught.value)
    assert "\n" not in message
    if expected.get("retries"):
        assert len(provider_server.requests) > 1
    if expected["error"] == "ModelRejected":
        assert len(provider_server.requests) == 1


def test_every_provider_of_the_registry_is_here():
    assert {one.partition(":")[0] for one in VARIANTS} | FRAMED == set(PROVIDERS)
    assert set(PROTOCOLS.values()) == set(protocols())


SDK_CASES = [
    (protocol, name)
    for protocol in protocols()
    if protocol in READERS
    for name, recording in recordings(protocol).items()
    if "error" not in recording.expected and "sdk" not in recording.expected
]


@pytest.mark.parametrize(("protocol", "name"), SDK_CASES)
async def test_the_official_sdk_reads_the_same(make_provider, provider_server, protocol, name):
    """The same bytes to both: text, end, calls, thinking and each count of tokens."""
    recording = recordings(protocol)[name]
    provider_server.always = recording.played()
    official = await READERS[protocol](provider_server.url, whole="whole" in recording.expected)
    ours = await make_provider(FIRST[protocol], provider_server.url, key=KEY).generate(REQUEST)
    assert (ours.text, ours.finish_reason) == (official.text, official.finish_reason)
    assert ours.thinking == official.thinking
    assert _calls(ours) == _calls(official)
    if recording.expected["usage"] != "estimated":
        assert ours.usage == official.usage
    assert (ours.response_id, ours.model) == (official.response_id, official.model)


def _calls(reply: Reply) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


SDK_REFUSES = [
    (protocol, name)
    for protocol in protocols()
    if protocol in READERS
    for name, recording in recordings(protocol).items()
    if "error" in recording.expected and "sdk" not in recording.expected
]


@pytest.mark.parametrize(("protocol", "name"), SDK_REFUSES)
async def test_what_we_refuse_the_official_sdk_refuses(provider_server, protocol, name):
    recording = recordings(protocol)[name]
    provider_server.always = recording.played(key="k")
    with pytest.raises(Exception):  # noqa: B017, PT011  (each SDK has its own)
        await READERS[protocol](provider_server.url, whole="whole" in recording.expected)
