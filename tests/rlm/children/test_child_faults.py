"""Test children of whole runs against a failing provider: nothing is lost or asked twice."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from rlm import Limits, RunResult
from rlm.models.providers.anthropic import AnthropicModel
from rlm.models.providers.openai import OpenAIModel
from rlm.testing import ScriptedModel

ASK_ALL = """
answers = sub_query_batch("Which part is this?", list(chunk(max_chars=40)))
finalize([str(answer) for answer in answers])
"""


def _part(prompt: str) -> int:
    found = re.search(r"part-(\d+)-", prompt)
    assert found is not None
    return int(found[1])


def _body(parts: int) -> str:
    return "".join(f"part-{n}-".ljust(39, ".") + "\n" for n in range(parts))


class Faults:
    """A provider's behaviour: each part of the body fails in one way before it is answered. Counts every
    answer.
    """

    def __init__(self, providers, *ways) -> None:
        self._providers = providers
        self._ways = ways
        self.asked: Counter[int] = Counter()
        self.answered: Counter[int] = Counter()

    def __call__(self, received):
        part = _part(received.prompt)
        self.asked[part] += 1
        way = self._ways[part % len(self._ways)]
        if way is not None and self.asked[part] == 1:
            return way
        self.answered[part] += 1
        return self._providers.Answer(f"part {part}")


async def _run(run, block, model, parts: int, **limits) -> RunResult:
    limits = Limits(**{"sub_calls": parts + 10, **limits})
    return await run(
        ScriptedModel.of(root=[block(ASK_ALL)]), _body(parts), sub_model=model, limits=limits, task="Which?"
    )


@pytest.fixture
def faults(providers):
    return Faults(
        providers,
        None,
        providers.Status(429, headers={"retry-after": "0.05"}),
        None,
        providers.Status(500),
        providers.Dropped(),
        providers.StreamError(),
        None,
        providers.Silence(),
    )


async def test_faults_lose_nothing_and_ask_nothing_twice(run, block, make_model, provider_server, faults):
    """After 429, 500, a dropped connection, an overload in mid-stream or silence, all are answered once, in
    order.
    """
    provider_server.always = faults
    model: AnthropicModel | OpenAIModel = make_model(provider_server.url, idle_seconds=0.5)
    result = await _run(run, block, model, 40)
    assert result.answer == [f"part {n}" for n in range(40)]
    assert set(faults.answered.values()) == {1}
    assert result.coverage.complete
    assert max(faults.asked.values()) == 2


async def test_an_unknown_price_is_reported_with_its_remedy(
    run, block, make_model, provider_server, providers
):
    """The warning names the model, and the token cap holds."""
    provider_server.always = providers.Answer("part 0")
    model = make_model(provider_server.url)
    result = await _run(run, block, model, 1)
    note = result.warnings[-1]
    assert note.startswith(f"the price of {model.name} is not known: the cost limit was not applied, only")
    assert "rlm.toml takes prices" in note


async def test_a_provider_that_says_slower_is_sent_less_at_a_time(
    run, block, make_model, provider_server, providers
):
    """A 429 halves the concurrency, and all calls wait for its Retry-After."""
    times: list[float] = []

    def refuse_the_first(received):
        times.append(received.at)
        return (
            providers.Status(429, headers={"retry-after": "0.5"}) if len(times) <= 16 else providers.Answer()
        )

    provider_server.always = refuse_the_first
    result = await _run(run, block, make_model(provider_server.url), 24)
    assert result.answer == ["ok"] * 24
    # Sixteen calls were in flight. Every call after the first refusal waits for half a second.
    assert times[16] - times[0] >= 0.49
    assert len(times) == 16 + 24


async def test_the_same_call_again_asks_only_those_that_failed(
    run, block, make_model, provider_server, providers
):
    """After a partial success the same call pays only for the failed slots."""
    asked: Counter[int] = Counter()

    def refuse_some(received):
        part = _part(received.prompt)
        asked[part] += 1
        return providers.Status(400, "bad") if part % 5 == 0 and asked[part] == 1 else providers.Answer("yes")

    provider_server.always = refuse_some
    code = """
slices = list(chunk(max_chars=40))
first = sub_query_batch("Which part is this?", slices)
again = sub_query_batch("Which part is this?", slices)
finalize([first.failed, again.failed, sum(answer.cached for answer in again)])
"""
    result = await run(
        ScriptedModel.of(root=[block(code)]), _body(20), sub_model=make_model(provider_server.url), task="?"
    )
    assert result.answer == [[0, 5, 10, 15], [], 16]
    assert sum(asked.values()) == 24
    assert result.coverage.complete


async def test_waiting_for_children_is_not_the_cells_time(run, block, make_model, provider_server, providers):
    provider_server.always = lambda received: providers.Answer("late", delay=1.5)
    result = await _run(run, block, make_model(provider_server.url), 2, cell_seconds=1.0)
    assert result.answer == ["late", "late"]
