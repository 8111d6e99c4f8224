"""Measure 100 runs at once over HTTP with a model that takes 50 ms: seconds of a request, and memory.

.venv/bin/python benchmarks/server/hundred_runs.py [--clients 100] [--rounds 3]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp

from rlm import RLM
from rlm.models.offline.scripted import ScriptedModel
from rlm.server.config import ServerConfig
from rlm.server.serving import serve
from rlm.settings import Settings

NOTES = "The crane costs 12,400 euros.\n" * 20
REPLY = '12,400 euros\nEvidence:\n"The crane costs 12,400 euros"'
MESSAGES = [{"role": "user", "content": NOTES}, {"role": "user", "content": "What does the crane cost?"}]


async def answer(_: object) -> str:
    """Answer after 50 ms."""
    await asyncio.sleep(0.05)
    return REPLY


async def measure(clients: int, rounds: int, folder: Path) -> None:
    """Serve, send the requests, and print the figures."""
    settings = Settings(store=folder / "store.db", document_cache=False)
    rlm = RLM(ScriptedModel.of(direct=answer), settings=settings)
    config = ServerConfig(files=folder / "files", port=0, needs_token=False, at_once=clients, waiting=10_000)
    said: list[str] = []
    serving = asyncio.create_task(serve(rlm, config, said.append))
    while not said:  # noqa: ASYNC110 - the server says a line, and sets no event
        await asyncio.sleep(0.01)
    url = said[0].split()[1].rstrip(";")
    body = {"model": "rlm", "messages": MESSAGES}
    took: list[float] = []

    async def ask(http: aiohttp.ClientSession) -> None:
        began = time.monotonic()
        async with http.post(f"{url}/chat/completions", json=body) as reply:
            assert reply.status == 200, await reply.text()
            await reply.read()
        took.append(time.monotonic() - began)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        await ask(http)
        idle, took[:] = _megabytes(), []
        began, computed = time.monotonic(), time.process_time()
        for _ in range(rounds):
            await asyncio.gather(*(ask(http) for _ in range(clients)))
        seconds, computed = time.monotonic() - began, time.process_time() - computed
    cuts = statistics.quantiles(took, n=100)
    print(f"{clients} clients at once, {rounds} times: {len(took) / seconds:.0f} runs a second")
    print(f"{1_000 * computed / len(took):.0f} ms of a core for each run")
    print(f"p50 {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s; memory {idle:.0f} MB, at most {_megabytes():.0f} MB")
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(measure(given.clients, given.rounds, Path(temporary)))
