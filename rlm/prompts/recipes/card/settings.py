"""How large the parts of a card's prompt may be and what comes first: the `[prompt]` table of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from rlm.prompts.errors import InputError
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["CONTEXT_KINDS", "CardBudget", "CardSettings"]

CONTEXT_KINDS: Mapping[str, int] = MappingProxyType(
    {
        "notes": 100,
        "build_logs": 90,
        "pod_logs": 85,
        "source_files": 80,
        "test_results": 75,
        "adrs": 50,
        "libraries": 40,
    }
)
"""The kinds of context and their priorities: the higher, the earlier."""

_BUDGETS = ("system_prompt", "agent_prompt", "chat_history", "other_context")
PROMISE = "<promise>COMPLETE</promise>"


@dataclass(frozen=True, slots=True)
class CardBudget:
    """Tokens of the four sections, and of all of them. Raises InputError for a negative one, and when the
    four add up to more than the total."""

    system_prompt: int = 1_000
    agent_prompt: int = 1_500
    chat_history: int = 10_000
    other_context: int = 15_000
    total: int = 27_500

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_whole(f"prompt.{item.name}_budget", getattr(self, item.name), 0)
        parts = sum(getattr(self, name) for name in _BUDGETS)
        if parts > self.total:
            raise InputError(
                "prompt.total_budget",
                f"is {self.total:,}, and the four section budgets add up to {parts:,}",
                "raise total_budget or lower one of them",
            )


@dataclass(frozen=True, slots=True)
class CardSettings:
    """Everything about a card's prompt that is not the card.

    `threshold_percentage` of the history's budget is what a history may take before it is summarised;
    `summary_model` names the model for that. `priorities` orders the kinds of context. `agents` replaces
    stage prompts by state (`planning`, `default`, …) or adds some. Raises InputError naming the key.
    """

    budget: CardBudget = field(default_factory=CardBudget)
    threshold_percentage: int = 80
    summary_model: str | None = None
    priorities: Mapping[str, int] = field(default_factory=lambda: CONTEXT_KINDS)
    promise: str = PROMISE
    agents: Mapping[str, str] | None = None
    counter: Counter = field(default_factory=get_counter)

    def __post_init__(self) -> None:
        _check_whole("prompt.rlm.threshold_percentage", self.threshold_percentage, 1, 100)
        _check_keys("prompt.context_priority", self.priorities, CONTEXT_KINDS)
        for name, value in self.priorities.items():
            _check_whole(f"prompt.context_priority.{name}", value, 0)
        if not self.promise.strip():
            raise InputError("prompt.promise", "is empty", "give the text that says the work is complete")

    def priority(self, kind: str) -> int:
        """The priority of a kind of context: the configured one, or the default."""
        return self.priorities.get(kind, CONTEXT_KINDS[kind])

    @classmethod
    def from_table(cls, table: object) -> CardSettings:
        """The settings in a `[prompt]` table: `*_budget`, `promise`, `rlm`, `context_priority`. What is not
        given has its default; an unknown key is an error."""
        prompt = _check_table("prompt", table)
        budgets = tuple(f"{item.name}_budget" for item in fields(CardBudget))
        _check_keys("prompt", prompt, (*budgets, "promise", "rlm", "context_priority"))
        rlm = _check_table("prompt.rlm", prompt.get("rlm", {}))
        _check_keys("prompt.rlm", rlm, ("model", "threshold_percentage"))
        priorities = _check_table("prompt.context_priority", prompt.get("context_priority", {}))
        return cls(
            budget=CardBudget(
                **{
                    name.removesuffix("_budget"): value
                    for name in budgets
                    if (value := prompt.get(name)) is not None
                }
            ),
            threshold_percentage=rlm.get("threshold_percentage", 80),
            summary_model=_check_text("prompt.rlm.model", rlm.get("model")),
            priorities=MappingProxyType({**CONTEXT_KINDS, **priorities}),
            promise=_check_text("prompt.promise", prompt.get("promise", PROMISE)) or "",
        )


def _check_table(path: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(path, f"is {value!r}", "make it a table")
    return value


def _check_keys(path: str, given: Mapping[str, Any], known: Any) -> None:
    for key in given:
        if key not in known:
            raise InputError(f"{path}.{key}", "is no setting", f"use one of {', '.join(known)}")


def _check_text(path: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InputError(path, f"is {value!r}", "give a text in quotes")
    return value


def _check_whole(path: str, value: object, minimum: int, maximum: int | None = None) -> None:
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and minimum <= value
        and (maximum is None or value <= maximum)
    ):
        return
    wanted = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise InputError(path, f"is {value!r}", f"give a whole number {wanted}")
