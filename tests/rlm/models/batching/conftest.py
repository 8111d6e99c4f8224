"""Slow models over a server that plays a provider's batch API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlm.events import BatchesWaiting
from rlm.models.batching.policy import BatchingPolicy
from rlm.models.batching.slow_model import SlowModel, make_slow
from rlm.models.call_settings import CallSettings
from rlm.models.options import RetryPolicy

RETRY = RetryPolicy(attempts=4, base=0.001, cap=0.002)
DEFAULT_CALLS = CallSettings()
POLICY = BatchingPolicy(idle_seconds=0.05, longest_wait=0.5, first_poll=0.01, longest_poll=0.02, retry=RETRY)


@pytest.fixture
def progress() -> list[BatchesWaiting]:
    """Return what the slow models report."""
    return []


@pytest.fixture
async def slow(
    make_model: Callable[..., Any], batch_server: Any, tmp_path: Path, progress: list[BatchesWaiting]
) -> AsyncIterator[Callable[..., SlowModel]]:
    """Yield `slow(calls=…, **policy)`: a model over `batch_server`, with the store `tmp_path/rlm.db`."""
    made: list[SlowModel] = []

    def make(url: str = batch_server.url, *, calls: CallSettings = DEFAULT_CALLS, **policy: Any) -> SlowModel:
        model = make_slow(
            make_model(url, calls=calls),
            tmp_path / "rlm.db",
            policy=replace(POLICY, **policy),
            on_batches=progress.append,
        )
        made.append(model)
        return model

    make.protocol = make_model.protocol  # type: ignore[attr-defined]
    yield make
    for model in made:
        await model.aclose()
