"""Test kernels that die in mid-run: the run continues, and pays for nothing twice."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from driver_processes import children_of, kernel_watchers

from rlm import Limits
from rlm.journal import Journal
from rlm.sandbox.host.kernel_process import KernelProcess
from rlm.sandbox.launch.forkserver import shared_forkserver
from rlm.testing import ScriptedModel

DIE = "import os; os._exit(1)"


def feedback(model: ScriptedModel, position: int = -1) -> str:
    """Return the last user message of a request."""
    return model.requests[position].messages[-1].content


def printed(model: ScriptedModel, position: int) -> str:
    """Return what a block printed, from the last user message of a request."""
    return feedback(model, position).split(": printed =====\n")[1].split("\n=====")[0]


async def kinds(run, run_id: str) -> list[str]:
    async with Journal.open(run.store) as journal:
        return [event.kind for event in await journal.events(run_id)]


async def test_a_new_kernel_has_the_variables_of_the_old_one(run, block) -> None:
    """Cells are replayed. One that kills twice is skipped and reported to the root."""
    model = ScriptedModel.of(
        root=[
            block("import random\nx = random.random()\nprint(x)"),
            block("y = 1 / 0"),
            block(f"lost = 1\n{DIE}"),
            block("peek(0, 1)\nfinalize([x, 'lost' in globals()])"),
        ]
    )
    result = await run(model)
    assert result.answer == [float(printed(model, 1)), False]
    assert result.rounds == 4
    assert "killed its kernel twice and was skipped" in feedback(model)
    assert "their variables are back" in feedback(model)
    assert (await kinds(run, result.run_id)).count("kernel_died") == 2


async def test_children_of_replayed_cells_are_served_from_the_journal(run, block) -> None:
    """Nothing is paid. Failures and repeated samples are the same as before."""
    answers = iter(["one", "two", RuntimeError])

    def child(request):
        return next(answers)

    code = (
        "a = [str(sub_query('q', (0, 3), sample=n)) for n in range(2)]\n"
        "kept = sub_query_batch('q', [(0, 3)])\nusage = kept[0].cached, a"
    )
    model = ScriptedModel.of(
        root=[block(code), block(DIE), block("finalize([a, str(kept[0]), usage])")],
        child=child,
    )
    result = await run(model)
    assert result.answer == [["one", "two"], "one", [True, ["one", "two"]]]
    assert result.sub_calls == 2
    assert len([request for request in model.requests if request.role == "child"]) == 2


async def test_a_replayed_cell_gets_the_same_facts_of_the_run(run, block) -> None:
    """Progress and refusals are keyed by cell and order."""
    code = (
        "before = evaluate_progress()['limits']['seconds']['used']\n"
        "after = evaluate_progress()['limits']['seconds']['used']\n"
        "try: finalize('a guess')\nexcept ValueError as error: refused = str(error)\n"
        "try: sub_query_batch('q', [(0, 3)] * 2000)\nexcept ValueError as error: many = str(error)\n"
        "print(before, after, refused, many)\n"
    )
    model = ScriptedModel.of(
        root=[
            block(code),
            block("peek(0, 3)"),
            block(DIE),
            block("finalize([before, after, refused, many])"),
        ]
    )
    result = await run(model)
    assert " ".join(map(str, result.answer)) == printed(model, 1)
    assert "nothing of the input was read" in result.answer[2]
    assert "its output changed" not in feedback(model)


async def test_a_kernel_that_ends_while_it_starts_is_followed_by_another(run, block, monkeypatch) -> None:
    """A kernel that never starts is reported after the second try."""
    attach = KernelProcess.attach
    killed: list[str] = []

    async def hit(kernel: KernelProcess, *rest, **options):
        if len(killed) < 1:
            killed.append("kernel")
            kernel.kill("killed by the test")
        return await attach(kernel, *rest, **options)

    monkeypatch.setattr(KernelProcess, "attach", hit)
    result = await run(ScriptedModel.of(root=[block("finalize(peek(0, 3))")]))
    assert (result.answer, killed) == ("one", ["kernel"])


async def test_three_deaths_end_the_run(run, block) -> None:
    """The stop reason is `kernel`. The results so far stay."""
    result = await run(ScriptedModel.of(root=[block("x = 1"), *[block(DIE)] * 5]))
    assert (result.answer, result.stop_reason, result.rounds) == (None, "kernel", 3)
    assert "died 3 times" in result.warnings[-1]


async def test_a_cell_that_will_not_stop_is_not_tried_again(run, block) -> None:
    """Its time would be spent twice."""
    stubborn = "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass"
    model = ScriptedModel.of(root=[block("x = 1"), block(stubborn), block("peek(0, 1)\nfinalize(x)")])
    result = await run(model, limits=Limits(cell_seconds=0.3))
    assert result.answer == 1
    assert "did not stop when it was interrupted and was skipped" in feedback(model)
    assert (await kinds(run, result.run_id)).count("kernel_died") == 1


@pytest.mark.parametrize("victim", ["kernel", "watcher"])
async def test_a_kill_from_outside_ends_well(run, block, victim) -> None:
    """After `kill -9` of the kernel or the watcher in mid-cell, that cell is run again."""
    done = []

    async def child(request):
        if request.task == "now" and not done:
            done.append(True)
            for watcher in kernel_watchers():
                os.kill(watcher if victim == "watcher" else leaf(watcher), signal.SIGKILL)
            await asyncio.sleep(0.2)
        return f"to {request.task}"

    model = ScriptedModel.of(
        root=[block("a = str(sub_query('then', (0, 3)))"), block("b = str(sub_query('now', (0, 3)))"),
              block("finalize([a, b])")],
        child=child,
    )  # fmt: skip
    result = await run(model)
    assert result.answer == ["to then", "to now"]
    assert "this block was re-run in a new one" in feedback(model)
    assert len([request for request in model.requests if request.task == "then"]) == 1


async def test_a_sub_rlm_of_the_killed_block_goes_on_where_it_stopped(run, block) -> None:
    """Its kernel ends with that of the block. What it was answered before is not asked again."""
    killed = []
    codes = {
        "How many?": ["a = str(sub_rlm('inner', (4, 13)))", "finalize(a)"],
        "inner": ["x = str(sub_query('q1', (0, 3)))", "y = str(sub_query('q2', (0, 3)))", "finalize(x + y)"],
    }

    async def child(request):
        if request.task == "q2" and not killed:
            killed.append(kernel_watchers()[0])
            os.kill(killed[0], signal.SIGKILL)
            await asyncio.sleep(0.3)
        return f"{request.task};"

    model = ScriptedModel.of(root=lambda one: block(codes[one.task][one.round - 1]), child=child)
    result = await run(model)
    assert result.answer == "q1;q2;"
    roots = [(one.task, one.round) for one in model.requests if one.role == "root"]
    assert roots.count(("inner", 1)) == roots.count(("inner", 2)) == 1
    assert [one.task for one in model.requests if one.role == "child"].count("q1") == 1


async def test_a_kill_of_the_forkserver_ends_well(run, block) -> None:
    """Running cells continue or are run again, and the next kernel comes from a new forkserver."""
    gone: list[int] = []

    def child(request):
        if request.task == "now" and not gone:
            gone.append(shared_forkserver().pid)
            os.kill(gone[0], signal.SIGKILL)
        return f"to {request.task}"

    model = ScriptedModel.of(
        root=[block("a = str(sub_query('then', (0, 3)))"), block("b = str(sub_query('now', (0, 3)))"),
              block("finalize([a, b])"), block("peek(0, 1)\nfinalize('another run')")],
        child=child,
    )  # fmt: skip
    assert (await run(model)).answer == ["to then", "to now"]
    assert [request.task for request in model.requests if request.role == "child"] == ["then", "now"]
    assert (await run(model)).answer == "another run"
    assert shared_forkserver().pid not in (None, *gone)


def leaf(pid: int) -> int:
    """Return the last of the line of processes that begins with a watcher: its kernel."""
    below = children_of(pid)
    return leaf(below[0]) if below else pid
