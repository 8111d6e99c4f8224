"""Limits of a run. Each field carries its option of the command line, so that a limit is declared once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, field, fields
from functools import wraps
from typing import Any, TypeVar

from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass

__all__ = [
    "LOADING_SHARE",
    "LimitOption",
    "Limits",
    "limit_names",
    "limit_of_measure",
    "measure_of_limit",
    "option_of_limit",
    "slow_defaults",
]

LOADING_SHARE = 0.5
"""The part of `max_seconds` that loading the input may take."""
_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class LimitOption:
    """The option that sets a limit (`max_rounds` is `--max-rounds`): its help.

    folder_may_lower: `rlm.toml` of a folder may set a lower value.
    """

    help: str
    folder_may_lower: bool = True


def _limit(
    default: Any,
    minimum: int | None = None,
    option: LimitOption | None = None,
    *,
    measure: str | None = None,
    slow: Any = None,
) -> Any:
    """Declare a limit. It is at least `minimum`; None means above 0. `measure` is the name of what it limits,
    in budgets and journals, if that is another. `slow` is the default of slow runs."""
    facts = {"minimum": minimum, "option": option, "measure": measure, "slow": slow}
    return field(default=default, metadata=facts)


def slow_defaults() -> dict[str, Any]:
    """Return the limits that have another default in a slow run, by the names of their fields."""
    slow = {limit.name: limit.metadata["slow"] for limit in fields(Limits)}
    return {name: value for name, value in slow.items() if value is not None}


_MIN_CHILD_TOKENS = 1_000
"""The instructions around a slice take about 500 tokens."""


def option_of_limit(limit: Field[Any]) -> LimitOption | None:
    """Return the option that sets a field of Limits, or None if it can be set in Python only."""
    option: LimitOption | None = limit.metadata["option"]
    return option


def limit_of_measure(measure: str) -> str:
    """Return the field of Limits for a name in budgets and journals: `max_calls` for `sub_calls`."""
    return next((limit.name for limit in fields(Limits) if limit.metadata["measure"] == measure), measure)


def measure_of_limit(limit: str) -> str:
    """Return the name in budgets and journals for a field of Limits, the reverse of `limit_of_measure`."""
    return next((one.metadata["measure"] or limit for one in fields(Limits) if one.name == limit), limit)


def limit_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits by the names of their fields. They may be named by what they measure (`cost_usd`), as in
    journals. Raises ConfigurationError for an unknown name and for a limit that has two."""
    names = {limit.name for limit in fields(Limits)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        limit = limit_of_measure(name)
        if limit not in names:
            raise ConfigurationError(f"there is no limit {name!r}: {_remedy(name, names)}")
        if limit in found:
            raise ConfigurationError(f"{limit} is given twice, also as {name}: leave one out")
        found[limit] = value
    return found


def _remedy(name: str, names: set[str]) -> str:
    if name == "max_tokens":
        return (
            "the run's total is max_total_tokens, and a reply's length is the model's option output "
            "(--max-tokens)"
        )
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

    max_rounds: int = _limit(30, 1, LimitOption("Maximum rounds of a root."), measure="rounds")
    max_depth: int = _limit(
        1, 0, LimitOption("Maximum depth of sub-RLMs; 0: children only."), measure="depth"
    )
    max_calls: int = _limit(1_000, 0, LimitOption("Maximum child calls."), measure="sub_calls")
    max_total_tokens: int = _limit(
        10_000_000, 1, LimitOption("Maximum tokens of all calls together."), measure="tokens"
    )
    max_cost: float = _limit(5.0, 0, LimitOption("Maximum cost in US dollars."), measure="cost_usd")
    max_seconds: float = _limit(
        1_800.0,
        None,
        LimitOption("Timeout in seconds. With --slow: 93,600 (26 h)."),
        measure="seconds",
        slow=93_600.0,
    )
    cell_seconds: float = _limit(120.0, None, LimitOption("Timeout of one block, in seconds of computing."))
    concurrency: int = _limit(
        16, 1, LimitOption("Maximum calls in flight at a provider. With --slow: 1,000."), slow=1_000
    )
    max_violations: int = _limit(3, 1, measure="violations")
    child_tokens: int | None = _limit(
        None,
        _MIN_CHILD_TOKENS,
        LimitOption(
            "Maximum tokens of one child's prompt. Default: what its model reads well.",
            folder_may_lower=False,
        ),
    )

    def to_json(self) -> dict[str, Any]:
        """Return the limits as journals hold them, by what they measure. The constructor reads them back."""
        return {measure_of_limit(limit.name): getattr(self, limit.name) for limit in fields(self)}

    def __post_init__(self) -> None:
        for limit in fields(self):
            value, minimum = getattr(self, limit.name), limit.metadata["minimum"]
            if value is None and limit.default is None:
                continue
            is_whole = isinstance(limit.default, int) or limit.default is None
            if (
                isinstance(value, bool)
                or not isinstance(value, (int,) if is_whole else (int, float))
                or not math.isfinite(value)
                or (value <= 0 if minimum is None else value < minimum)
            ):
                bound = "above 0" if minimum is None else f"of at least {minimum}"
                number = "a whole number" if is_whole else "a number"
                raise ConfigurationError(
                    f"is {value!r}; give {number} {bound}", option=f"limits.{limit.name}"
                )
