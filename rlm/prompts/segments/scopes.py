"""Define the scopes: which layers are stored, which are dynamic, and what each refers to."""

from __future__ import annotations

from rlm.prompts.segments.errors import ScopeRefused

__all__ = ["DEPRECATED", "ENTITY_KINDS", "LAYERS", "SCOPES", "check_scope", "kind_of"]

SCOPES = ("core", "ruleset", "world", "entry", "entry_start", "npc")
"""The scopes of stored segments, in prompt order."""

DEPRECATED = {
    "game_state": "pass the state of the game as `game_state` when the prompt is assembled",
    "player": "pass the player's facts as `player` when the prompt is assembled",
    "rng": "pass the dice as `rng` when the prompt is assembled",
    "input": "pass the player's words as `input` when the prompt is assembled",
}
"""Scopes that are no longer stored, with what to use instead."""

LAYERS = (*SCOPES, *DEPRECATED)
"""All layers of a prompt, in order."""

ENTITY_KINDS = ("ruleset", "world", "entry", "npc")
"""The kinds of entity that a segment's `ref_id` may name."""


def check_scope(scope: str) -> None:
    """Raise ScopeRefused if the scope can't be stored."""
    if scope in SCOPES:
        return
    if scope in DEPRECATED:
        raise ScopeRefused(f"segments of scope {scope!r} are no longer stored: {DEPRECATED[scope]}")
    raise ScopeRefused(f"there is no scope {scope!r}: use one of {', '.join(SCOPES)}")


def kind_of(scope: str) -> str | None:
    """Return the kind of entity that a segment of this scope refers to. None for core."""
    return None if scope == "core" else scope.removesuffix("_start")
