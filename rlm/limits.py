"""Limits of a run. Each field carries its option of the command line, so that a limit is declared once."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, fields
from typing import Any

from rlm.errors import ConfigurationError

__all__ = ["LimitOption", "Limits", "option_of_limit", "slow_defaults"]


@dataclass(frozen=True, slots=True)
class LimitOption:
    """The option that sets a limit: `name` as in rlm.toml (`max_rounds` is `--max-rounds`), and its help.

    folder_may_lower: `rlm.toml` of a folder that is not trusted may set a lower value.
    """

    name: str
    help: str
    folder_may_lower: bool = False


def _limit(
    default: Any, minimum: int | None = None, option: LimitOption | None = None, *, slow: Any = None
) -> Any:
    """Declare a limit. It is at least `minimum`; None means above 0. `slow` is the default of slow runs."""
    return field(default=default, metadata={"minimum": minimum, "option": option, "slow": slow})


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


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one run, including all its children and sub-RLMs.

    rounds: the rounds of each RLM, including the last one, in which it may only finalize.
    depth: the levels of sub-RLMs with their own kernels.
    sub_calls: child calls.
    tokens: input and output tokens.
    cost_usd: US dollars. Has no effect on models without a known price.
    seconds: the wall-clock time of the whole run.
    cell_seconds: the computing time of one cell.
    concurrency: calls in flight per provider.
    violations: this number of consecutive violations ends the run.
    child_tokens: tokens of one child's prompt. None follows each child model's window and how much it reads
        well (`rlm.children.routing.child_model`).

    Raises ConfigurationError, which names the invalid field.
    """

    rounds: int = _limit(30, 1, LimitOption("max_rounds", "Maximum rounds of a root.", folder_may_lower=True))
    depth: int = _limit(
        1, 0, LimitOption("max_depth", "Maximum depth of sub-RLMs; 0: children only.", folder_may_lower=True)
    )
    sub_calls: int = _limit(1_000, 0, LimitOption("max_calls", "Maximum child calls.", folder_may_lower=True))
    tokens: int = _limit(
        10_000_000,
        1,
        LimitOption("max_tokens", "Maximum tokens of all calls together.", folder_may_lower=True),
    )
    cost_usd: float = _limit(
        5.0, 0, LimitOption("max_cost", "Maximum cost in US dollars.", folder_may_lower=True)
    )
    seconds: float = _limit(
        1_800.0,
        None,
        LimitOption("max_seconds", "Timeout in seconds. With --slow: 93,600 (26 h).", folder_may_lower=True),
        slow=93_600.0,
    )
    cell_seconds: float = _limit(
        120.0,
        None,
        LimitOption("cell_seconds", "Timeout of one block, in seconds of computing.", folder_may_lower=True),
    )
    concurrency: int = _limit(
        16,
        1,
        LimitOption(
            "concurrency", "Maximum calls in flight at a provider. With --slow: 1,000.", folder_may_lower=True
        ),
        slow=1_000,
    )
    violations: int = _limit(3, 1)
    child_tokens: int | None = _limit(
        None,
        _MIN_CHILD_TOKENS,
        LimitOption(
            "child_tokens", "Maximum tokens of one child's prompt. Default: what its model reads well."
        ),
    )

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
