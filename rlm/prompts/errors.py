"""Define the errors of prompt assembly.

PromptError
├── InputError       an invalid value in a recipe's input; names its path
├── UnknownStage     no stage prompt for a card's state, and no default
├── SectionError     invalid limits of a history; lists every fault
├── ScopedInputError invalid values for a scoped prompt; lists every fault
├── UnknownCounter   no token counter of that name
├── BudgetExceeded   required sections exceed the budget; names them
├── SliceTooLarge    a child's slice does not fit its prompt; gives a size that fits
└── SegmentError     stored segments; its subclasses are in rlm.prompts.segments.segment
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
    """Base class of all errors this package raises on purpose. The message is one line, remedy last."""


class InputError(PromptError):
    """A recipe's input is invalid. `path` names the place, as in `$.packs[3].score`."""

    def __init__(self, path: str, wrong: str, remedy: str) -> None:
        super().__init__(f"{path} {wrong}: {remedy}")
        self.path = path


class UnknownStage(PromptError):
    """There is no stage prompt for the card's state, and no default."""


class SectionError(PromptError):
    """The budget, threshold or window of a history is invalid. `faults` lists every reason."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class ScopedInputError(PromptError):
    """A scoped prompt's values are invalid. `faults` lists every reason."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class UnknownCounter(PromptError):
    """There is no token counter of that name."""


class BudgetExceeded(PromptError):
    """The required sections do not fit the budget.

    `needed` and `allowed` are tokens of the budget's counter. `sections` are the ids of the required
    sections, largest first.
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
    """A slice does not fit the child's prompt. Nothing was sent.

    `tokens` is the size of the slice and `allowed` the room for it. `max_chars` is a size that fits, or 0.
    For a slice of many pieces, `max_pieces` like these fit; otherwise it is 0.
    """

    def __init__(
        self, tokens: int, allowed: int, chars: int, max_chars: int, *, pieces: int = 1, max_pieces: int = 0
    ) -> None:
        what = f"slice of {chars:,} characters"
        if max_pieces:
            what += f" in {pieces:,} pieces"
            advice = f"give at most {max_pieces:,} such pieces, or fewer and longer spans"
        elif max_chars:
            advice = f"give slices of at most {max_chars:,} characters, as chunk(max_chars={max_chars}) does"
        else:
            advice = "the task leaves no room for a slice: shorten it"
        super().__init__(
            f"the {what} takes {tokens:,} tokens and the child has room for {allowed:,}: {advice}"
        )
        self.tokens = tokens
        self.allowed = allowed
        self.chars = chars
        self.max_chars = max_chars
        self.max_pieces = max_pieces
