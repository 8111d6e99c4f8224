"""Define a line of the table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure. It should be at most `limit`, if there is one."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return ""
        return "ok" if self.value <= self.limit else "OVER"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}

    def __str__(self) -> str:
        limit = "" if self.limit is None else f"(≤ {self.limit:g})"
        return (
            f"{self.what:<48.48} {self.value:>9.3f} {self.unit:<10} {limit:<10} {self.verdict:<5}{self.note}"
        )
