"""Limits of a run. Their options, defaults and bounds are rows of `rlm.settings_table`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeVar

from rlm.errors import ConfigurationError
from rlm.settings_table import LIMITS, SETTINGS, Setting

__all__ = [
    "LOADING_SHARE",
    "Limits",
    "limit_names",
    "limit_of_measure",
    "measure_of_limit",
    "slow_defaults",
]

LOADING_SHARE = 0.5
"""The part of `max_seconds` that loading the input may take."""
_MEASURES = {
    "max_rounds": "rounds",
    "max_depth": "depth",
    "max_calls": "sub_calls",
    "max_total_tokens": "tokens",
    "max_cost": "cost_usd",
    "max_seconds": "seconds",
    "max_violations": "violations",
}
"""What a limit measures, by its field, where journals and budgets call it otherwise."""
_LIMITS = {measure: limit for limit, measure in _MEASURES.items()}
_VIOLATIONS = Setting("max_violations", LIMITS, int, 3, "", minimum=1)
_Class = TypeVar("_Class", bound=type)


def slow_defaults() -> dict[str, Any]:
    """Return the limits that have another default in a slow run, by the names of their fields."""
    return {row.name: row.slow for row in SETTINGS.values() if row.slow is not None}


def limit_of_measure(measure: str) -> str:
    """Return the field of Limits for a name in budgets and journals: `max_calls` for `sub_calls`."""
    return _LIMITS.get(measure, measure)


def measure_of_limit(limit: str) -> str:
    """Return the name in budgets and journals for a field of Limits, the reverse of `limit_of_measure`."""
    return _MEASURES.get(limit, limit)


def limit_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits by the names of their fields. They may be named by what they measure (`cost_usd`), as in
    journals. Raises ConfigurationError for an unknown name and for a limit that has two."""
    names = {limit.name for limit in fields(Limits)}
    limits: dict[str, Any] = {}
    for name, value in given.items():
        limit = limit_of_measure(name)
        if limit not in names:
            raise ConfigurationError(f"there is no limit {name!r}: {_remedy(name, names)}")
        if limit in limits:
            raise ConfigurationError(f"{limit} is given twice, also as {name}: leave one out")
        limits[limit] = value
    return limits


def _remedy(name: str, names: set[str]) -> str:
    if name == "max_tokens":
        return "the run's total is max_total_tokens, and a reply's length is the model's option output"
    return f"use {', '.join(sorted(names))}"


def _with_measures(limits: _Class) -> _Class:
    """Let the constructor take the names of what is measured, too."""
    construct = limits.__init__  # type: ignore[misc]

    @wraps(construct)
    def construct_by_measure(self: Any, *values: Any, **named: Any) -> None:
        construct(self, *values, **limit_names(named))

    limits.__init__ = construct_by_measure  # type: ignore[misc]
    return limits


@_with_measures
@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run, including all its children and sub-RLMs.

    max_rounds: the rounds of each RLM, including the last one, in which it may only finalize.
    max_depth: the levels of sub-RLMs with their own kernels.
    max_calls: child calls.
    max_total_tokens: input and output tokens of all calls together.
    max_cost: US dollars. Has no effect on models without a known price.
    max_seconds: the wall-clock time of the whole run.
    cell_seconds: the computing time of one cell.
    concurrency: calls in flight per provider.
    max_violations: this number of consecutive violations ends the run.
    child_tokens: tokens of one child's prompt. None follows each child model's window and how much it reads
        well (`rlm.children.sub_models`).

    The constructor takes the names of what is measured, too: rounds, depth, sub_calls, tokens, cost_usd,
    seconds, violations. Raises ConfigurationError, which names the invalid field.
    """

    max_rounds: int = SETTINGS["max_rounds"].default
    max_depth: int = SETTINGS["max_depth"].default
    max_calls: int = SETTINGS["max_calls"].default
    max_total_tokens: int = SETTINGS["max_total_tokens"].default
    max_cost: float = SETTINGS["max_cost"].default
    max_seconds: float = SETTINGS["max_seconds"].default
    cell_seconds: float = SETTINGS["cell_seconds"].default
    concurrency: int = SETTINGS["concurrency"].default
    max_violations: int = _VIOLATIONS.default
    child_tokens: int | None = SETTINGS["child_tokens"].default

    def to_json(self) -> dict[str, Any]:
        """Return the limits as journals hold them, by what they measure. The constructor reads them back."""
        return {measure_of_limit(limit.name): getattr(self, limit.name) for limit in fields(self)}

    def __post_init__(self) -> None:
        for limit in fields(self):
            fault = SETTINGS.get(limit.name, _VIOLATIONS).fault(getattr(self, limit.name))
            if fault is not None:
                raise ConfigurationError(fault, option=f"limits.{limit.name}")
