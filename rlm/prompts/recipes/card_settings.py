"""Define the budgets and priorities of a card's prompt: the `[prompt]` table of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from rlm.prompts.errors import InputError
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["CONTEXT_KINDS", "CardBudget", "CardSettings", "check_whole"]

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
"""The kinds of context and their priorities. Higher ones come first."""

_BUDGETS = ("system_prompt", "agent_prompt", "chat_history", "other_context")
_FOLDER_MAY_SET = ("context_priority", "rlm.threshold_percentage")
"""What a folder's `rlm.toml` may set, besides the budgets. It may not choose words of a prompt or a model."""
PROMISE = "<promise>COMPLETE</promise>"


@dataclass(frozen=True, slots=True)
class CardBudget:
    """Tokens of the four sections, and of all together.

    Raises InputError for a negative value, or if the four exceed the total.
    """

    system_prompt: int = 1_000
    agent_prompt: int = 1_500
    chat_history: int = 10_000
    other_context: int = 15_000
    total: int = 27_500

    def __post_init__(self) -> None:
        for item in fields(self):
            check_whole(f"prompt.{item.name}_budget", getattr(self, item.name), 0)
        parts = sum(getattr(self, name) for name in _BUDGETS)
        if parts > self.total:
            raise InputError(
                "prompt.total_budget",
                f"is {self.total:,}, and the four section budgets add up to {parts:,}",
                "raise total_budget or lower one of them",
            )


@dataclass(frozen=True, slots=True)
class CardSettings:
    """All settings of a card's prompt.

    A history above `threshold_percentage` of its budget is summarized, by `summary_model` if one is named.
    `priorities` orders the kinds of context. `agents` replaces the stage prompts, by state (`planning`,
    `default`, …). Raises InputError naming the key.
    """

    budget: CardBudget = field(default_factory=CardBudget)
    threshold_percentage: int = 80
    summary_model: str | None = None
    priorities: Mapping[str, int] = field(default_factory=lambda: CONTEXT_KINDS)
    promise: str = PROMISE
    agents: Mapping[str, str] | None = None
    counter: Counter = field(default_factory=get_counter)

    def __post_init__(self) -> None:
        check_whole("prompt.rlm.threshold_percentage", self.threshold_percentage, 1, 100)
        _check_keys("prompt.context_priority", self.priorities, CONTEXT_KINDS)
        for name, value in self.priorities.items():
            check_whole(f"prompt.context_priority.{name}", value, 0)
        if not self.promise.strip():
            raise InputError("prompt.promise", "is empty", "give the text that signals completion")

    def priority(self, kind: str) -> int:
        """Return the configured or default priority of a kind of context."""
        return self.priorities.get(kind, CONTEXT_KINDS[kind])

    @classmethod
    def from_table(cls, table: object) -> CardSettings:
        """Read a `[prompt]` table: `*_budget`, `promise`, `rlm`, `context_priority`.

        Missing keys get their defaults. Unknown keys raise InputError.
        """
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

    @staticmethod
    def split_for_folder(table: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the part of a checked `[prompt]` table that a folder may set, and the other keys."""
        budgets = {f"{item.name}_budget" for item in fields(CardBudget)}
        allowed: dict[str, Any] = {}
        refused = []
        for key, value in table.items():
            if key in budgets or key in _FOLDER_MAY_SET:
                allowed[key] = value
            elif isinstance(value, Mapping):
                below = {name: one for name, one in value.items() if f"{key}.{name}" in _FOLDER_MAY_SET}
                allowed[key] = below
                refused += [f"{key}.{name}" for name in value if name not in below]
            else:
                refused.append(key)
        return allowed, tuple(refused)


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


def check_whole(path: str, value: object, minimum: int, maximum: int | None = None) -> None:
    """Raise InputError unless `value` is a whole number in the range."""
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and minimum <= value
        and (maximum is None or value <= maximum)
    ):
        return
    wanted = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
    raise InputError(path, f"is {value!r}", f"give a whole number {wanted}")
