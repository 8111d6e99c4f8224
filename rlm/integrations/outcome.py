"""What another tool keeps of a run: a JSON-safe account with the rewards."""

from __future__ import annotations

import os
from typing import Any

from rlm.results import RunResult
from rlm.settings import Settings

__all__ = ["outcome_of"]


async def outcome_of(result: RunResult, settings: Settings) -> dict[str, Any]:
    """Return the answer of an ended run with its name in the journal, its figures and its rewards."""
    from rlm.journal import Journal, default_store
    from rlm.replay.rewards import Reward

    async with Journal.open(settings.store or default_store(os.environ)) as journal:
        events = await journal.events(result.run_id)
    return {
        "run_id": result.run_id,
        "answer": result.answer,
        "stop_reason": result.stop_reason,
        "rounds": result.rounds,
        "sub_calls": result.sub_calls,
        "seconds": round(result.seconds, 3),
        "citations": [
            {"place": one.place, "quote": one.quote, "verified": one.verified} for one in result.citations
        ],
        "warnings": list(result.warnings),
        "reward": Reward.of(result, events).to_json(),
    }
