"""Define how many tokens a prompt may take, and which counter measures them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from rlm.lazy_dataclass import dataclass
from rlm.prompts.tokens.counters import Counter, get_counter

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in tokens of `counter`.

    The rendered prompt takes at most (total - headroom) / safety_factor tokens, rounded down (`allowed`).
    `per_section` limits sections by id, in addition to their own `max_tokens`, and pools by name. With
    `by_message`, messages are measured one by one and the blank lines between them count nothing.
    """

    total: int
    headroom: int = 0
    per_section: Mapping[str, int] | None = None
    counter: Counter = field(default_factory=get_counter)
    safety_factor: float = 1.0
    by_message: bool = False

    @property
    def allowed(self) -> int:
        """Return the tokens the rendered prompt may take. Negative if the headroom exceeds the total."""
        return math.floor((self.total - self.headroom) / self.safety_factor)

    def cap(self, name: str) -> int | None:
        """Return the limit of the section or pool of that name, or None."""
        return (self.per_section or {}).get(name)

    def faults(self) -> list[str]:
        """Return every fault of this budget, one line each."""
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
