"""What a round costs beside the model: kernel start, cells, helper calls, and the driver's own overhead."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlm import RLM, Limits, Settings
from rlm.offline import OfflineHandler
from rlm.testing import ScriptedModel
from sandbox.context_file import ContextFile, ContextFileWriter
from sandbox.kernel import JupyterSandbox
from sandbox.types import ChildAnswer

LEVEL = int(os.environ.get("RLM_BENCH_LEVEL", "2"))


class EchoHandler(OfflineHandler):
    """Answers every child at once."""

    async def children(self, batch, answered):
        for position, prompt in enumerate(batch.prompts):
            answered(position, ChildAnswer(prompt))


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ContextFile:
    with ContextFileWriter(tmp_path_factory.mktemp("bench") / "context") as writer:
        writer.begin_document("text")
        writer.write("one two three\n" * 10_000)
        writer.end_document()
        return writer.finish()


def kernel_over(context: ContextFile) -> JupyterSandbox:
    return JupyterSandbox(context, EchoHandler(context.chars), level=LEVEL)


@pytest.fixture(scope="module")
def kernel(loop: asyncio.Runner, context: ContextFile) -> Iterator[JupyterSandbox]:
    opened = kernel_over(context)
    loop.run(opened.open())
    yield opened
    loop.run(opened.close())


def test_kernel_start_to_first_reply(benchmark, loop, context) -> None:
    async def start() -> None:
        opened = kernel_over(context)
        await opened.open()
        await opened.execute("1", round=1, timeout=10)
        await opened.close()

    benchmark.pedantic(lambda: loop.run(start()), rounds=7, warmup_rounds=1)


def test_one_cell(benchmark, loop, kernel) -> None:
    benchmark.pedantic(
        lambda: loop.run(kernel.execute("1 + 1", round=1, timeout=10)), rounds=200, warmup_rounds=10
    )


def test_500_helper_calls(benchmark, loop, kernel) -> None:
    """One cell of 500 calls, each to the driver and back; divide by 500."""
    code = "for n in range(500): evaluate_progress()"
    benchmark.pedantic(lambda: loop.run(kernel.execute(code, round=1, timeout=30)), rounds=7, warmup_rounds=1)


def test_printing_100_megabytes(benchmark, loop, kernel) -> None:
    code = "for i in range(1_000): print('x' * 99_999)"
    benchmark.pedantic(lambda: loop.run(kernel.execute(code, round=1, timeout=60)), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("rounds", [2, 22])
def test_rounds_of_a_run_with_a_model_that_takes_no_time(benchmark, loop, tmp_path: Path, rounds) -> None:
    """The difference of the two, divided by 20, is what the driver adds to a round."""

    def run() -> None:
        blocks = ["```repl\nx = 1\n```"] * (rounds - 1) + ["```repl\npeek(0, 1)\nfinalize(x)\n```"]
        settings = Settings(strategy="rlm", sandbox=LEVEL, store=tmp_path / "rlm.db")
        rlm = RLM(ScriptedModel.of(root=blocks), limits=Limits(), settings=settings)
        assert loop.run(rlm.run("What is x?", "text")).answer == 1

    benchmark.pedantic(run, rounds=5, warmup_rounds=1)
