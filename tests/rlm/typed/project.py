"""A program of a user, which pyright checks in strict mode. It is not run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pandas as pd
from pydantic import BaseModel

from rlm import RLM, Citation, Limits, ProposedAnswer, RunResult, Settings
from rlm.documents import TextSource, UrlSource
from rlm.events import Event, RunFinished, TextDelta
from rlm.notebook import NotebookProgress


class Notice(BaseModel):
    clause: str
    days: int


def look_up(customer: int) -> str:
    """Return the name of a customer."""
    return f"customer {customer}"


def cited(proposal: ProposedAnswer) -> str | None:
    return None if proposal.citations else "give the clause as evidence"


def seen(event: Event) -> None:
    if isinstance(event, TextDelta):
        print(event.text)


rlm = RLM(
    "openai:gpt-5",
    sub_model="openai:gpt-5-mini",
    limits=Limits(max_cost=1.0),
    settings=Settings(strategy="rlm"),
    tools=[look_up],
    check=cited,
    observe=[seen, NotebookProgress()],
)


def places(citations: Sequence[Citation]) -> list[str]:
    return [one.place for one in citations if one.verified]


def ask_everything() -> list[RunResult]:
    frame = pd.DataFrame({"a": [1]})
    series = pd.Series([1, 2])
    with Path("a.txt").open() as text, Path("a.pdf").open("rb") as binary:
        return [
            rlm.run_sync("What is 6 * 7?"),
            rlm.run_sync("What?", "a text", schema=Notice),
            rlm.run_sync("What?", b"bytes"),
            rlm.run_sync("What?", Path("contract.txt")),
            rlm.run_sync(
                "What?", [Path("a"), "text", TextSource("name", "text"), UrlSource("https://x.org")]
            ),
            rlm.run_sync("What?", {"a": [1, 2]}),
            rlm.run_sync("What?", [{"role": "user", "content": "Hello"}]),
            rlm.run_sync("What?", frame),
            rlm.run_sync("What?", [series, frame]),
            rlm.run_sync("What?", text),
            rlm.run_sync("What?", [binary, io.StringIO("x")]),
            rlm.completion("The code is 7.", root_prompt="What is the code?"),
            rlm.completion([{"role": "user", "content": "What is the code?"}]),
        ]


async def ask_in_a_loop() -> float | None:
    result = await rlm.acompletion("What is 6 * 7?")
    async with aclosing(rlm.stream("What?", "a text")) as events:
        async for event in events:
            if isinstance(event, RunFinished):
                result = event.result
    async with rlm.session(Path("contract.txt")) as session:
        session.append("more")
        result = await session.run("And then?")
    print(places(result.citations), result.response, result.coverage.complete)
    return result.cost_usd
