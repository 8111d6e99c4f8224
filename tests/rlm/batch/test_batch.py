"""Batches on the local engine: real runs, real kernels, a scripted model."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.batch.batch import failed_line, local_engine, run_batch
from rlm.batch.results import BatchSummary, ResultsFile
from rlm.batch.tasks import BatchTask, TasksFile
from rlm.errors import ConfigurationError, ModelRejected, ModelUnavailable, UsageError
from rlm.models.base import Reply, Request, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.sandbox.errors import ContextFileError, SandboxError
from rlm.testing import ScriptedModel


def quoting(request: Request) -> str:
    """A direct answer: the text's first words, quoted as the evidence."""
    return f'{request.task}\nEvidence:\n"{request.slices[0].text[:20]}"'


class Folder:
    """A tasks file, its results and its journal."""

    def __init__(self, folder: Path, level: int) -> None:
        self.tasks = folder / "tasks.jsonl"
        self.out = folder / "results.jsonl"
        self.store = folder / "rlm.db"
        self.level = level
        self.events: list[Any] = []
        self.progress: list[int] = []

    def write(self, *tasks: dict[str, Any]) -> None:
        self.tasks.write_text("".join(json.dumps(task) + "\n" for task in tasks))

    def short(self, count: int, **more: Any) -> None:
        self.write(
            *(
                {"id": f"t{n}", "task": f"What is {n}?", "context": [{"text": f"Number {n} is a number."}]}
                | more
                for n in range(count)
            )
        )

    async def run(
        self,
        model: Any,
        *,
        budget: float | None = None,
        slots: int = 4,
        limits: Limits | None = None,
        settings: Settings | None = None,
        floor: float = 0.0,
    ) -> BatchSummary:
        chosen = replace(settings or Settings(), sandbox=self.level, store=self.store)
        limits = limits or Limits()
        rlm = RLM(model, limits=limits, settings=chosen, observe=self.events.append)
        with (
            TasksFile.open(self.tasks) as tasks,
            ResultsFile.open(self.out, "b", {"model": rlm.model.name}) as results,
        ):
            async with local_engine(rlm, slots) as run:
                return await run_batch(
                    tasks,
                    results,
                    run,
                    slots=slots,
                    limits=limits,
                    store=str(self.store),
                    budget=budget,
                    floor=floor,
                    on_progress=lambda one: self.progress.append(one.done),
                )

    def lines(self) -> dict[Any, dict[str, Any]]:
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        found = {line["id"]: line for line in lines}
        assert len(found) == len(lines), "a task has two lines"
        return found


@pytest.fixture
def folder(tmp_path: Path, sandbox_level: int) -> Folder:
    return Folder(tmp_path, sandbox_level)


async def test_every_task_gets_exactly_one_line_with_its_id_and_its_result(folder: Folder) -> None:
    folder.short(30)
    summary = await folder.run(ScriptedModel.of(direct=quoting))
    lines = folder.lines()
    assert set(lines) == {f"t{n}" for n in range(30)}
    assert lines["t7"]["answer"] == "What is 7?"
    assert lines["t7"]["citations"][0]["verified"]
    assert lines["t7"]["error"] is None
    assert (summary.tasks, summary.done, summary.answered, summary.before) == (30, 30, 30, 0)
    assert folder.progress == list(range(1, 31))


async def test_a_task_has_its_own_limits_and_schema(folder: Folder, block: Callable[[str], str]) -> None:
    text = [{"text": "one two three"}]
    folder.write(
        {"id": 1, "task": "a", "context": text, "limits": {"rounds": 2}},
        {"id": 2, "task": "b", "context": text, "schema": {"type": "integer"}},
    )

    def root(request: Request) -> str:
        return block("print(peek(0, 3))" if request.task == "a" else "peek(0, 3)\nfinalize(3)")

    await folder.run(ScriptedModel.of(root=root), settings=Settings(strategy="rlm"))
    lines = folder.lines()
    assert (lines[1]["answer"], lines[1]["stop_reason"], lines[1]["rounds"]) == (None, "rounds", 2)
    assert lines[2]["answer"] == 3


async def test_a_task_whose_file_is_gone_has_an_error_and_the_others_run(
    folder: Folder, tmp_path: Path
) -> None:
    (tmp_path / "empty.bin").write_bytes(b"\0" * 100)
    good = {"id": "good", "task": "a", "context": [{"text": "some text that is long"}]}
    folder.write(good, {"id": "bad", "task": "a", "context": [str(tmp_path / "empty.bin")]})
    summary = await folder.run(ScriptedModel.of(direct=quoting))
    lines = folder.lines()
    assert lines["good"]["answer"] == "a"
    assert lines["bad"]["stop_reason"] == "error"
    assert lines["bad"]["error"]["type"] == "DocumentError"
    assert dict(summary.ends) == {"answered": 1, "error": 1}


