"""Report what happened to every item of a prompt, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rlm.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Decision", "DecisionStatus", "Report", "Totals"]

_MAX_ROWS = 25

DecisionStatus = Literal["included", "trimmed", "compressed", "summarized", "dropped"]


class Decision(NamedTuple):
    """What happened to one item. A tuple, because a prompt may have tens of thousands of items.

    Tokens are the item's own, without frame and separator; `tokens_after` is 0 if it was dropped. A summary
    counts under the first item it replaces.
    """

    section: str
    id: str
    status: DecisionStatus
    reason: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Token totals.

    `prompt` is the rendered prompt measured as a whole. `items` is the sum over the items in it. `framing`
    is the difference: frames, separators, and rounding between parts and whole. So `framing` may be
    negative, and `items + framing == prompt` always holds.
    """

    budget: int
    headroom: int
    allowed: int
    items: int
    framing: int
    prompt: int


@dataclass(frozen=True, slots=True)
class Report:
    """How a prompt was assembled. Equal inputs give equal reports.

    `order` holds the section ids as rendered. `actions` lists the changes to sections that did not fit.
    `cache_borders` (at most four) are the sections after which a provider's prefix cache pays. `prefix_hash`
    is the SHA-256 of the text before the first part that changes from turn to turn. `counter` is name and
    version.
    """

    decisions: tuple[Decision, ...]
    order: tuple[str, ...]
    totals: Totals
    actions: tuple[str, ...]
    warnings: tuple[str, ...]
    counter: str
    prefix_hash: str
    over_budget: bool = False
    cache_borders: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the whole report as a JSON-safe mapping."""
        return {
            "decisions": [decision._asdict() for decision in self.decisions],
            "order": list(self.order),
            "totals": {name: getattr(self.totals, name) for name in self.totals.__slots__},
            "actions": list(self.actions),
            "warnings": list(self.warnings),
            "counter": self.counter,
            "prefix_hash": self.prefix_hash,
            "over_budget": self.over_budget,
            "cache_borders": list(self.cache_borders),
        }

    def with_warnings(self, warnings: Sequence[str]) -> Report:
        """Return the same report with these warnings before its own."""
        return replace(self, warnings=(*warnings, *self.warnings)) if warnings else self

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        from rlm.escaping import terminal_line

        totals = self.totals
        table = Table(
            title=f"{totals.prompt:,} of {totals.allowed:,} tokens ({self.counter})",
            caption=Text("\n".join(map(terminal_line, (*self.actions, *self.warnings))))
            if self.actions or self.warnings
            else None,
        )
        for heading in ("section", "item", "fate", "before", "after", "why"):
            table.add_column(heading, justify="right" if heading in ("before", "after") else "left")
        for name, rows in groupby(self.decisions, key=lambda decision: decision.section):
            _add_section(table, name, list(rows))
        return table


def _add_section(table: Table, name: str, rows: Sequence[Decision]) -> None:
    """Add a row for the section, then one for each item if there are several.

    If there are too many items, changed and dropped ones are shown first.
    """
    from rich.text import Text

    from rlm.escaping import terminal_line

    def add(section: str, item: str, row: Decision) -> None:
        before, after = f"{row.tokens_before:,}", f"{row.tokens_after:,}"
        table.add_row(
            Text(terminal_line(section)),
            Text(terminal_line(item)),
            row.status,
            before,
            after,
            Text(terminal_line(row.reason)),
        )

    if len(rows) == 1:
        add(name, rows[0].id, rows[0])
        return
    kept = sum(row.status != "dropped" for row in rows)
    table.add_row(
        Text(terminal_line(name)),
        f"{len(rows):,} items",
        f"{kept:,} of {len(rows):,} in",
        f"{sum(row.tokens_before for row in rows):,}",
        f"{sum(row.tokens_after for row in rows):,}",
    )
    shown = rows
    if len(rows) > _MAX_ROWS:
        shown = sorted(rows, key=lambda row: row.status == "included")[:_MAX_ROWS]
    for row in shown:
        add("", row.id, row)
    if len(rows) > len(shown):
        table.add_row("", f"… {len(rows) - len(shown):,} more")
