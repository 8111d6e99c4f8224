"""Test a process that was stopped, lost its run to another process, and then wakes up."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.journal import Journal

CHILDREN = 40


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new store, once on each database."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "rlm.db")


async def test_it_begins_no_call_and_writes_nothing(
    rlm_process: Any, provider_server: Any, providers: Any, sandbox_flag: str, store: str, tmp_path: Path
) -> None:
    """It is stopped between two children of a sequential cell, so nothing is in flight."""

    def reply(received: Any) -> Any:
        if "repl" not in received.system:
            return providers.Answer(f"It is {received.prompt.split('part ')[1].split('.')[0]}.", delay=0.03)
        code = f"import time\nsaid = []\nfor n in range({CHILDREN}):\n    time.sleep(n == 11 and 1.5)\n"
        code += "    said.append(str(sub_query('Which?', (10 * n, 10 * n + 9))))"
        return f"```repl\n{code}\nfinalize(len(set(said)))\n```"

    provider_server.always = reply
    (tmp_path / "notes.txt").write_text("".join(f"part {n:03d}.\n" for n in range(CHILDREN)))
    model = f"openai:m@{provider_server.url}/v1"
    options = ["--model", model, "--strategy", "rlm", "--store", store]
    process = rlm_process("ask", "Which parts?", "notes.txt", *options)
    while len(provider_server.requests) < 12:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)
    time.sleep(0.75)
    process.send_signal(signal.SIGSTOP)
    assert len(provider_server.requests) == 12

    level = 0 if sandbox_flag == "0" else "auto"
    rlm = RLM(model, settings=Settings(store=store, sandbox=level))
    async with Journal.open(store) as journal:
        (run,) = await journal.runs()
    result = await rlm.resume(run.run_id, take_over=True)
    await rlm.aclose()
    assert result.answer == CHILDREN
    assert len(provider_server.requests) == 1 + CHILDREN

    process.send_signal(signal.SIGCONT)
    _, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 2, errors
    assert "was removed or is written by another process" in errors
    assert len(provider_server.requests) == 1 + CHILDREN, "it asked for something when it woke up"
    async with Journal.open(store) as journal:
        after = await journal.get(run.run_id)
        replies = [event.data["reply"] for event in await journal.events(run.run_id) if event.kind == "child"]
    assert (after.state, after.stop_reason) == ("finished", "finalized")
    assert len(replies) == len(set(replies)) == CHILDREN
