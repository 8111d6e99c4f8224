"""Gives every micro benchmark a way to tell what the benchmark's clock does not measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def report(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Return a function that keeps facts as the benchmark's result, in place of a time, and prints them."""

    def tell(**facts: float) -> None:
        benchmark.extra_info["told"] = facts
        benchmark.pedantic(lambda: None, rounds=1)
        words = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
        with capsys.disabled():
            print(f"\n{benchmark.name}: {words}")

    return tell
