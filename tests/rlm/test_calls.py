"""prompts.md §8: what a call reserves follows what the provider counted of the calls before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm import Limits
from rlm.budget import Budget
from rlm.calls import Caller
from rlm.errors import BudgetExhausted
from rlm.journal import Journal
from rlm.models.base import Message, Reply, Request, TokenUsage
from rlm.models.prices import Prices
from rlm.playback import Playback
from rlm.testing import ScriptedModel

REQUEST = Request("child", (Message("user", "?"),), max_output_tokens=0, task="?")


async def test_reserves_are_calibrated_with_the_providers_usage(tmp_path: Path) -> None:
    """A prompt that took half again as much as was estimated makes the next reserve larger, of that model
    alone: what would overrun the limit is not sent."""
    model = ScriptedModel.of(child=Reply("!", usage=TokenUsage(input_tokens=1_500)))
    async with Journal.open(tmp_path / "rlm.db") as journal, journal.run("r", "?", {}) as log:
        caller = Caller(Budget(Limits(tokens=2_900)), log, Playback(), lambda _: None, Prices())
        assert caller.calibrated(model, 1_000) == 1_000
        await caller.ask(model, REQUEST, prompt_tokens=1_000, facts={})
        assert 1_575 <= caller.calibrated(model, 1_000) <= 1_576
        assert caller.calibrated(ScriptedModel([], name="scripted:other"), 1_000) == 1_000
        # 1,400 tokens are left, the estimate says 1,000: the model would take 1,500.
        with pytest.raises(BudgetExhausted, match="tokens"):
            await caller.ask(model, REQUEST, prompt_tokens=1_000, facts={})
    assert len(model.requests) == 1
