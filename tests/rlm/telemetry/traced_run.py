"""A program that answers a question with sub-RLMs, children, tools and an error, and sends its traces."""

import asyncio
import sys

from opentelemetry.instrumentation.auto_instrumentation import initialize

from rlm import RLM, Settings
from rlm.limits import Limits


def price(machine: str) -> int:
    """Return the price of a machine in euros."""
    if machine == "plough":
        raise ValueError("no plough is sold")
    return 41_000


async def main(url: str, store: str, level: str) -> None:
    settings = Settings(strategy="rlm", store=store, sandbox=int(level))
    model = f"openai:root@{url}/v1"
    rlm = RLM(model, settings=settings, tools=[price], limits=Limits(max_depth=1, max_rounds=6))
    async with rlm.session("The crane of the northern yard costs 41,000 euros.") as session:
        await session.run("What does it cost?")
        await session.run("And the mixer?")
    await RLM(f"openai:bad@{url}/v1", settings=Settings(strategy="direct", store=store)).run("Why?", "x")
    await rlm.aclose()


initialize()
asyncio.run(main(*sys.argv[1:]))
