"""Makes the answer of a child that failed, and adds up what its attempts cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlm.children.child_spec import PreparedChild
from rlm.models.base import TokenUsage
from rlm.prompts import BudgetExceeded, SliceTooLarge
from rlm.prompts.templates import table
from rlm.sandbox.types import ChildAnswer

__all__ = ["explain_too_long", "failure", "failure_event", "spent_answer", "with_cost"]

_ERRORS_WITHOUT_REPLY = frozenset({"model", "limit", "page"})
_MAX_FAILED_SPANS = 100
"""Spans of a failed child that the journal keeps."""


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


def spent_answer(usage: TokenUsage, cost_usd: float | None) -> ChildAnswer:
    """Return what an attempt without a reply took."""
    return ChildAnswer(
        "", input_tokens=usage.input_tokens, output_tokens=usage.output_tokens, cost_usd=cost_usd
    )


def failure_event(child: PreparedChild, answer: ChildAnswer, round_: int) -> dict[str, Any]:
    """Return the journal's data of a failure. Store the key only if there is no reply. A re-run cell finds
    the failure by this key."""
    return {
        "round": round_,
        "key": child.key if answer.error_type in _ERRORS_WITHOUT_REPLY else None,
        "asked": child.question_id,
        "spans": child.spec.spans[:_MAX_FAILED_SPANS],
        "error": answer.error,
        "error_type": answer.error_type,
    }
