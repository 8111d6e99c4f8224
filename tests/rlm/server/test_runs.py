"""The own API: runs, their events, and files as contexts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from rlm import RLM
from rlm.documents import Source, TextSource
from rlm.models.offline.scripted import ScriptedModel
from rlm.server.config import ServerConfig
from rlm.server.errors import ApiError
from rlm.server.serving import open_runs
from rlm.settings import Limits, Settings

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
BODY = {"task": "What does the crane cost?", "context": NOTES}


async def events_of(reply: aiohttp.ClientResponse) -> list[dict]:
    """Read a stream of events to its end."""
    found, event = [], {}
    async for line in reply.content:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if not name:
            found += [event] if "data" in event else []
            event = {}
        elif name == "data":
            event["data"] = json.loads(value)
        elif name in ("event", "id"):
            event[name] = value
    return found


async def test_a_run_is_watched_to_its_end_and_read(server) -> None:
    async with server() as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            assert reply.status == 202
            run = await reply.json()
            assert reply.headers["location"] == f"/v1/runs/{run['id']}"
        async with http.get(f"/v1/runs/{run['id']}/events") as reply:
            assert reply.content_type == "text/event-stream"
            events = await events_of(reply)
        steps = [one for one in events if "id" in one]
        assert [int(one["id"]) for one in steps] == list(range(1, len(steps) + 1))
        assert (steps[0]["event"], steps[-1]["event"]) == ("run_started", "finished")
        assert events[-1]["event"] == "end"
        assert events[-1]["data"]["result"]["text"] == "The crane costs 12,400 euros. [¹]"
        async with http.get(
            f"/v1/runs/{run['id']}/events", headers={"Last-Event-ID": steps[0]["id"]}
        ) as reply:
            again = await events_of(reply)
        assert [one.get("id") for one in again] == [*[one["id"] for one in steps[1:]], None]
        done = await served.ended(http, run["id"])
        assert done["status"] == "finished"
        assert done["result"]["citations"][0]["quote"] == "The crane costs 12,400 euros"
        async with http.get("/v1/runs/20260131-142501-k3f9xz-http") as reply:
            assert reply.status == 404


async def test_a_run_is_cancelled_and_resumed(server) -> None:
    release = asyncio.Event()

    async def slow(_: object) -> str:
        await release.wait()
        return '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'

    async with server(ScriptedModel.of(direct=slow)) as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            run = (await reply.json())["id"]
        await asyncio.sleep(0.3)
        async with http.post(f"/v1/runs/{run}/resume") as reply:
            assert reply.status == 409
        async with http.post(f"/v1/runs/{run}/cancel") as reply:
            assert (await reply.json())["status"] == "cancelled"
        release.set()
        async with http.post(f"/v1/runs/{run}/resume") as reply:
            assert reply.status == 202
        done = await served.ended(http, run)
        assert (done["status"], done["result"]["answer"]) == ("finished", "12,400 euros")
        async with http.post(f"/v1/runs/{run}/resume") as reply:
            assert reply.status == 409


async def test_of_requests_to_resume_a_run_one_is_accepted(server) -> None:
    release = asyncio.Event()

    async def slow(_: object) -> str:
        await release.wait()
        return '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'

    async with server(ScriptedModel.of(direct=slow)) as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            run = (await reply.json())["id"]
        await asyncio.sleep(0.3)
        async with http.post(f"/v1/runs/{run}/cancel") as reply:
            assert reply.status == 200

        async def resume() -> int:
            async with http.post(f"/v1/runs/{run}/resume") as reply:
                return reply.status

        assert sorted(await asyncio.gather(*[resume() for _ in range(4)])) == [202, 409, 409, 409]
        release.set()
        assert (await served.ended(http, run))["status"] == "finished"


async def test_a_run_that_waits_is_cancelled_before_it_begins(server) -> None:
    async def slow(_: object) -> str:
        await asyncio.sleep(3_600)
        return ""

    async with server(ScriptedModel.of(direct=slow), at_once=1) as served, served.http() as http:
        runs = []
        for _ in range(2):
            async with http.post("/v1/runs", json=BODY) as reply:
                runs.append((await reply.json())["id"])
        for run in reversed(runs):
            async with http.post(f"/v1/runs/{run}/cancel") as reply:
                assert (await reply.json())["status"] == "cancelled"


async def test_files_are_contexts_and_are_deleted(server) -> None:
    async with server() as served, served.http() as http:
        # By hand: clients refuse to send such a name.
        head = 'Content-Disposition: form-data; name="file"; filename="../../etc/pass\tX-Evil: 1\x85.txt"'
        body = f"--b\r\n{head}\r\n\r\n{NOTES}\r\n--b--\r\n".encode("latin-1")
        multipart = {"content-type": "multipart/form-data; boundary=b"}
        async with http.post("/v1/files", data=body, headers=multipart) as reply:
            assert reply.status == 200
            document = await reply.json()
        assert "/" not in document["filename"]
        context = [{"file_id": document["id"]}]
        async with http.post("/v1/runs", json={**BODY, "context": context}) as reply:
            run = (await reply.json())["id"]
        done = await served.ended(http, run)
        assert done["result"]["citations"][0]["document"] == document["filename"]
        async with http.get(f"/v1/files/{document['id']}/content") as reply:
            assert await reply.read() == NOTES.encode()
            assert reply.headers["content-disposition"].startswith("attachment")
            assert "x-evil" not in reply.headers
        async with http.delete(f"/v1/files/{document['id']}") as reply:
            assert reply.status == 200
        async with http.post("/v1/runs", json={**BODY, "context": context}) as reply:
            assert reply.status == 404


async def test_limits_can_only_be_lowered(server) -> None:
    model = ScriptedModel.of(root=["no block"] * 10)
    limits = Limits(rounds=3, violations=10)
    async with server(model, limits=limits, settings={"strategy": "rlm"}) as served, served.http() as http:
        for asked, rounds in ((100, 3), (2, 2)):
            body = {**BODY, "limits": {"max_rounds": asked}}
            async with http.post("/v1/runs", json=body) as reply:
                run = (await reply.json())["id"]
            assert (await served.ended(http, run))["result"]["rounds"] == rounds
        async with http.post("/v1/runs", json={**BODY, "limits": {"sandbox": 0}}) as reply:
            assert reply.status == 422
        async with http.post("/v1/runs", json={**BODY, "model": "openai:x@http://evil"}) as reply:
            assert reply.status == 422


async def test_a_run_that_fails_says_why_without_folders_of_the_server(server) -> None:
    async with server() as served, served.http() as http:
        form = aiohttp.FormData()
        form.add_field("file", b"%PDF-1.4 broken", filename="blob.pdf")
        async with http.post("/v1/files", data=form) as reply:
            document = (await reply.json())["id"]
        async with http.post("/v1/runs", json={**BODY, "context": [{"file_id": document}]}) as reply:
            run = (await reply.json())["id"]
        done = await served.ended(http, run)
        assert done["status"] == "failed"
        assert "blob.pdf" in done["error"]["message"]
        assert "/tmp" not in done["error"]["message"]


async def test_health_and_openapi(server) -> None:
    async with server() as served, served.http("") as http:
        async with http.get("/healthz") as reply:
            assert (reply.status, await reply.json()) == (200, {"status": "ok"})
        async with http.get("/openapi.json") as reply:
            paths = (await reply.json())["paths"]
        assert {"/v1/runs", "/v1/chat/completions", "/v1/files"} <= paths.keys()


async def test_a_run_whose_sources_arrive_after_the_stop_is_not_begun(tmp_path: Path, monkeypatch) -> None:
    """Nobody would wait for it, and its work would meet a closed store."""
    reading, arrived = asyncio.Event(), asyncio.Event()
    model = ScriptedModel.of(direct="The crane costs 12,400 euros.")
    rlm = RLM(model, settings=Settings(store=tmp_path / "rlm.db"))
    async with open_runs(rlm, ServerConfig(files=tmp_path / "files"), ()) as runs:

        async def slowly(_: object) -> list[Source]:
            reading.set()
            await arrived.wait()
            return [TextSource("notes", NOTES)]

        monkeypatch.setattr(runs._reader, "sources", slowly)
        asking = asyncio.ensure_future(runs.submit("What does the crane cost?", None))
        await reading.wait()
        await runs.stop(0.0)
        arrived.set()
        with pytest.raises(ApiError, match="the server is stopping"):
            await asking
        assert runs.open == 0
    assert not model.requests


async def test_a_stored_run_with_a_damaged_end_is_reported(server, tmp_path: Path) -> None:
    store = tmp_path / "damaged.db"
    async with server(store=str(store)) as served, served.http() as http:
        async with http.post("/v1/runs", json=BODY) as reply:
            run_id = (await reply.json())["id"]
        await served.ended(http, run_id)
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("UPDATE events SET data = json_remove(data, '$.answer') WHERE kind = 'finished'")
    async with (
        server(store=str(store)) as served,
        served.http() as http,
        http.get(f"/v1/runs/{run_id}") as reply,
    ):
        assert re.match("the store failed: .*is damaged", (await reply.json())["error"]["message"])


@pytest.mark.timeout(120)
async def test_mcp_is_served_behind_the_same_gate(tmp_path) -> None:
    """One process and one token for both. The official client asks, and a client without the token cannot."""
    mcp_client = pytest.importorskip("mcp.client.streamable_http")
    import httpx2
    from mcp import Client

    (tmp_path / "offer.txt").write_text("The crane costs 90,000 euros.")
    token = "a-token-of-sixteen-or-more"
    options = ["--port", "0", "--root", str(tmp_path), "--model", "extractive"]
    command = [sys.executable, "-m", "rlm", "serve", *options]
    env = {**os.environ, "RLM_SERVER_TOKENS": token, "RLM_STORE": str(tmp_path / "s.db"), "RLM_SANDBOX": "0"}
    server = await asyncio.create_subprocess_exec(*command, env=env, stderr=subprocess.PIPE)
    try:
        line = (await server.stderr.readline()).decode()
        url = re.search(r"http://\S+:\d+", line)[0]
        async with httpx2.AsyncClient(timeout=30) as http:
            assert (await http.post(f"{url}/mcp", json={})).status_code == 401
            evil = {"Authorization": f"Bearer {token}", "Host": "evil.example"}
            assert (await http.post(f"{url}/mcp", json={}, headers=evil)).status_code == 403
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(mcp_client.streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            found = await client.call_tool("search", {"query": "crane", "paths": ["."]})
        assert "90,000 euros" in found.structured_content["hits"][0]["text"]
    finally:
        server.send_signal(signal.SIGTERM)
        await asyncio.wait_for(server.wait(), 40)
