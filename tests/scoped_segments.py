"""Provide segments of every stored layer, a turn that uses them, and the scoped prompt over both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm.prompts import Npc, ScopedInput, ScopedPrompt, get_counter
from rlm.prompts.segments import EntryRuleset, MemoryAdapter, Segment

__all__ = [
    "LAYER_SEGMENTS",
    "RULESETS",
    "TURN",
    "Asked",
    "npc_block",
    "npcs_at",
    "prompt_of",
    "segment_of",
    "tokens_of",
]

TURN = ScopedInput(
    "e1",
    "w1",
    is_first_turn=True,
    npcs=(Npc("n1", "Gandalf"),),
    game_state="It is night.",
    player="A hobbit.",
    rng="d20: 7",
    input="I open the door.",
)


def segment_of(name: str, scope: str, content: str, ref_id: str | None = None, **metadata: Any) -> Segment:
    return Segment(name, scope, content, ref_id, metadata)


LAYER_SEGMENTS = (
    segment_of("c", "core", "You are the game master."),
    segment_of("r1", "ruleset", "Roll d20.", "dice"),
    segment_of("r2", "ruleset", "No gore.", "mild"),
    segment_of("w", "world", "A land of hills.", "w1"),
    segment_of("e", "entry", "The road goes on.", "e1"),
    segment_of("s", "entry_start", "You wake up.", "e1"),
    segment_of("n", "npc", "A wizard in grey.", "n1"),
)
RULESETS = {"e1": (EntryRuleset("mild", 2), EntryRuleset("dice", 1))}


class Asked(MemoryAdapter):
    """Records what it is asked for."""

    def __init__(self, segments: Sequence[Segment] = LAYER_SEGMENTS) -> None:
        super().__init__(segments, RULESETS)
        self.asked: list[tuple[str, object]] = []

    def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
        self.asked.append((scope, ref_id))
        return super().get_segments(scope, ref_id)

    def get_segments_of(self, scope: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
        self.asked.append((scope, tuple(ref_ids)))
        return super().get_segments_of(scope, ref_ids)


def prompt_of(*segments: Segment, rulesets: Mapping[str, Sequence[EntryRuleset]] = RULESETS) -> ScopedPrompt:
    return ScopedPrompt(MemoryAdapter(segments or LAYER_SEGMENTS, rulesets))


def tokens_of(text: str) -> int:
    return get_counter("chars4_ceil").count(text)


def npcs_at(*tiers: int, size: int = 40) -> list[Segment]:
    """Return one segment of each of these tiers for n1, n2, …, with so many characters."""
    return [
        segment_of(f"{npc}-{tier}", "npc", f"{npc} {tier} ".ljust(size, "x"), npc, tier=tier)
        for npc in ("n1", "n2", "n3")
        for tier in tiers
    ]


def npc_block(made: Any) -> str:
    return str(next(section.content for section in made.sections if section.name == "npc"))
