"""One arm of a suite as an Inspect task. Inspect runs the samples, keeps and shows the logs, and retries.

    inspect eval benchmarks/quality/task.py --model none -T suite=labels -T model=openai:gpt-5-mini
    inspect eval benchmarks/quality/task.py --model none -T suite=labels -T arm=rlms -T unconfined=true …

Needs the extra `inspect`. Every run of ours is in `store`, by the name `ITEM.ARM.EPOCH`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from benchmarks.quality.arms import TooLong, find_arm
from benchmarks.quality.item import Item
from benchmarks.quality.peers import PEERS, key_of, make_environment, order_of
from benchmarks.quality.scoring import score
from benchmarks.quality.suites import find_suite, load_items
from rlm import Limits, Settings, __version__
from rlm.errors import ModelError
from rlm.models.base import TokenUsage
from rlm.models.catalog.info import price
from rlm.results import RESUMABLE

__all__ = ["bench"]

_FIGURES = "figures"


@dataclass(slots=True)
class _Figures:
    """What one run cost and found. `status` is `answered`, `not found`, `no answer` or `too long`; `detail`
    says why there is no answer."""

    status: str
    detail: str = ""
    run_id: str = ""
    rounds: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    citations: int = 0
    verified: int = 0


@task
def bench(
    suite: str = "records",
    arm: str = "depth-1",
    model: str = "extractive",
    limit: int = 20,
    chars: int = 100_000,
    seed: int = 1,
    data: str | None = None,
    store: str = "bench.db",
    max_cost: float = 0.5,
    unconfined: bool = False,
) -> Task:
    """Return the task of one arm of a suite. `max_cost` limits one run, in US dollars.

    The arm may be a peer (`rlms`, `dspy`), which runs model-written code here without isolation: it wants
    `unconfined`. Raises ValueError for a suite that needs a judge, and for a peer without that word.
    """
    items = load_items(
        find_suite(suite), limit=limit, seed=seed, chars=chars, data=None if data is None else Path(data)
    )
    if any(item.rule == "model" for item in items):
        raise ValueError(f"the suite {suite} needs a judge: take another one")
    samples = [
        Sample(
            input=item.question,
            target=list(item.golds),
            id=item.id,
            metadata={"group": item.group, "rule": item.rule, "digest": item.digest},
        )
        for item in items
    ]
    by_id = {item.id: item for item in items}
    if arm in PEERS and not unconfined:
        raise ValueError(f"{arm} runs model-written code here without isolation: add -T unconfined=true")
    solve = (
        answer_by_peer(by_id, arm, model)
        if arm in PEERS
        else answer_by_arm(by_id, arm, model, store, max_cost)
    )
    facts = {"suite": suite, "arm": arm, "model": model, "seed": seed, "chars": chars, "rlm": __version__}
    return Task(
        dataset=MemoryDataset(samples, name=suite), solver=solve, scorer=score_by_rule(), metadata=facts
    )


@solver
def answer_by_arm(items: dict[str, Item], arm: str, model: str, store: str, max_cost: float) -> Solver:
    """Run the arm on a sample's item. The prompts are those of rlm; Inspect's model is not asked."""
    way = find_arm(arm)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        item = items[str(state.sample_id)]
        settings = Settings(store=Path(store), store_mb=1 << 30, document_cache=False)
        name = f"{item.id}.{way.name}.{state.epoch:02d}"
        try:
            result, said = await way.answer(
                model, item, name, settings=settings, limits=Limits(max_cost=max_cost)
            )
        except TooLong as error:
            return _told(state, model, "", _Figures("too long", str(error)))
        if result.stop_reason in RESUMABLE:
            raise ModelError(result.cause or "the provider failed")
        return _told(
            state,
            model,
            said,
            _Figures(
                status="no answer" if not said.strip() else "answered" if result.found else "not found",
                detail="" if said.strip() else result.cause or "",
                run_id=result.run_id,
                rounds=result.rounds,
                calls=sum(usage.calls for usage in result.usage),
                input_tokens=sum(usage.input_tokens for usage in result.usage),
                output_tokens=sum(usage.output_tokens for usage in result.usage),
                cost_usd=result.cost_usd,
                seconds=result.seconds,
                citations=len(result.citations),
                verified=sum(citation.verified for citation in result.citations),
            ),
        )

    return solve


@solver
def answer_by_peer(items: dict[str, Item], peer: str, model: str) -> Solver:
    """Ask a peer for a sample's answer, in an environment of its own that the first sample makes."""
    environments = Path(tempfile.gettempdir()) / "rlm-quality-peers"
    making = asyncio.Lock()

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        order = order_of(items[str(state.sample_id)], model, Limits().max_rounds)
        async with making:
            python = await asyncio.to_thread(make_environment, peer, environments)
        began = time.monotonic()
        answer = await PEERS[peer].answer(python, order, key_of(model))
        figures = _Figures(
            status="answered" if answer.said.strip() else "no answer",
            calls=answer.calls,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost_usd=price(model, TokenUsage(answer.input_tokens, answer.output_tokens)),
            seconds=round(time.monotonic() - began, 3),
        )
        return _told(state, model, answer.said, figures)

    return solve


def _told(state: TaskState, model: str, said: str, figures: _Figures) -> TaskState:
    state.output = ModelOutput.from_content(model, said)
    state.metadata[_FIGURES] = asdict(figures)
    return state


@scorer(metrics=[mean(), stderr()])
def score_by_rule() -> Scorer:
    """Return the score by the rule of the item."""

    async def points(state: TaskState, target: Target) -> Score:
        said, figures = state.output.completion, state.metadata[_FIGURES]
        value = score(state.metadata["rule"], said, list(target)) if said else 0.0
        return Score(value=value, answer=said, explanation=figures["detail"] or None, metadata=figures)

    return points
