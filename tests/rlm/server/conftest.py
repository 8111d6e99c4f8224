"""Start real servers on free ports, with scripted models, in the loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from openai import AsyncOpenAI

from rlm import RLM
from rlm.journal import Journal
from rlm.journal.served import KeyStore
from rlm.models.offline.scripted import ScriptedModel
from rlm.server.config import ServerConfig
from rlm.server.serving import serve
from rlm.settings import Limits, Settings

DIRECT = 'The crane costs 12,400 euros. [¹]\nEvidence:\n"The crane costs 12,400 euros"'
NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"


@dataclass
class Served:
    """A server that runs. `store` is its journal, and `keys` those of its users."""

    url: str
    key: str
    store: str
    said: list[str]
    task: asyncio.Task[None]
    keys: list[str] = field(default_factory=list)
    _clients: list[AsyncOpenAI] = field(default_factory=list)

    def openai(self, key: str | None = None, **options: Any) -> AsyncOpenAI:
        """Return the official client."""
        options.setdefault("max_retries", 0)
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key or self.key, **options)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            await client.close()

    @contextlib.asynccontextmanager
    async def http(self, key: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield a plain client. A key of "" sends none."""
        key = self.key if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with aiohttp.ClientSession(base_url=self.url, headers=headers) as session:
            yield session

    async def ended(self, http: aiohttp.ClientSession, run_id: str, seconds: float = 30.0) -> dict[str, Any]:
        """Wait for the end of a run."""
        async with asyncio.timeout(seconds):
            while True:
                async with http.get(f"/v1/runs/{run_id}") as reply:
                    run: dict[str, Any] = await reply.json()
                if run["status"] not in ("queued", "running"):
                    return run
                await asyncio.sleep(0.05)


async def add_key(store: str, user: str, **options: Any) -> str:
    """Make a key in the store of a server."""
    async with Journal.open(store) as journal:
        _, secret = await KeyStore(journal).add(user, **options)
        return secret


ServerFixture = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def server(tmp_path: Path) -> ServerFixture:
    @contextlib.asynccontextmanager
    async def run(
        model: Any = None,
        *,
        keys: tuple[str, ...] = (),
        store: str | None = None,
        limits: Limits | None = None,
        settings: dict[str, Any] | None = None,
        **config: Any,
    ) -> AsyncIterator[Served]:
        """Serve with `model`. With `keys`, these users have keys, and `Served.key` is the first."""
        store = store or str(tmp_path / "served.db")
        made = [await add_key(store, user) for user in keys]
        own = Settings(store=store, document_cache=False, sandbox=0, **(settings or {}))
        rlm = RLM(model or ScriptedModel.of(direct=DIRECT), settings=own, limits=limits)
        said: list[str] = []
        task = asyncio.create_task(serve(rlm, ServerConfig(port=0, **config), said.append))
        try:
            async with asyncio.timeout(30):
                while not any(line.startswith("serving ") for line in said):
                    if task.done():
                        task.result()
                    await asyncio.sleep(0.01)
            url = next(line for line in said if line.startswith("serving ")).split()[1].rstrip(";")
            token = [line.rpartition(" ")[2] for line in said if "API key" in line]
            key = made[0] if made else (token[0] if token else "")
            served = Served(url.removesuffix("/v1"), key, store, said, task, made)
            try:
                yield served
            finally:
                await served.close()
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=30)

    return run
