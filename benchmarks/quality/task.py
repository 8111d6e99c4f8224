"""The suites as one Inspect task: its logs and viewer for our arms, suites and scores.

    inspect eval benchmarks/quality/task.py --model none -T suite=labels -T model=openai:gpt-5-mini

Needs the extra `bench` (inspect-ai). Each sample is a bench of one item and one arm, in a folder of its own
below `out`, with the journal of its run.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

import rlm
from benchmarks.quality.bench import Bench, BenchFolder, Item, Row, find_arm, find_suite, load_items
from rlm import RLM, Limits, Settings

__all__ = ["bench"]

_ROW = "rlm_bench_row"


@task
def bench(
    suite: str = "records",
    arm: str = "depth-1",
    model: str = "extractive",
    limit: int = 20,
    chars: int = 100_000,
    seed: int = 1,
    data: str | None = None,
    out: str = "bench-inspect",
    max_cost: float = 0.5,
) -> Task:
    """Return the task of one arm of a suite. `max_cost` limits one run, in US dollars. Suites that need a
    judge are refused."""
    items = load_items(
        find_suite(suite), limit=limit, seed=seed, chars=chars, data=None if data is None else Path(data)
    )
    if any(item.rule == "model" for item in items):
        raise ValueError(f"the suite {suite} needs a judge: take another one")
    samples = [
        Sample(input=item.question, target=list(item.golds), id=item.id, metadata={"group": item.group})
        for item in items
    ]
    by_id = {item.id: item for item in items}
    solve = answer_by_arm(by_id, suite, arm, model, seed, Path(out), max_cost)
    return Task(dataset=MemoryDataset(samples, name=suite), solver=solve, scorer=score_of_bench())


@solver
def answer_by_arm(
    items: dict[str, Item], suite: str, arm: str, model: str, seed: int, out: Path, max_cost: float
) -> Solver:
    """Run the arm on a sample's item. The prompts are those of rlm; Inspect's model is not asked."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        item = items[str(state.sample_id)]
        facts = {"suite": suite, "model": model, "sub_model": model, "seed": seed, "rlm": rlm.__version__}
        path = out / suite / find_arm(arm).name / f"{item.id}-{state.epoch}"
        with BenchFolder.open(path, facts, [item]) as folder:
            settings = Settings(store=folder.store, store_mb=1 << 30, document_cache=False)
            runtime = RLM(model, settings=replace(settings), limits=Limits(max_cost=max_cost))
            end = await Bench(runtime, [item], [find_arm(arm)], 1, folder, None, jobs=1).run()
            if end.missing:
                raise RuntimeError(end.stopped or end.failed[-1])
            (row,) = folder.rows.values()
        state.output = ModelOutput.from_content(model, row.said)
        state.metadata[_ROW] = asdict(row)
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def score_of_bench() -> Scorer:
    """Return the score by the rule of the item."""

    async def score(state: TaskState, target: Target) -> Score:
        row = Row.from_json(state.metadata[_ROW])
        assert row.score is not None
        figures = {"tokens": row.tokens, "cost_usd": row.cost_usd, "seconds": row.seconds, "run": row.run_id}
        return Score(value=row.score, answer=row.said, explanation=row.detail or None, metadata=figures)

    return score
