"""How large a prompt may be, and in whose tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens for a prompt, measured with `counter`.

    The rendered prompt takes at most (total - headroom) / safety_factor, rounded down (`allowed`).
    `per_section` bounds sections by id (beside their own `max_tokens`) and pools by name. With
    `by_message` the messages are measured one by one: the blank line between them in the prompt's text
    counts for nothing.
    """

    total: int
    headroom: int = 0
    per_section: Mapping[str, int] | None = None
    counter: Counter = field(default_factory=get_counter)
    safety_factor: float = 1.0
    by_message: bool = False

    @property
    def allowed(self) -> int:
        """Tokens the rendered prompt may take; negative when the headroom is larger than the total."""
        return math.floor((self.total - self.headroom) / self.safety_factor)

    def cap(self, name: str) -> int | None:
        """The bound set for a section or a pool of that name, or None."""
        return (self.per_section or {}).get(name)

    def faults(self) -> list[str]:
        """Everything that is wrong with this budget, one line each."""
        faults = []
        if self.total < 0:
            faults.append(f"a budget of {self.total:,} tokens is negative: use 0 or more")
        if self.headroom < 0:
            faults.append(f"a headroom of {self.headroom:,} tokens is negative: use 0 or more")
        if not (math.isfinite(self.safety_factor) and self.safety_factor >= 1):
            faults.append(f"a safety factor of {self.safety_factor} is below 1: use 1.0 or more")
        faults += [
            f"the budget of section {name!r} is negative: use 0 or more"
            for name, bound in (self.per_section or {}).items()
            if bound < 0
        ]
        return faults
