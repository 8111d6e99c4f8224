"""The command line's names of settings, and the errors that name one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rlm.errors import BudgetExhausted, UsageError

__all__ = ["error_text", "limit_of", "option_of"]

_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "rounds": "--max-rounds",
        "depth": "--max-depth",
        "sub_calls": "--max-calls",
        "tokens": "--max-tokens",
        "cost_usd": "--max-cost",
        "seconds": "--max-seconds",
        "cell_seconds": "--cell-seconds",
        "concurrency": "--concurrency",
    }
)
"""The option that sets a field of `Limits`."""
_LIMITS = "limits."


def limit_of(option: str) -> str | None:
    """Return the field of `Limits` that a key of rlm.toml sets: `max_rounds` sets `rounds`."""
    flag = f"--{option.replace('_', '-')}"
    return next((name for name, set_by in _OPTIONS.items() if set_by == flag), None)


def option_of(limit: str) -> str:
    """Return the option that sets a field of `Limits`, or its name in Python where no option does."""
    return _OPTIONS.get(limit, f"{_LIMITS}{limit}")


def error_text(error: Exception) -> str:
    """Return the error's message with its setting or limit spelled as an option."""
    if isinstance(error, BudgetExhausted) and error.remedy_limit is not None:
        return f"{error.cause}; raise {option_of(error.remedy_limit)}"
    if isinstance(error, UsageError) and error.option is not None:
        return f"{option_of(error.option.removeprefix(_LIMITS))} {error.problem}"
    return str(error)
