"""What can go wrong while a prompt is made.

PromptError
├── InputError       a value of a recipe's input that will not do; names its place
├── UnknownStage     a card's state has no stage prompt, and there is none to fall back to
├── SectionError     sections, items or a budget that contradict themselves; every fault at once
├── ScopedInputError a scoped prompt asked for with values that will not do; every fault at once
├── UnknownCounter   no token counter of that name
├── BudgetExceeded   what may not be dropped is larger than the budget; names the sections
├── SliceTooLarge    a child's slice does not fit its prompt; says how many characters would
└── SegmentError     stored segments; its own tree is in rlm.prompts.segments.errors
"""

from __future__ import annotations

__all__ = [
    "BudgetExceeded",
    "InputError",
    "PromptError",
    "ScopedInputError",
    "SectionError",
    "SliceTooLarge",
    "UnknownCounter",
    "UnknownStage",
]


class PromptError(Exception):
    """Base of everything this package raises on purpose. The message is one line and ends in the remedy."""


class InputError(PromptError):
    """A recipe's input can't be used. `path` says where, as in `$.packs[3].score`."""

    def __init__(self, path: str, wrong: str, remedy: str) -> None:
        super().__init__(f"{path} {wrong}: {remedy}")
        self.path = path


class UnknownStage(PromptError):
    """A card is in a state for which there is no stage prompt, nor a default one."""


class SectionError(PromptError):
    """The sections or the budget contradict themselves. `faults` holds every reason found."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class ScopedInputError(PromptError):
    """A scoped prompt was asked for with values that will not do. `faults` holds every reason found."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class UnknownCounter(PromptError):
    """No token counter is registered under that name."""


class BudgetExceeded(PromptError):
    """What may not be dropped does not fit.

    `needed` and `allowed` are tokens of the budget's counter; `sections` are the ids that could not be
    dropped, largest first.
    """

    def __init__(self, needed: int, allowed: int, sections: tuple[str, ...], remedy: str) -> None:
        named = ", ".join(sections) or "the prompt"
        super().__init__(
            f"the prompt needs {needed:,} tokens and may take {allowed:,}: {named} can't be dropped; {remedy}"
        )
        self.needed = needed
        self.allowed = allowed
        self.sections = sections


class SliceTooLarge(PromptError):
    """A slice does not fit the child's prompt, so nothing was sent.

    `tokens` is what the slice takes and `allowed` what is left for it; `max_chars` is a size that would
    fit (0 when none would).
    """

    def __init__(self, tokens: int, allowed: int, chars: int, max_chars: int) -> None:
        advice = (
            f"give slices of at most {max_chars:,} characters, as chunk(max_chars={max_chars}) does"
            if max_chars
            else "the task leaves no room for one, shorten it"
        )
        super().__init__(
            f"the slice of {chars:,} characters takes {tokens:,} tokens and the child has room for "
            f"{allowed:,}: {advice}"
        )
        self.tokens = tokens
        self.allowed = allowed
        self.chars = chars
        self.max_chars = max_chars
