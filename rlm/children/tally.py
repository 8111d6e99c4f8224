"""Counts of the children of one cell."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChildTally"]


@dataclass(frozen=True, slots=True)
class ChildTally:
    """Counts the children of one cell. `empty` are those that found nothing in their slice. `cost_usd` is
    None when a price is not known."""

    made: int = 0
    failed: int = 0
    empty: int = 0
    cached: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cost_usd: float | None = 0.0
