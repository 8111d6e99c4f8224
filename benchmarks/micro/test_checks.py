"""Measure checks of hostile and honest input: the driver's share must end within its bound for any of them.

`ns_a_step` is the price of one step of a budget: the bound in seconds is that price times the steps that the
driver may spend.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from rlm.answers.checker.pool import shared_pool
from rlm.answers.checks import MAX_SCHEMA_WORK, MAX_SEARCH_STEPS
from rlm.answers.json_schema import AnswerSchema, SchemaError, size_of
from rlm.sandbox.in_kernel.quoting.quote_search import Budget, Wanted, find_quotes

HOSTILE = {
    "one letter": ("a\n" * 500_000, ["a" * 4_900 + f"Z{number}" for number in range(50)]),
    "almost": ("a-b " * 200_000, ["ab ab ab" * 100, "a b" * 1_000]),
    "combining marks": ("e" + "\u0301\u0327" * 200_000, ["é" * 2_000, "e" + "\u0327\u0301" * 2_000]),
    "ligatures": ("ﬃ" * 200_000, ["ffi" * 1_600 + "x"]),
    "escapes": ("\\u00e9\\\\" * 100_000, ["é" * 3_000, "\\" * 4_000]),
    "emphasis": ("*" * 500_000 + "a", ["a" + "*" * 4_000 + "b"]),
    "full-width": ("１００円，" * 60_000, ["100万"]),
    "candidates": ("a-b. " * 200_000, ["ab"]),
    "honest": ("The quick brown fox jumps over the lazy dog. " * 7_000, ["The quick  brown cat"]),
}
SCHEMAS: dict[str, tuple[dict[str, Any], Any]] = {
    "alternatives": (
        {"items": {"anyOf": [{"items": {"type": name}} for name in ("string", "null", "boolean")]}},
        [[1]] * 2_000,
    ),
    "long names": ({"anyOf": [{"items": {"enum": ["x" * 5_000]}}] * 3}, [1] * 20),
    "honest": ({"properties": {"name": {"type": "string"}}, "required": ["name"]}, {"name": "x"}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_search_in_the_driver(benchmark: Any, name: str) -> None:
    text, quotes = HOSTILE[name]
    data = text.encode()
    near = [(number * 10_000, number * 10_000 + 10_000) for number in range(20)]
    spent = 0.0

    def search() -> None:
        nonlocal spent
        budget = Budget(MAX_SEARCH_STEPS)
        find_quotes(
            [Wanted(quote) for quote in quotes],
            lambda low, high: data[low:high],
            len(data),
            near,
            budget=budget,
        )
        spent = min(MAX_SEARCH_STEPS, MAX_SEARCH_STEPS - budget.steps)

    benchmark(search)
    benchmark.extra_info["ns_a_step"] = round(1e9 * benchmark.stats["median"] / spent, 2)
    assert benchmark.stats["median"] < 0.5


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_check_in_the_driver(benchmark: Any, name: str) -> None:
    given, value = SCHEMAS[name]
    schema = AnswerSchema.of(given)
    assert schema.parts is not None
    assert schema.parts * size_of(value) <= MAX_SCHEMA_WORK

    def check() -> None:
        with suppress(SchemaError):
            schema.check(value)

    benchmark(check)
    assert benchmark.stats["median"] < 0.5


def test_a_check_in_the_process(report: Callable[..., None]) -> None:
    """There and back, once the process runs."""
    request = {"kind": "schema", "schema": '{"type": "string"}', "value": json.dumps("a")}

    async def ask() -> None:
        await shared_pool().ask(request, seconds=5)

    async def many() -> float:
        await ask()
        began = time.perf_counter()
        for _ in range(100):
            await ask()
        return (time.perf_counter() - began) / 100

    report(milliseconds_a_check=round(1e3 * statistics.median(asyncio.run(many()) for _ in range(3)), 2))
