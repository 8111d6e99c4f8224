"""Many clients at once, slow ones, and ones that vanish. benchmarks/server measures times."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aiohttp

from rlm.models.offline.scripted import ScriptedModel

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
BODY = {"task": "What does the crane cost?", "context": NOTES}
ASKED = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]
TEXT = '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'


async def test_a_hundred_clients_at_once_all_get_their_answer(server) -> None:
    in_flight = most = 0

    async def answer(_: object) -> str:
        nonlocal in_flight, most
        in_flight += 1
        most = max(most, in_flight)
        await asyncio.sleep(0.05)
        in_flight -= 1
        return TEXT

    async with server(ScriptedModel.of(direct=answer), at_once=8) as served:
        client = served.openai(timeout=100)
        asking = [client.chat.completions.create(model="rlm", messages=ASKED) for _ in range(100)]
        done = await asyncio.gather(*asking)
        assert len({one.id for one in done}) == 100
        assert {one.choices[0].message.content for one in done} == {"12,400 euros"}
        assert most <= 8


async def test_a_client_that_reads_nothing_keeps_nobody_waiting(server) -> None:
    async with server(ScriptedModel.of(direct=TEXT)) as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            run = (await reply.json())["id"]
        address = urlsplit(served.url)
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection(address.hostname, address.port, limit=1)
            key = f"Authorization: Bearer {served.token}"
            head = f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n"
            writer.write(head.encode())
            writers.append(writer)
        # And some that never finish a request.
        for _ in range(20):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
            writers.append(writer)
        assert (await served.ended(http, run))["status"] == "finished"
        async with http.get("/healthz") as reply:
            assert reply.status == 200
        for writer in writers:
            writer.transport.abort()


async def test_clients_that_vanish_stop_their_runs_and_leave_turns_to_others(server) -> None:
    started = 0

    async def slow(_: object) -> str:
        nonlocal started
        started += 1
        if started <= 2:
            await asyncio.sleep(3_600)
        return TEXT

    async with server(ScriptedModel.of(direct=slow), at_once=2) as served:
        client = served.openai()
        gone = [
            asyncio.create_task(
                client.chat.completions.create(model="rlm", messages=ASKED, stream=number == 1)
            )
            for number in range(2)
        ]
        async with asyncio.timeout(20):
            while started < 2:
                await asyncio.sleep(0.05)
        stream = await gone[1]
        await stream.close()
        gone[0].cancel()
        async with asyncio.timeout(20):
            done = await served.openai().chat.completions.create(model="rlm", messages=[*ASKED, ASKED[1]])
        assert done.choices[0].message.content == "12,400 euros"


async def test_the_number_of_requests_at_a_time_is_limited(server) -> None:
    async def slow(_: object) -> str:
        await asyncio.sleep(3_600)
        return TEXT

    async with server(ScriptedModel.of(direct=slow), connections=3) as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            run = (await reply.json())["id"]
        watching = [await http.get(f"/v1/runs/{run}/events") for _ in range(3)]
        async with http.get("/healthz") as reply:
            assert (reply.status, (await reply.json())["error"]["code"]) == (503, "overloaded")
        for reply in watching:
            reply.close()


async def test_a_full_queue_says_so(server) -> None:
    async def slow(_: object) -> str:
        await asyncio.sleep(3_600)
        return TEXT

    async def post(http: aiohttp.ClientSession) -> int:
        async with http.post("/v1/runs", json=BODY) as reply:
            assert ("retry-after" in reply.headers) == (reply.status == 429)
            return reply.status

    served = server(ScriptedModel.of(direct=slow), at_once=1, waiting=2)
    async with served as running, running.http() as http:
        # At once: none is counted too late.
        statuses = await asyncio.gather(*(post(http) for _ in range(60)))
        assert sorted(statuses) == [202] * 3 + [429] * 57
