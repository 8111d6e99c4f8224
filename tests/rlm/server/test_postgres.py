"""The server over PostgreSQL: the same runs, files, keys and budgets, and a kill."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ASKED = [{"role": "user", "content": "What does the crane cost?"}]
NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"server_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


postgres = load(Path(__file__).parents[2] / "postgres_server.py")
restart = load(Path(__file__).parent / "test_restart.py")
script = restart.script


@pytest.fixture(scope="module")
def maintenance() -> Iterator[str]:
    with postgres.running_server() as url:
        yield url


@pytest.fixture
def store(maintenance: str) -> Iterator[str]:
    with postgres.database(maintenance) as url:
        yield url


async def test_files_runs_keys_and_budgets(server, store) -> None:
    async with server(store=store, keys=("alice", "bob")) as served:
        client = served.openai()
        file = await client.files.create(
            file=("n.txt", io.BytesIO(NOTES.encode() * 50_000)), purpose="user_data"
        )
        small = await client.files.create(file=("s.txt", io.BytesIO(NOTES.encode())), purpose="user_data")
        part = {"type": "file", "file": {"file_id": small.id}}
        text = {"type": "text", "text": "What does the crane cost?"}
        done = await client.chat.completions.create(
            model="rlm", messages=[{"role": "user", "content": [part, text]}]
        )
        assert done.choices[0].message.annotations[0].url_citation.title == "s.txt:3"
        assert (await client.files.content(file.id)).content == NOTES.encode() * 50_000
        async with served.http() as http, http.get("/v1/usage") as reply:
            assert (await reply.json())["user"] == "alice"
        async with served.http(served.keys[1]) as bob, bob.get("/v1/runs") as reply:
            assert (await reply.json())["data"] == []


async def test_a_run_goes_on_after_kill_9(tmp_path: Path, script: Any, store: str) -> None:
    await restart.check_kill(tmp_path, script, store)
