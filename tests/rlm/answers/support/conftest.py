"""Provide a model that checks claims, with a real budget and journal."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from rlm import Limits
from rlm.accounting.budget import Budget
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import MeteredModel
from rlm.accounting.run_context import ConcurrencyLimits, RunContext
from rlm.answers.support.model_check import SupportModel
from rlm.journal import Journal
from rlm.models.base import Model, Request
from rlm.models.catalog.info import Prices
from rlm.playback.recording import Recording
from tests.rlm.answers.support.planted import claims_in, is_planted


def careful_checker(*texts: str, planted: bool = True) -> Callable[[Request], str]:
    """Return a careful checker: it names the claims that begin with one of `texts`, and the planted one."""

    def answer(request: Request) -> str:
        prompt = request.messages[-1].content
        numbers = [
            number
            for number, text in claims_in(prompt)
            if text.startswith(texts) or (planted and is_planted(text, prompt))
        ]
        named = ", ".join(f'{{"claim": {number}, "reason": "no passage says so"}}' for number in numbers)
        return f'{{"unsupported": [{named}]}}'

    return answer


@pytest.fixture
def unsupported() -> Callable[..., Callable[[Request], str]]:
    """Return a function that makes a careful checker."""
    return careful_checker


@pytest.fixture
async def support_model(tmp_path: Path) -> AsyncIterator[Callable[..., SupportModel]]:
    """Return a function that makes a SupportModel of a model and limits."""
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(Journal.open(tmp_path / "rlm.db"))
        log = await stack.enter_async_context(journal.run("r", "?", {}))

        def make(model: Model, limits: Limits | None = None) -> SupportModel:
            budget = Budget(limits or Limits())
            metered = MeteredModel(budget, log, Recording(), lambda _: None, Prices())
            context = RunContext(
                budget, metered, CoverageLedger(0), log, ConcurrencyLimits(4), lambda _: None
            )
            return SupportModel(model, context)

        yield make
