"""Test what the Sandbox protocol promises, on FakeSandbox and on real kernels at every level of this
machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from rlm.sandbox.errors import KernelDied
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.launch import probe
from rlm.sandbox.protocol import KernelHandler, Sandbox
from rlm.sandbox.types import CellResult, ChildAnswer, ChildBatch, ChildSlice, Finalization, Span
from rlm.testing import FakeSandbox

TEXT = "one\ntwo\nthree\n"


async def ask_a_child(code: str, handler: KernelHandler) -> CellResult:
    answers: list[str] = []
    batch = ChildBatch(("q",), (ChildSlice((Span(0, 3),)),))

    async def keep_answer(_: int, answer: ChildAnswer) -> None:
        answers.append(answer.text)

    await handler.children(batch, keep_answer)
    return CellResult("ok", stdout=f"{answers[0]}\n")


async def finalize_42(code: str, handler: KernelHandler) -> CellResult:
    await handler.finalize(Finalization(42))
    return CellResult("ok")


async def ask_and_go_on_for_ever(code: str, handler: KernelHandler) -> CellResult:
    await ask_a_child(code, handler)
    return await asyncio.get_running_loop().create_future()


@dataclass(frozen=True)
class Cell:
    """A cell and its expected result. The fake is scripted with that result, or with `fake`."""

    code: str
    status: str = "ok"
    stdout: str = ""
    result: str | None = None
    ename: str = ""
    timeout: float = 30.0
    fake: Callable[[str, KernelHandler], Awaitable[CellResult]] | None = None

    def fake_result(self) -> object:
        return self.fake or CellResult(self.status, stdout=self.stdout, result=self.result, ename=self.ename)


DIES = Cell("import os; os._exit(3)", "died", ename="KernelDied")

CELLS = (
    # Variables live from cell to cell, and the last expression is the result.
    Cell("x = 20"),
    Cell("print(x + 1)", stdout="21\n"),
    Cell("6 * 7", result="42"),
    # A cell that fails, does not parse, exits or is over its time is a result, and keeps what it had.
    Cell("kept = 1\n1 / 0", "error", ename="ZeroDivisionError"),
    Cell("for x in", "error", ename="SyntaxError"),
    Cell("raise SystemExit", "error", ename="SystemExit"),
    Cell("late = 1\nwhile True: pass", "timeout", ename="KeyboardInterrupt", timeout=0.3),
    Cell("print(kept, late)", stdout="1 1\n"),
    # What a cell asks for reaches the handler.
    Cell("print(sub_query('q', (0, 3)))", stdout="q 0\n", fake=ask_a_child),
    Cell("finalize(42)", fake=finalize_42),
    DIES,
)

WAYS = [None, Candidate(0), Candidate(1), Candidate(2), Candidate(2, "bubblewrap"), Candidate(3)]

Make = Callable[..., Sandbox]


@pytest.fixture(params=WAYS, ids=lambda way: str(way or "the fake"))
async def make(request, make_context, handler, monkeypatch):
    """Yield `make(*cells)`, which returns a closed sandbox of one kind. A fake is scripted with the cells."""
    way: Candidate | None = request.param
    if way is not None and way.level:
        (found,) = [probed for probed in probe.examine() if probed.candidate == way]
        if not found.holds:
            pytest.skip(f"{way} can't be had on this machine: {dict(found.failed)}")
    made: list[Sandbox] = []

    def make(*cells: Cell) -> Sandbox:
        if way is None:
            made.append(FakeSandbox(handler, [cell.fake_result() for cell in cells]))
        else:
            monkeypatch.setattr("rlm.sandbox.host.kernel_process.candidates", lambda *_: ([way], {}))
            made.append(JupyterSandbox(make_context(TEXT), handler, level=way.level))
        return made[-1]

    yield make
    for sandbox in made:
        await sandbox.close()


async def test_cells(make: Make, handler) -> None:
    sandbox = make(*CELLS)
    await sandbox.open()
    for number, cell in enumerate(CELLS, 1):
        result = await sandbox.execute(cell.code, round=number, timeout=cell.timeout)
        assert (result.status, result.stdout, result.result, result.ename) == (
            cell.status, cell.stdout, cell.result, cell.ename,
        ), result  # fmt: skip
    assert [(batch.prompts, batch.slices[0].pieces) for batch in handler.batches] == [(("q",), (Span(0, 3),))]
    assert [final.value for final in handler.finals] == [42]


async def test_there_is_no_kernel_before_open_and_after_close(make: Make) -> None:
    """execute raises KernelDied only if there is no kernel. close may be called twice."""
    cell = Cell("print(1)", stdout="1\n")
    sandbox = make(cell, cell)
    with pytest.raises(KernelDied):
        await sandbox.execute(cell.code, round=1, timeout=5)
    await sandbox.open()
    assert (await sandbox.execute(cell.code, round=1, timeout=30)).stdout == "1\n"
    await sandbox.close()
    await sandbox.close()
    with pytest.raises(KernelDied):
        await sandbox.execute(cell.code, round=2, timeout=5)


async def test_a_dead_kernel_runs_nothing(make: Make) -> None:
    sandbox = make(DIES, Cell("1"))
    await sandbox.open()
    assert (await sandbox.execute(DIES.code, round=1, timeout=30)).status == "died"
    with pytest.raises(KernelDied):
        await sandbox.execute("1", round=2, timeout=5)


async def test_an_interrupt_ends_the_cell_and_keeps_its_variables(make: Make, handler) -> None:
    """interrupt stops the running cell, and its variables stay. Without a running cell it does nothing."""
    asked = asyncio.Event()

    async def note() -> None:
        asked.set()

    handler.before_answer = note
    endless = Cell("kept = 1\nsub_query('q', (0, 3))\nwhile True: pass", fake=ask_and_go_on_for_ever)
    after = Cell("print(kept)", stdout="1\n")
    sandbox = make(endless, after)
    await sandbox.open()
    await sandbox.interrupt()
    running = asyncio.create_task(sandbox.execute(endless.code, round=1, timeout=60))
    await asked.wait()
    await sandbox.interrupt()
    result = await running
    assert (result.status, result.ename) == ("error", "KeyboardInterrupt")
    assert (await sandbox.execute(after.code, round=2, timeout=30)).stdout == "1\n"