async def test_a_second_start_does_not_run_finished_tasks_again(folder: Folder) -> None:
    folder.short(5)
    await folder.run(ScriptedModel.of(direct=quoting))
    before = folder.out.read_bytes()
    model = ScriptedModel.of(direct=quoting)
    summary = await folder.run(model)
    assert model.requests == []
    assert folder.out.read_bytes() == before
    assert (summary.done, summary.before) == (5, 5)


async def test_after_a_cancel_no_reply_is_requested_twice(
    folder: Folder, block: Callable[[str], str]
) -> None:
    folder.short(8)
    asked: list[str] = []
    stop = asyncio.Event()

    async def root(request: Request) -> str:
        asked.append(f"{request.task} {request.round}")
        if request.round == 2 and not stop.is_set() and len(asked) > 9:
            stop.set()
            await asyncio.sleep(30)
        return block("x = peek(0, 5)" if request.round == 1 else "finalize(x)")

    model = ScriptedModel.of(root=root)
    settings = Settings(strategy="rlm")
    running = asyncio.ensure_future(folder.run(model, settings=settings, slots=3))
    await stop.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    half = set(asked)
    asked.clear()
    await folder.run(model, settings=settings, slots=3)
    assert set(folder.lines()) == {f"t{n}" for n in range(8)}
    assert all(line["answer"] == "Numbe" for line in folder.lines().values())
    # Only what was in flight may have been asked before.
    assert len(half & set(asked)) <= 3
    assert not any(question.endswith(" 1") for question in half & set(asked))


async def test_a_task_that_changed_after_its_line_was_written_is_refused(folder: Folder) -> None:
    folder.short(2)
    await folder.run(ScriptedModel.of(direct=quoting))
    folder.short(2, task="Another question")
    with pytest.raises(UsageError, match=r"line 1 of .* \(task 't0'\) has changed since"):
        await folder.run(ScriptedModel.of(direct=quoting))


def paying(tokens: int) -> Callable[[Request], Awaitable[Reply]]:
    async def reply(request: Request) -> Reply:
        await asyncio.sleep(0.01)
        return Reply(quoting(request), usage=TokenUsage(input_tokens=tokens))

    return reply


async def test_the_batch_spends_no_more_than_its_budget_and_says_which_tasks_it_left(folder: Folder) -> None:
    folder.short(20)
    facts = {"scripted:memory": ModelInfo(input_price=10.0, output_price=0.0)}
    settings = Settings(facts=facts)
    # Every task costs one cent: 1,000 tokens at 10 dollars a million.
    summary = await folder.run(
        ScriptedModel.of(direct=paying(1_000)), budget=0.1, settings=settings, floor=0.01
    )
    lines = folder.lines()
    assert len(lines) == 20
    assert 0.05 <= summary.cost_usd <= 0.1 + 1e-9
    left = [line for line in lines.values() if line["answer"] is None]
    assert {line["error"]["type"] for line in left if line["error"]} == {"BudgetExhausted"}
    # With more money the same command runs what was left, and counts what was spent before.
    more = await folder.run(ScriptedModel.of(direct=paying(1_000)), budget=1.0, settings=settings, floor=0.01)
    assert more.answered == 20
    assert more.cost_usd == pytest.approx(0.2)


async def test_a_provider_that_fails_task_after_task_stops_the_batch_and_the_tasks_are_retried(
    folder: Folder,
) -> None:
    folder.short(40)
    down = ScriptedModel.of(direct=ModelRejected("no such key"))
    with pytest.raises(
        ModelUnavailable,
        match=r"10 consecutive tasks failed \(the provider failed: no such key\).*same command",
    ):
        await folder.run(down)
    assert 10 <= len(folder.lines()) < 20
    summary = await folder.run(ScriptedModel.of(direct=quoting))
    assert summary.answered == 40
    assert len(folder.lines()) == 40


