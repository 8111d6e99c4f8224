"""Report what a scoped prompt includes and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.prompt import AssembledPrompt

__all__ = ["AssembledScoped", "NpcTierDrop", "ScopedMeta", "Truncation"]


@dataclass(frozen=True, slots=True)
class NpcTierDrop:
    """A character shown in less detail. `to_tier` None: none of its segments is included."""

    npc_id: str
    from_tier: int
    to_tier: int | None


@dataclass(frozen=True, slots=True)
class Truncation:
    """What was reduced to fit the budgets. `dropped_scopes` had content and are not included.
    `compressed_scopes` have segments in a shorter form."""

    dropped_scopes: tuple[str, ...] = ()
    npc_dropped_tiers: tuple[NpcTierDrop, ...] = ()
    input_trimmed: bool = False
    game_state_compressed: bool = False
    compressed_scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScopedMeta:
    """Facts about a scoped prompt.

    `segment_ids_by_scope` has every static scope as a key. `order` lists all ten layers. `tokens_estimated`
    counts the layers before any reduction, `tokens_after` the prompt. `truncated` is None if nothing was
    reduced. `skipped_npcs` are characters without a segment.
    """

    segment_ids_by_scope: Mapping[str, tuple[str, ...]]
    order: tuple[str, ...]
    tokens_estimated: int
    tokens_after: int
    truncated: Truncation | None
    over_budget: bool = False
    skipped_npcs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the same as a JSON-safe mapping."""
        return {
            "segment_ids_by_scope": {
                scope: list(names) for scope, names in self.segment_ids_by_scope.items()
            },
            "order": list(self.order),
            "tokens_estimated": self.tokens_estimated,
            "tokens_after": self.tokens_after,
            "truncated": None if self.truncated is None else _lists(asdict(self.truncated)),
            "over_budget": self.over_budget,
            "skipped_npcs": list(self.skipped_npcs),
        }


@dataclass(frozen=True, slots=True)
class AssembledScoped(AssembledPrompt):
    """A scoped prompt and its meta."""

    meta: ScopedMeta

    def to_json(self) -> dict[str, Any]:
        """Return prompt, sections, meta and report."""
        # Slots make a new class, which super() without arguments does not know.
        return {**AssembledPrompt.to_json(self), "prompt": self.text, "meta": self.meta.to_json()}


def _lists(data: dict[str, Any]) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for key, value in data.items()
    }
