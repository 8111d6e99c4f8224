"""Slow models over a server that plays a provider's batch API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rlm.events import BatchesWaiting
from rlm.models.call_settings import CallSettings
from rlm.models.options import RetryPolicy
from rlm.models.slow_model import SlowModel, make_slow

RETRY = RetryPolicy(attempts=4, base=0.001, cap=0.002)
DEFAULT_CALLS = CallSettings()
TIMES = {
    "_IDLE_SECONDS": 0.05,
    "_LONGEST_GATHERING": 0.5,
    "_FIRST_POLL": 0.01,
    "_LONGEST_POLL": 0.02,
    "_REQUESTS": RETRY,
    "_BATCHES": RetryPolicy(attempts=3, base=0.02, cap=0.2),
}


@pytest.fixture
def progress() -> list[BatchesWaiting]:
    """Return what the slow models report."""
    return []


@pytest.fixture
async def slow(
    make_model: Callable[..., Any],
    batch_server: Any,
    tmp_path: Path,
    progress: list[BatchesWaiting],
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Callable[..., SlowModel]]:
    """Yield `slow(calls=…)`: a model over `batch_server` with the store `tmp_path/rlm.db`, in a hurry."""
    for name, value in TIMES.items():
        monkeypatch.setattr(f"rlm.models.slow_model.{name}", value)
    made: list[SlowModel] = []

    def make(url: str = batch_server.url, *, calls: CallSettings = DEFAULT_CALLS) -> SlowModel:
        model = make_slow(
            make_model(url, calls=calls),
            tmp_path / "rlm.db",
            progress.append,
            lambda *_: None,
        )
        made.append(model)
        return model

    make.protocol = make_model.protocol  # type: ignore[attr-defined]
    yield make
    for model in made:
        await model.aclose()
