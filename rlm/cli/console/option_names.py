"""The command line's names of settings, and the errors that name one."""

from __future__ import annotations

from dataclasses import fields

from rlm.errors import BudgetExhausted, UsageError
from rlm.limits import Limits, option_of_limit

__all__ = ["error_text", "option_of"]

_LIMITS = "limits."


def option_of(limit: str) -> str:
    """Return the flag that sets a field of Limits, or its name in Python if it has no flag."""
    if any(one.name == limit and option_of_limit(one) is not None for one in fields(Limits)):
        return f"--{limit.replace('_', '-')}"
    return f"{_LIMITS}{limit}"


def error_text(error: Exception) -> str:
    """Return the error's message with its setting or limit spelled as an option."""
    if isinstance(error, BudgetExhausted) and error.remedy_limit is not None:
        return f"{error.cause}; raise {option_of(error.remedy_limit)}"
    if isinstance(error, UsageError) and error.option is not None:
        return f"{option_of(error.option.removeprefix(_LIMITS))} {error.problem}"
    return str(error)
