"""Test that a call's reserve follows the provider's counts of earlier calls."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from rlm import Limits
from rlm.accounting.budget import Budget
from rlm.accounting.metered_model import MeteredModel
from rlm.errors import BudgetExhausted, JournalError
from rlm.journal import Journal, stored_log
from rlm.models.base import Message, Reply, Request, TokenUsage
from rlm.models.catalog.info import Prices
from rlm.playback.recording import Recording
from rlm.testing import ScriptedModel

REQUEST = Request("child", (Message("user", "?"),), max_output_tokens=0, task="?")


async def test_reserves_are_calibrated_with_the_providers_usage(tmp_path: Path) -> None:
    """If a prompt took 1.5 times its estimate, the next reserve for that model is larger, and a call that
    would exceed the limit is not sent.
    """
    model = ScriptedModel.of(child=Reply("!", usage=TokenUsage(input_tokens=1_500)))
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        metered = MeteredModel(
            Budget(Limits(max_total_tokens=2_900)), log, Recording(), lambda _: None, Prices()
        )
        assert metered.calibrated(model, 1_000) == 1_000
        await metered.ask(model, REQUEST, prompt_tokens=1_000, event_fields={})
        assert 1_575 <= metered.calibrated(model, 1_000) <= 1_576
        assert metered.calibrated(ScriptedModel([], name="scripted:other"), 1_000) == 1_000
        # 1,400 tokens are left. The estimate is 1,000, and the model would take 1,500.
        with pytest.raises(BudgetExhausted, match="tokens"):
            await metered.ask(model, REQUEST, prompt_tokens=1_000, event_fields={})
    assert len(model.requests) == 1


async def test_who_lost_a_run_pays_for_nothing_more(tmp_path: Path, monkeypatch) -> None:
    """A worker that was only cut off checks its ownership before it begins a call."""
    monkeypatch.setattr(stored_log, "_CONFIRMED_SECONDS", 0.0)
    model, budget = ScriptedModel.of(child="!"), Budget(Limits())
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        metered = MeteredModel(budget, log, Recording(), lambda _: None, Prices())
        await metered.ask(model, REQUEST, prompt_tokens=1, event_fields={})
        async with journal.resume("r", take_over=True):
            with pytest.raises(JournalError, match="is written by another process"):
                await metered.ask(model, REQUEST, prompt_tokens=1, event_fields={})
    assert len(model.requests) == 1


async def test_a_cancelled_call_is_charged_in_the_journal_too(tmp_path: Path) -> None:
    """A resumed run knows what it spent: the provider charges for a prompt that it has begun to read."""
    began = asyncio.Event()

    class Endless(ScriptedModel):
        async def generate(self, request: Request) -> Reply:
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

    model = Endless([], name="scripted:endless")
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        metered = MeteredModel(Budget(Limits()), log, Recording(), lambda _: None, Prices())
        call = asyncio.ensure_future(metered.ask(model, REQUEST, prompt_tokens=5_000, event_fields={}))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (charge,) = (event.data for event in await log.events() if event.kind == "charge")
        assert (charge["role"], charge["model"], charge["error"]) == ("child", model.name, "cancelled")
        assert charge["usage"] == asdict(TokenUsage(input_tokens=5_000))
        assert (metered.usage()[0].input_tokens, charge["cost_usd"]) == (5_000, 0.0)
        assert Recording.of(await log.events()).spent.tokens == 5_000


async def test_a_cut_reply_whose_rest_was_cancelled_is_charged_and_counts_as_no_call(tmp_path: Path) -> None:
    """A resumed run makes the call again, and it counts then."""
    began = asyncio.Event()

    class Endless(ScriptedModel):
        async def generate(self, request: Request) -> Reply:
            if len(request.messages) == 1:
                return Reply("The first half", "length", TokenUsage(3_000, 40))
            began.set()
            await asyncio.Event().wait()
            raise AssertionError

    model = Endless([], name="scripted:endless")
    request = replace(REQUEST, max_output_tokens=50)
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        metered = MeteredModel(Budget(Limits()), log, Recording(), lambda _: None, Prices())
        call = asyncio.ensure_future(metered.ask(model, request, prompt_tokens=3_000, event_fields={}))
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        spent = Recording.of(await log.events()).spent
    assert spent.calls == 0
    assert spent.tokens > 6_000


async def test_a_cancelled_call_of_a_batch_is_not_charged(tmp_path: Path) -> None:
    """Its reply is collected by the resumed run, which then counts it."""
    model = ScriptedModel.of(child="!")
    model.collects_later = True
    cancelled = asyncio.CancelledError()
    model.generate = AsyncMock(side_effect=cancelled)
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        metered = MeteredModel(Budget(Limits()), log, Recording(), lambda _: None, Prices())
        with pytest.raises(asyncio.CancelledError):
            await metered.ask(model, REQUEST, prompt_tokens=5_000, event_fields={})
        assert [event.kind for event in await log.events()] == ["run_started"]
