"""Counts the children that a cascade asked again of a stronger model."""

from __future__ import annotations

from dataclasses import field

from rlm.lazy_dataclass import dataclass

__all__ = ["Escalations"]


@dataclass(slots=True)
class Escalations:
    """The counts of a run and its sub-RLMs, which share it. `again` counts by the name of the model that was
    asked again."""

    children: int = 0
    again: dict[str, int] = field(default_factory=dict)

    def note_child(self) -> None:
        """Count a child that a cascade may ask again."""
        self.children += 1

    def note_again(self, model: str) -> None:
        """Count a child that was asked again of `model`."""
        self.again[model] = self.again.get(model, 0) + 1

    def describe(self) -> str:
        """Return `7 of 40 children were asked again by middle, 2 by strong`, or "" if none was."""
        if not self.again:
            return ""
        (model, count), *others = self.again.items()
        asked = "was asked" if count == 1 else "were asked"
        first = f"{count:,} of {self.children:,} children {asked} again by {model}"
        return ", ".join([first, *(f"{count:,} by {model}" for model, count in others)])