async def test_the_cost_of_unfinished_tasks_of_an_earlier_start_counts_in_the_budget(
    folder: Folder, block: Callable[[str], str]
) -> None:
    """Each round costs a cent. Two starts together spend what one may, and one call a slot more."""
    folder.short(12)
    paid: list[str] = []
    stop = asyncio.Event()

    async def root(request: Request) -> Reply:
        if request.round == 2 and not stop.is_set() and len(paid) > 6:
            stop.set()
            await asyncio.sleep(30)
        paid.append(request.task)
        code = "x = peek(0, 5)" if request.round < 3 else "finalize(x)"
        return Reply(block(code), usage=TokenUsage(input_tokens=1_000))

    facts = {"scripted:memory": ModelInfo(input_price=10.0, output_price=0.0)}
    settings = Settings(strategy="rlm", facts=facts)
    start = functools.partial(
        folder.run, ScriptedModel.of(root=root), settings=settings, slots=4, floor=0.12, budget=0.3
    )
    running = asyncio.ensure_future(start())
    await stop.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    before = len(paid)
    summary = await start()
    assert before > 6
    assert summary.cost_usd == pytest.approx(0.01 * len(paid), abs=0.011 * 4)
    assert 0.01 * len(paid) <= 0.3 + 0.01 * 4
    assert 4 < summary.answered < 12
    assert summary.ends["error"] == 12 - summary.answered, "the budget was not for all"


async def test_an_unfinished_task_gets_a_share_on_top_of_its_earlier_cost(
    folder: Folder, block: Callable[[str], str]
) -> None:
    """Of 42 cents 20 are gone, and about 6 for the call that was cut off; the rest is for what is left."""
    folder.short(1)
    stop = asyncio.Event()

    async def root(request: Request) -> Reply:
        if request.round == 5 and not stop.is_set():
            stop.set()
            await asyncio.sleep(30)
        code = f"x = peek(0, 5)  # {request.round}" if request.round < 6 else "finalize(x)"
        return Reply(block(code), usage=TokenUsage(input_tokens=5_000))

    facts = {"scripted:memory": ModelInfo(input_price=10.0, output_price=0.0)}
    settings = Settings(strategy="rlm", facts=facts)
    start = functools.partial(folder.run, ScriptedModel.of(root=root), settings=settings, floor=0.1, slots=1)
    running = asyncio.ensure_future(start(budget=0.5))
    await stop.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    summary = await start(budget=0.42)
    assert folder.lines()["t0"]["answer"] == "Numbe"
    assert 0.3 < summary.cost_usd < 0.42


async def test_a_failed_task_reports_its_usage(folder: Folder, block: Callable[[str], str]) -> None:
    folder.short(1)

    async def root(request: Request) -> Reply:
        if request.round == 2:
            raise ContextFileError("deliberate")
        return Reply(block("x = peek(0, 5)"), usage=TokenUsage(input_tokens=1_000))

    summary = await folder.run(ScriptedModel.of(root=root), settings=Settings(strategy="rlm"))
    line = folder.lines()["t0"]
    assert line["error"] == {"type": "ContextFileError", "message": "deliberate"}
    assert [(usage["calls"], usage["input_tokens"]) for usage in line["usage"]] == [(1, 1_000)]
    assert summary.calls == 1


async def test_without_kernels_the_batch_stops_after_ten_tasks(folder: Folder) -> None:
    async def run(task: BatchTask, run_id: str, limits: Limits) -> dict[str, Any]:
        await asyncio.sleep(0)
        return failed_line(task.id, run_id, "KernelStartError", "no memory")

    folder.short(40)
    with (
        TasksFile.open(folder.tasks) as tasks,
        ResultsFile.open(folder.out, "b", {"model": "scripted:memory"}) as results,
        pytest.raises(SandboxError, match=r"10 consecutive tasks failed \(no kernel started: no memory\)"),
    ):
        await run_batch(tasks, results, run, slots=4, limits=Limits(), store=str(folder.store))
    assert 10 <= len(folder.lines()) < 15
    assert (await folder.run(ScriptedModel.of(direct=quoting))).answered == 40


async def test_an_error_that_concerns_all_tasks_stops_the_batch_at_once(folder: Folder) -> None:
    folder.short(3)
    with pytest.raises(ConfigurationError, match="deliberate"):
        await folder.run(ScriptedModel.of(direct=ConfigurationError("deliberate")))
    assert folder.lines() == {}


async def test_a_task_killed_before_its_input_was_kept_is_run_from_the_task(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's name is in the journal, its input is not yet: the task itself has it."""
    folder.short(1)

    async def killed(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("rlm.journal.inputs.keep", killed)
        with pytest.raises(RuntimeError, match="killed"):
            await folder.run(ScriptedModel.of(direct=quoting))
    await folder.run(ScriptedModel.of(direct=quoting))
    assert folder.lines()["t0"]["answer"] == "What is 0?"
