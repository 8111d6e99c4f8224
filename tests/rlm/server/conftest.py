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
from rlm.models.offline.scripted import ScriptedModel
from rlm.server.config import ServerConfig
from rlm.server.serving import serve
from rlm.settings import Limits, Settings

DIRECT = 'The crane costs 12,400 euros. [¹]\nEvidence:\n"The crane costs 12,400 euros"'
NOTES = "Northern yard.\n\nThe crane costs 12,400 euros. The lift costs 800 euros.\n"


@dataclass
class Served:
    """A server that runs. `store` is its journal, and `token` lets a client in."""

    url: str
    token: str
    store: str
    said: list[str]
    task: asyncio.Task[None]
    _clients: list[AsyncOpenAI] = field(default_factory=list)

    def openai(self, token: str | None = None, **options: Any) -> AsyncOpenAI:
        """Return the official client."""
        options.setdefault("max_retries", 0)
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=token or self.token, **options)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Close the clients."""
        for client in self._clients:
            await client.close()

    @contextlib.asynccontextmanager
    async def http(self, token: str | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        """Yield a plain client. A token of "" sends none."""
        token = self.token if token is None else token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
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


ServerFixture = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def server(tmp_path: Path) -> ServerFixture:
    @contextlib.asynccontextmanager
    async def run(
        model: Any = None,
        *,
        store: str | None = None,
        limits: Limits | None = None,
        settings: dict[str, Any] | None = None,
        **config: Any,
    ) -> AsyncIterator[Served]:
        """Serve with `model`."""
        store = store or str(tmp_path / "served.db")
        own = Settings(store=store, document_cache=False, sandbox=0, **(settings or {}))
        rlm = RLM(model or ScriptedModel.of(direct=DIRECT), settings=own, limits=limits)
        said: list[str] = []
        made = ServerConfig(files=tmp_path / "files", port=0, **config)
        task = asyncio.create_task(serve(rlm, made, said.append))
        try:
            async with asyncio.timeout(30):
                while not any(line.startswith("serving ") for line in said):
                    if task.done():
                        task.result()
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            url = next(line for line in said if line.startswith("serving ")).split()[1]
            printed = [line.rpartition(" ")[2] for line in said if "token" in line]
            token = (*printed, *made.tokens, "")[0]
            served = Served(url.removesuffix("/v1"), token, store, said, task)
            try:
                yield served
            finally:
                await served.close()
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=30)

    return run
