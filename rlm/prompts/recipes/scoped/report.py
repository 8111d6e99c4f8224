"""What a scoped prompt was made of, and what it had to leave out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlm.prompts.assembly.assembler import AssembledPrompt

__all__ = ["AssembledScoped", "NpcTierDrop", "ScopedMeta", "Truncation"]


@dataclass(frozen=True, slots=True)
class NpcTierDrop:
    """A character that is told of in less detail; `to_tier` None: not by any of its segments."""

    npc_id: str
    from_tier: int
    to_tier: int | None


@dataclass(frozen=True, slots=True)
class Truncation:
    """What was done to keep within the budgets. `dropped_scopes` had something to say and say nothing."""

    dropped_scopes: tuple[str, ...] = ()
    npc_dropped_tiers: tuple[NpcTierDrop, ...] = ()
    input_trimmed: bool = False
    game_state_compressed: bool = False


@dataclass(frozen=True, slots=True)
class ScopedMeta:
    """Ids of the segments that are in the prompt, by static scope (every one is a key); all ten layers in
    order; tokens before anything was cut, and after; what was cut (None: nothing); characters without a
    segment."""

    segment_ids_by_scope: Mapping[str, tuple[str, ...]]
    order: tuple[str, ...]
    tokens_estimated: int
    tokens_after: int
    truncated: Truncation | None
    over_budget: bool = False
    skipped_npcs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON-safe mapping."""
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
    """A scoped prompt, and what it is made of."""

    meta: ScopedMeta

    def to_json(self) -> dict[str, Any]:
        """prompt, sections, meta, report."""
        return {
            "prompt": self.text,
            "sections": [
                {"name": section.id, "content": section.text, "tokens": section.tokens}
                for section in self.sections
            ],
            "meta": self.meta.to_json(),
            "report": self.report.to_json(),
        }


def _lists(data: dict[str, Any]) -> dict[str, Any]:
    return {
        key: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for key, value in data.items()
    }
