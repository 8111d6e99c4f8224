"""Test the progress of a call, its cancellation, and that what was paid is kept."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_clients import Connect, Place, text_of

pytestmark = pytest.mark.timeout(240)

BLOCK = """```repl
first = sub_query("alpha: what costs it?", (0, 40))
second = sub_query("beta: who pays it?", (0, 40))
finalize("It costs 90,000 euros.", evidence=["for 90,000 euros"])
```"""
ROOT = {"role": "root", "reply": BLOCK}
ALPHA = {"role": "child", "match": "alpha", "reply": "90,000 euros"}
BETA = {"role": "child", "match": "beta", "reply": "the yard"}


async def test_a_cancelled_run_is_kept_and_resumed(connect: Connect, place: Place) -> None:
    model = place.script(ROOT, ALPHA, {**BETA, "delay": 300})
    lines: list[str] = []
    waiting = anyio.Event()

    async def note(_: float, __: float | None, line: str | None) -> None:
        lines.append(line or "")
        if "1 of 2 children" in lines[-1] or "1 of 1 child" in lines[-1]:
            waiting.set()

    async def ask(client: Client) -> Any:
        await client.call_tool(
            "ask", {"question": "What does the crane cost?", "paths": ["."]}, progress_callback=note
        )

    async with connect("--model", model, "--strategy", "rlm") as client:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, client)
            with anyio.fail_after(90):
                await waiting.wait()
            during = await client.call_tool("runs", {})
            group.cancel_scope.cancel()
        (run,) = during.structured_content["runs"]  # type: ignore[index]
        assert run["state"] == "running"
        assert "child" in run["doing"]
        assert any(run["run_id"] in line for line in lines), lines
        for _ in range(100):
            after = (await client.call_tool("runs", {"run": run["run_id"]})).structured_content
            if after["runs"][0]["state"] != "running":  # type: ignore[index]
                break
            await asyncio.sleep(0.1)
        assert after["runs"][0]["state"] == "stopped"  # type: ignore[index]
        # The root and alpha were paid: the script has no reply for them any more.
        place.script(BETA)
        resumed = await client.call_tool("resume", {"run": run["run_id"]})
    shown = resumed.structured_content
    assert shown is not None, text_of(resumed)
    assert shown["answer"].startswith("It costs 90,000 euros.")
    assert shown["sub_calls"] == 2


async def test_a_client_that_goes_away_interrupts_its_run(connect: Connect, place: Place) -> None:
    model = place.script(ROOT, ALPHA, {**BETA, "delay": 300})
    waiting = anyio.Event()

    async def note(_: float, __: float | None, line: str | None) -> None:
        if "1 of" in (line or ""):
            waiting.set()

    async with connect("--model", model, "--strategy", "rlm", mode="legacy") as client:
        calling = asyncio.ensure_future(
            client.call_tool("ask", {"question": "What?", "paths": ["."]}, progress_callback=note)
        )
        with anyio.fail_after(90):
            await waiting.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    async with connect("--model", model, "--strategy", "rlm") as client:
        listed = (await client.call_tool("runs", {})).structured_content
    (run,) = listed["runs"]  # type: ignore[index]
    assert run["state"] == "stopped"


async def test_every_kind_of_run_is_resumed(connect: Connect, place: Place) -> None:
    reply = {"role": "direct", "reply": '90,000 euros\nEvidence:\n"for 90,000 euros"'}
    model = place.script(*[reply] * 4)

    def run(*command: str) -> None:
        options = ("--model", model, "--quiet")
        program = [sys.executable, "-m", "rlm", *command, str(place.root / "offer.md"), *options]
        subprocess.run(program, env=place.env, check=True, capture_output=True)

    run("ask", "What does the crane cost?", "--attempts", "2")
    run("compare", "What does the crane cost?", "--method", "direct")
    async with connect("--model", model) as client:
        listed = (await client.call_tool("runs", {})).structured_content
        answers = [
            await client.call_tool("resume", {"run": one["run_id"]})
            for one in listed["runs"]  # type: ignore[index]
        ]
    assert [text_of(one).startswith("90,000 euros") for one in answers] == [True, True], answers


async def test_a_cancelled_summary_is_made_again_from_what_was_paid(connect: Connect, place: Place) -> None:
    model = place.script({"role": "summary", "reply": "The crane costs 90,000 euros.", "delay": 300})
    async with connect("--model", model) as client:
        calling = asyncio.ensure_future(client.call_tool("summarize", {"paths": ["."], "kind": "document"}))
        for _ in range(300):
            listed = (await client.call_tool("runs", {})).structured_content
            if listed["runs"]:  # type: ignore[index]
                break
            await asyncio.sleep(0.1)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        run = listed["runs"][0]["run_id"]  # type: ignore[index]
        refused = await client.call_tool("resume", {"run": run})
        assert f"summarize the same input again with since={run}" in text_of(refused)
        other = await client.call_tool("summarize", {"paths": ["."], "since": "20200101"})
        assert "no run '20200101' may be read here" in text_of(other)
