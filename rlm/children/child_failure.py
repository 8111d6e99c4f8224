"""Makes the answer of a child that failed, and adds up what its attempts cost."""

from __future__ import annotations

from dataclasses import replace

from rlm.prompts import BudgetExceeded, SliceTooLarge
from rlm.prompts.templates import table
from rlm.sandbox.types import ChildAnswer

__all__ = ["explain_too_long", "failure", "with_cost"]


def explain_too_long(error: SliceTooLarge | BudgetExceeded) -> str:
    """Return the reason for the root, which can change its prompt and its slices but no limit."""
    if isinstance(error, SliceTooLarge):
        return str(error)
    words = table("feedback.toml")["forecast"]["too_long"]
    return str(words.format(needed=f"{error.needed:,}", allowed=f"{error.allowed:,}"))


def failure(type_: str, message: str) -> ChildAnswer:
    """Return the answer of a child that failed."""
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
