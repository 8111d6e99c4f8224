"""Budgets of keys, the fair queue, and the figures."""

from __future__ import annotations

import asyncio

import openai
import pytest

from rlm.errors import UsageError
from rlm.journal import Journal
from rlm.journal.served import KeyStore
from rlm.models.base import Reply, TokenUsage
from rlm.models.catalog.overrides import ModelFacts
from rlm.models.offline.scripted import ScriptedModel
from rlm.server.errors import ApiError
from rlm.server.work.queue import FairQueue

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
BODY = {"task": "What does the crane cost?", "context": NOTES}
TEXT = '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'
PRICED = {"scripted:memory": ModelFacts(input_price=1.0, output_price=10.0)}


async def test_a_budget_ends_what_a_user_can_spend(server) -> None:
    """100,000 tokens at a dollar a million are ten cents a run."""
    model = ScriptedModel.of(direct=lambda _: Reply(TEXT, "stop", TokenUsage(100_000, 0)))
    async with server(model, settings={"facts": PRICED}, keys=("boss",)) as served:
        async with Journal.open(served.store) as journal:
            _, alice = await KeyStore(journal).add("alice", day_usd=0.25)
        client = served.openai(alice)
        asked = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]
        for _ in range(2):
            await client.chat.completions.create(model="rlm", messages=asked)
        async with served.http(alice) as http, http.get("/v1/usage") as reply:
            usage = await reply.json()
        assert usage["day_usd"] == pytest.approx(0.2)
        assert (usage["day_budget_usd"], usage["reserved_usd"]) == (0.25, 0.0)
        # The third may cost no more than what is left. A call that could cost more is not sent.
        with pytest.raises(openai.APIStatusError):
            await client.chat.completions.create(model="rlm", messages=asked)
        async with served.http(alice) as http, http.get("/v1/usage") as reply:
            assert (await reply.json())["day_usd"] <= 0.35
        await served.openai().chat.completions.create(model="rlm", messages=asked)


async def test_an_empty_budget_is_refused_before_anything_is_asked(server) -> None:
    model = ScriptedModel.of(direct=TEXT)
    async with server(model, keys=("boss",)) as served:
        async with Journal.open(served.store) as journal:
            _, alice = await KeyStore(journal).add("alice", month_usd=0.0)
        with pytest.raises(openai.RateLimitError) as refused:
            await served.openai(alice, max_retries=2).chat.completions.create(
                model="rlm", messages=[{"role": "user", "content": "What is this?"}]
            )
        assert refused.value.code == "insufficient_quota"
        assert model.requests == []


async def test_runs_that_reserve_the_budget_let_others_wait(server) -> None:
    """Two runs at a time, and a budget for one: the second waits and is not refused."""
    model = ScriptedModel.of(direct=TEXT)
    async with server(model, settings={"facts": PRICED}, keys=("boss",)) as served:
        async with Journal.open(served.store) as journal:
            _, alice = await KeyStore(journal).add("alice", day_usd=1.0)
        async with served.http(alice) as http:
            runs = []
            for _ in range(3):
                async with http.post("/v1/runs", json=BODY) as reply:
                    runs.append((await reply.json())["id"])
            for run in runs:
                assert (await served.ended(http, run))["status"] == "finished"


@pytest.mark.parametrize("user", ["", "a b", "../x", "a\n", "-x", "x" * 65])
async def test_names_of_users(tmp_path, user) -> None:
    async with Journal.open(tmp_path / "x.db") as journal:
        with pytest.raises(UsageError, match="is no name"):
            await KeyStore(journal).add(user)


async def test_no_key_is_of_the_user_of_the_start(tmp_path) -> None:
    """A key of that user would read the runs of whoever started the server."""
    async with Journal.open(tmp_path / "x.db") as journal:
        with pytest.raises(UsageError, match="take another name"):
            await KeyStore(journal).add("local")


async def test_figures_need_their_own_key_and_name_no_user(server) -> None:
    async with server(keys=("alice",)) as served:
        async with Journal.open(served.store) as journal:
            _, prometheus = await KeyStore(journal).add("prometheus", role="metrics")
        async with served.http() as http:
            async with http.post("/v1/runs", json=BODY) as reply:
                await served.ended(http, (await reply.json())["id"])
            async with http.get("/metrics") as reply:
                assert reply.status == 403
        async with served.http(prometheus) as http:
            async with http.get("/v1/runs") as reply:
                assert reply.status == 403
            async with http.get("/metrics") as reply:
                figures = await reply.text()
        assert 'rlm_runs_total{face="native",kind="run",outcome="finished"} 1.0' in figures
        assert 'rlm_http_requests_total{method="POST",route="/v1/runs",status="202"} 1.0' in figures
        assert "alice" not in figures


async def test_users_take_turns() -> None:
    queue = FairQueue(1, 1, waiting=100, waiting_per_user=100)
    order: list[str] = []

    async def run(user: str) -> None:
        async with queue.turn(user):
            order.append(user)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for user in ("a", "a", "a", "a", "b", "b", "c"):
            group.create_task(run(user))
    assert order == ["a", "b", "c", "a", "b", "a", "a"]
    assert queue.running == 0


async def test_a_user_has_at_most_so_many_turns_and_a_cancelled_wait_keeps_none() -> None:
    queue = FairQueue(3, 2, waiting=100, waiting_per_user=100)
    release = asyncio.Event()

    async def run(user: str) -> None:
        async with queue.turn(user):
            await release.wait()

    tasks = [asyncio.create_task(run("a")) for _ in range(4)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert queue.running == 2
    for task in tasks[2:]:
        task.cancel()
    other = asyncio.create_task(run("b"))
    await asyncio.sleep(0.01)
    assert queue.running == 3
    tasks[0].cancel()
    release.set()
    await asyncio.gather(*tasks, other, return_exceptions=True)
    assert queue.running == 0


def test_a_full_queue_refuses() -> None:
    queue = FairQueue(1, 1, waiting=3, waiting_per_user=2)
    for user in ("a", "a"):
        queue.admit(user)
    with pytest.raises(ApiError, match="2 runs of yours"):
        queue.check_room("a")
    queue.admit("b")
    with pytest.raises(ApiError, match="queue is full"):
        queue.check_room("c")
    queue.leave("b")
    queue.check_room("c")
