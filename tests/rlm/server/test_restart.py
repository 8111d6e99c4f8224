"""A server that is stopped or killed: its runs can be resumed, and nothing is paid twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from rlm.journal import Journal

NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"
ASK_CHILD = "```repl\nfound = sub_query('What does the crane cost?', peek(0, 70))\nprint(found)\n```"
ANSWER = "```repl\nfinalize('12,400 euros', evidence=['The crane costs 12,400 euros'])\n```"


@pytest.fixture
def script(tmp_path: Path) -> Any:
    path = tmp_path / "script.jsonl"

    def write(*replies: dict[str, Any]) -> Path:
        path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
        return path

    return write


class Process:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, key: str) -> None:
        self.process = process
        self.url = url
        self.key = key

    def http(self) -> aiohttp.ClientSession:
        headers = {"Authorization": f"Bearer {self.key}"}
        return aiohttp.ClientSession(base_url=self.url, headers=headers)

    async def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the end."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        assert self.process.stderr is not None
        async with asyncio.timeout(40):
            await self.process.stderr.read()
            return await self.process.wait()


@contextlib.asynccontextmanager
async def serving(model: Path, store: Path | str, *options: str) -> AsyncIterator[Process]:
    """Run `rlm serve` until it says where it listens."""
    command = [
        *("serve", "--model", f"scripted:{model}", "--store", str(store), "--port", "0", "--sandbox", "0"),
        *("--strategy", "rlm", *options),
    ]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rlm", *command, stderr=asyncio.subprocess.PIPE, env={**os.environ}
    )
    assert process.stderr is not None
    said = ""
    try:
        async with asyncio.timeout(40):
            while "token" not in said:
                line = await process.stderr.readline()
                assert line, said
                said += line.decode()
        url = re.search(r"http://\S+?(?=/v1)", said)
        assert url is not None
        yield Process(process, url[0], said.split()[-1])
    finally:
        if process.returncode is None:
            process.kill()
            await process.stderr.read()
            await process.wait()


async def steps(store: Path | str, run: str) -> list[str]:
    async with Journal.open(store) as journal:
        return [event.kind for event in await journal.events(run)] if await journal.holds(run) else []


async def wait_for_step(store: Path | str, run: str, kind: str) -> None:
    async with asyncio.timeout(40):
        while kind not in await steps(store, run):
            await asyncio.sleep(0.1)


async def ended(http: aiohttp.ClientSession, run: str) -> dict[str, Any]:
    async with asyncio.timeout(40):
        while True:
            async with http.get(f"/v1/runs/{run}") as reply:
                found: dict[str, Any] = await reply.json()
            if found["status"] not in ("queued", "running"):
                return found
            await asyncio.sleep(0.1)


FIRST = [
    {"role": "root", "reply": ASK_CHILD},
    {"role": "child", "reply": "12,400 euros"},
    {"role": "root", "reply": ANSWER, "delay": 90},
]
REST = [{"role": "root", "reply": ANSWER}]


async def check_kill(tmp_path: Path, script: Any, store: Path | str) -> None:
    body = {"task": "What does the crane cost?", "context": NOTES}
    async with serving(script(*FIRST), store) as before:
        async with before.http() as http, http.post("/v1/runs", json=body) as reply:
            run = (await reply.json())["id"]
        await wait_for_step(store, run, "cell")
        known = await steps(store, run)
        await before.end(signal.SIGKILL)
    # The script has only what was not paid: a call that is made again would get the wrong reply.
    async with serving(script(*REST), store) as after, after.http() as http:
        async with http.post(f"/v1/runs/{run}/resume") as reply:
            assert reply.status == 202
        done = await ended(http, run)
        assert (done["status"], done["result"]["answer"]) == ("finished", "12,400 euros")
        assert sum(usage["calls"] for usage in done["result"]["usage"]) == 3
        headers = {"Last-Event-ID": str(len(known))}
        async with http.get(f"/v1/runs/{run}/events", headers=headers) as reply:
            rest = (await reply.read()).decode()
        assert rest.startswith(f"id: {len(known) + 1}\n")
        assert "event: resumed\n" in rest
        assert "event: finished\n" in rest
        assert await after.end(signal.SIGTERM) == 0


async def test_a_run_goes_on_after_kill_9(tmp_path: Path, script: Any) -> None:
    await check_kill(tmp_path, script, tmp_path / "served.db")


async def test_runs_of_a_stopped_server_may_finish(tmp_path: Path, script: Any) -> None:
    store = tmp_path / "served.db"
    slow = {"role": "root", "reply": ANSWER, "delay": 1.5}
    body = {"task": "What does the crane cost?", "context": NOTES}
    async with serving(script(*FIRST[:2], slow), store) as served:
        async with served.http() as http:
            async with http.post("/v1/runs", json=body) as reply:
                run = (await reply.json())["id"]
            await wait_for_step(store, run, "cell")
            served.process.terminate()
            await asyncio.sleep(0.3)
            async with http.get("/healthz") as reply:
                assert reply.status == 503
            async with http.post("/v1/runs", json=body) as reply:
                assert reply.status == 503
        assert await served.end(signal.SIGCONT) == 0
    assert (await steps(store, run))[-1] == "finished"


async def test_runs_that_do_not_finish_in_time_are_interrupted(tmp_path: Path, script: Any) -> None:
    store = tmp_path / "served.db"
    body = {"task": "What does the crane cost?", "context": NOTES}
    async with serving(script(*FIRST), store, "--set", "drain_seconds=0.2") as before:
        async with before.http() as http, http.post("/v1/runs", json=body) as reply:
            run = (await reply.json())["id"]
        await wait_for_step(store, run, "cell")
        assert await before.end(signal.SIGTERM) == 0
    assert (await steps(store, run))[-1] == "interrupted"
