"""Makes the answers of children that failed: the reason, and what the attempt cost."""

from __future__ import annotations

from dataclasses import replace

from rlm.prompts import BudgetExceeded, SliceTooLarge
from rlm.prompts.templates import table
from rlm.sandbox.types import ChildAnswer

__all__ = ["failure", "too_long", "with_cost"]


def too_long(error: SliceTooLarge | BudgetExceeded) -> str:
    """Return the reason for the root, which can change its prompt and its slices but no limit."""
    if isinstance(error, SliceTooLarge):
        return str(error)
    words = table("feedback.toml")["forecast"]["too_long"]
    return str(words.format(needed=f"{error.needed:,}", allowed=f"{error.allowed:,}"))


def failure(type_: str, message: str) -> ChildAnswer:
    return ChildAnswer(text="", error=message, error_type=type_, found=False)


def with_cost(answer: ChildAnswer, earlier: ChildAnswer) -> ChildAnswer:
    """Return `answer` with the tokens and the cost of an earlier attempt added."""
    costs = (answer.cost_usd, earlier.cost_usd)
    return replace(
        answer,
        input_tokens=answer.input_tokens + earlier.input_tokens,
        output_tokens=answer.output_tokens + earlier.output_tokens,
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
    )
