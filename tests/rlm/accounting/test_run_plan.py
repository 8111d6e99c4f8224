"""Test the estimate of a run's cost, which spends nothing."""

from __future__ import annotations

import json

import pytest

from rlm import RLM, Limits, Settings
from rlm.errors import UsageError
from rlm.models.base import ModelWindow
from rlm.testing import ScriptedModel

TEXT = "a line of a long text, and more of it\n" * 20_000


class _Priced(ScriptedModel):
    @property
    def name(self) -> str:
        return "openai:gpt-5"


async def test_a_long_text_is_planned_as_a_pass_of_children() -> None:
    model = _Priced.of()
    plan = await RLM(model, limits=Limits(concurrency=4)).plan(TEXT)
    assert (plan.strategy, plan.chars, plan.documents) == ("rlm", len(TEXT), 1)
    assert plan.calls >= len(TEXT) // 100_000
    assert len(TEXT) / 5 < plan.tokens < len(TEXT)
    assert plan.cost_usd is not None
    assert 0.1 < plan.cost_usd < 1.0
    assert plan.seconds > 0
    assert model.requests == []


async def test_a_short_text_is_planned_as_one_call() -> None:
    plan = await RLM(_Priced.of()).plan("one two three")
    assert (plan.strategy, plan.calls) == ("direct", 1)
    assert plan.cost_usd is not None
    assert plan.cost_usd < 0.02


async def test_a_price_that_is_not_known_is_none() -> None:
    unknown = ScriptedModel.of(window=ModelWindow(8_000, 1_000))
    unknown.__class__ = type("Local", (ScriptedModel,), {"name": "openai:m@http://models.example/v1"})
    assert (await RLM(unknown).plan(TEXT)).cost_usd is None


async def test_a_plan_keeps_nothing(tmp_path) -> None:
    store = tmp_path / "rlm.db"
    await RLM("extractive", settings=Settings(store=store)).plan("one")
    assert not store.exists()


async def test_a_plan_of_nothing_is_refused(tmp_path) -> None:
    with pytest.raises(UsageError, match="missing"):
        await RLM("extractive").plan(tmp_path / "missing.txt")


async def test_a_plan_is_json() -> None:
    plan = await RLM("extractive").plan("one")
    assert json.loads(json.dumps(plan.to_json()))["strategy"] in ("rlm", "direct")


async def test_many_plans_are_those_of_each_and_leave_nothing(tmp_path, monkeypatch) -> None:
    (tmp_path / "temp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    rlm = RLM(_Priced.of())
    texts = ["one two three", TEXT, [f"text {number}" for number in range(3)]]
    assert await rlm.plan_each(texts) == [await rlm.plan(text) for text in texts]
    assert list((tmp_path / "temp").iterdir()) == []
