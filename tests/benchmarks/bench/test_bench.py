"""Test whole benches: what is written, what is done again, budgets, reports and replays."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace

import pytest

from benchmarks.quality.bench import (
    Bench,
    BenchFolder,
    Item,
    find_arm,
    report_of,
)
from rlm import RLM, Limits, Settings
from rlm.errors import ModelError, UsageError
from rlm.models.base import Reply, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.testing import ScriptedModel

FACT = "The crane costs 940 euros a day."
ITEMS = [
    Item(
        f"item-{number}",
        f"What does the crane cost, question {number}?",
        (f"{FACT}\n" * 4,),
        (gold,),
        rule,
        g,
    )
    for number, (gold, rule, g) in enumerate(
        (("940", "number", "a"), ("930", "near", "b"), ("940", "exact", "a"))
    )
]
FACTS = {"suite": "test", "model": "m", "sub_model": "m", "seed": 1, "rlm": "0"}
DIRECT = f'940\nEvidence:\n"{FACT}"'
PRICED = {"scripted:memory": ModelInfo(input_price=1.0, output_price=1.0)}


@pytest.fixture
def make(tmp_path, sandbox_level, block):
    """Return `make(folder, arms, model=…, …)`, a bench over ITEMS."""

    def build(folder: BenchFolder, *arms: str, model=None, max_cost=None, **options) -> Bench:
        usage = TokenUsage(900, 100)
        model = model or ScriptedModel.of(
            direct=lambda _: Reply(DIRECT, usage=usage),
            root=lambda _: Reply(block(f"peek(0, 9)\nfinalize('940', evidence=[{FACT!r}])"), usage=usage),
        )
        settings = Settings(sandbox=sandbox_level, store=folder.store, store_mb=1 << 30, facts=PRICED)
        rlm = RLM(model, settings=settings, limits=Limits(max_cost=0.05))
        return Bench(
            rlm,
            options.pop("items", ITEMS),
            [find_arm(arm) for arm in arms],
            options.pop("repeats", 1),
            folder,
            max_cost,
            **options,
        )

    return build


@pytest.fixture
def opened(tmp_path):
    with BenchFolder.open(tmp_path / "bench", FACTS, ITEMS) as folder:
        yield folder


async def test_a_bench_is_scored_and_reported(opened, make) -> None:
    end = await make(opened, "direct", "attempts-2", repeats=2).run()
    assert (end.missing, end.failed, end.stopped) == (0, [], "")
    assert len(opened.rows) == 12
    scores = {key[:2]: row.score for key, row in opened.rows.items()}
    assert scores["item-0", "direct"] == scores["item-0", "attempts-2"] == 1.0
    assert scores["item-1", "direct"] == pytest.approx(0.75**10)
    report = report_of(opened)
    direct, attempts = report.arms
    assert (direct.name, attempts.name, report.reference) == ("direct", "attempts-2", "direct")
    assert (direct.runs, direct.interval.count, direct.tokens) == (6, 3, 1_000)
    assert direct.cost_usd == pytest.approx(0.006)
    assert (direct.citations, direct.verified) == (6, 6)
    assert attempts.difference.equal == 3
    assert attempts.tokens == 2_000
    assert json.loads(json.dumps(report.to_json()))["arms"][0]["groups"]["a"]["mean"] == 1.0
    assert "| direct | 6 | 0.69 (" in report.markdown()


async def test_what_has_a_result_is_not_paid_again(opened, make, tmp_path) -> None:
    await make(opened, "direct", items=ITEMS[:2]).run()
    model = ScriptedModel.of(direct=[DIRECT])
    assert (await make(opened, "direct", model=model).run()).missing == 0
    assert len(model.requests) == 1


async def test_a_failing_provider_is_asked_again_by_the_next_start(opened, make) -> None:
    model = ScriptedModel.of(direct=[ModelError("the server is away"), DIRECT, DIRECT])
    end = await make(opened, "direct", model=model, jobs=1).run()
    assert (end.missing, len(end.failed)) == (1, 1)
    assert "the server is away" in end.failed[0]
    assert len(opened.rows) == 2
    assert (await make(opened, "direct").run()).missing == 0
    down = ScriptedModel.of(root=lambda _: ModelError("gone"))
    end = await make(opened, "code", "depth-1", model=down, jobs=1).run()
    assert end.stopped.startswith("5 runs in a row failed")
    assert end.missing == 6


async def test_the_budget_holds_for_the_whole_bench(opened, make) -> None:
    """Each run may take $0.05 and takes $0.001: with $0.0515 the third may not start, in any order."""
    end = await make(opened, "direct", max_cost=0.0515, jobs=3).run()
    assert end.missing == 1
    assert "larger --max-cost" in end.stopped
    assert sum(row.cost_usd for row in opened.rows.values()) == pytest.approx(0.002)
    end = await make(opened, "direct", max_cost=0.0515).run()
    assert (end.missing, len(opened.rows)) == (1, 2)
    assert (await make(opened, "direct", max_cost=0.0525).run()).missing == 0


async def test_an_interrupted_bench_resumes_its_runs(opened, make, block) -> None:
    """A run that was stopped between two rounds keeps the round that it has paid for."""
    reached = asyncio.Event()

    async def second(_):
        reached.set()
        await asyncio.sleep(600)

    first = block("x = 940\nprint(peek(0, 9))")
    model = ScriptedModel.of(root=[first, second])
    bench = asyncio.create_task(make(opened, "code", model=model, items=ITEMS[:1], jobs=1).run())
    await asyncio.wait_for(reached.wait(), 60)
    bench.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bench
    assert opened.rows == {}
    rest = ScriptedModel.of(root=[block(f"finalize(str(x), evidence=[{FACT!r}])")])
    assert (await make(opened, "code", model=rest, items=ITEMS[:1]).run()).missing == 0
    (row,) = opened.rows.values()
    assert (row.said, row.rounds, row.score) == ("940", 2, 1.0)
    assert len(rest.requests) == 1


def test_a_folder_keeps_what_it_is(tmp_path) -> None:
    path = tmp_path / "bench"
    with BenchFolder.open(path, FACTS, ITEMS[:1]) as folder:
        with (
            pytest.raises(UsageError, match="another bench is writing"),
            BenchFolder.open(path, FACTS, ()),
        ):
            pass
        assert folder.rows == {}
    with BenchFolder.open(path, FACTS, ITEMS):
        pass
    assert set(BenchFolder.read(path).facts["items"]) == {item.id for item in ITEMS}
    for facts, items, message in (
        ({**FACTS, "model": "other"}, ITEMS, "was started with model m, not other"),
        (FACTS, [replace(ITEMS[0], texts=("another text",))], "another text of the item item-0"),
    ):
        with pytest.raises(UsageError, match=message), BenchFolder.open(path, facts, items):
            pass
    with pytest.raises(UsageError, match="holds no bench"):
        BenchFolder.read(tmp_path)


def test_half_a_line_of_a_killed_bench_is_dropped(tmp_path) -> None:
    from benchmarks.quality.bench import Row

    path = tmp_path / "bench"
    row = Row("item-0", "direct", 1, "answered", "940", 1.0)
    with BenchFolder.open(path, FACTS, ITEMS) as folder:
        folder.append(row)
    with (path / "results.jsonl").open("ab") as stream:
        stream.write(json.dumps(asdict(replace(row, repeat=2))).encode()[:40])
    with BenchFolder.open(path, FACTS, ITEMS) as folder:
        assert list(folder.rows) == [row.key]
        folder.append(replace(row, repeat=3))
    assert list(BenchFolder.read(path).rows) == [row.key, ("item-0", "direct", 3)]
    with (path / "results.jsonl").open("ab") as stream:
        stream.write(b'{"other": 1}\n')
    with pytest.raises(UsageError, match="line 3 is no result"):
        BenchFolder.read(path)
