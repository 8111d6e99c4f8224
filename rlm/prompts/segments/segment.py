"""Define scopes, stored segments, their versions, and the links between entries and rulesets."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.segments.errors import ScopeRefused

__all__ = [
    "DEPRECATED",
    "ENTITY_KINDS",
    "LAYERS",
    "NO_METADATA",
    "SCOPES",
    "EntryRuleset",
    "Segment",
    "SegmentVersion",
    "StoredSegment",
    "check_scope",
    "faults_of_label",
    "faults_of_segment",
    "faults_of_text",
    "kind_of",
]

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

_LABEL = re.compile(r"[a-z][a-z0-9_.-]{0,63}")

NO_METADATA: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of prompt text as an assembly sees it.

    `ref_id` names the entity it belongs to (None for core). `metadata` is a JSON object. Its `tier` is the
    level of detail of an NPC's segment, and sorts other segments. Its `cue` is one line about an NPC, used
    if there is no room for more. `short` is a shorter form of the content, used when the prompt is too long.
    `requires` names segments without which this one is left out.
    """

    id: str
    scope: str
    content: str
    ref_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: NO_METADATA)
    version: int = 1
    active: bool = True

    @property
    def tier(self) -> int | None:
        """Return the `tier` of the metadata, or None."""
        tier = self.metadata.get("tier")
        return tier if isinstance(tier, int) and not isinstance(tier, bool) else None

    @property
    def cue(self) -> str:
        """Return the `cue` of the metadata as one line, or ""."""
        cue = self.metadata.get("cue")
        return " ".join(cue.split()) if isinstance(cue, str) else ""

    @property
    def short(self) -> str:
        """Return the `short` of the metadata, or ""."""
        short = self.metadata.get("short")
        return short.strip() if isinstance(short, str) else ""

    @property
    def requires(self) -> tuple[str, ...]:
        """Return the ids in the `requires` of the metadata."""
        ids = self.metadata.get("requires")
        return tuple(name for name in ids if isinstance(name, str)) if isinstance(ids, list | tuple) else ()


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """A segment with its times (UTC) and labels, as (name, version)."""

    segment: Segment
    created_at: datetime
    updated_at: datetime
    labels: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SegmentVersion:
    """One version of a segment: its content, time and note."""

    segment_id: str
    version: int
    content: str
    metadata: Mapping[str, Any]
    note: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EntryRuleset:
    """A ruleset of an entry. Lower `sort_order` comes first."""

    id: str
    sort_order: int = 0


def check_scope(scope: str) -> None:
    """Raise ScopeRefused if the scope can't be stored."""
    if scope in DEPRECATED:
        raise ScopeRefused(f"segments of scope {scope!r} are no longer stored: {DEPRECATED[scope]}")
    if scope not in SCOPES:
        raise ScopeRefused(f"there is no scope {scope!r}: use one of {', '.join(SCOPES)}")


def kind_of(scope: str) -> str | None:
    """Return the kind of entity that a segment of this scope refers to. None for other scopes and core."""
    kind = scope.removesuffix("_start")
    return kind if kind in ENTITY_KINDS else None


def faults_of_segment(segment: Segment) -> list[str]:
    """Return every fault of a segment with a valid scope, one line each."""
    faults = []
    kind = kind_of(segment.scope)
    if kind is None and segment.ref_id is not None:
        faults.append("a core segment belongs to no entity: remove its ref_id")
    if kind is not None and not (segment.ref_id or "").strip():
        faults.append(f"a segment of scope {segment.scope!r} needs the ref_id of its {kind}")
    if not segment.content.strip():
        faults.append("its content is blank: give it text, or deactivate the segment")
    faults += faults_of_text("content", segment.content)
    faults += faults_of_text("ref_id", segment.ref_id or "")
    faults += _faults_of_metadata(segment.metadata)
    return faults


def faults_of_text(name: str, text: str) -> list[str]:
    """Return a fault if the text holds NUL or a lone surrogate, which databases can't store."""
    bad = next((at for at, char in enumerate(text) if char == "\0" or "\ud800" <= char <= "\udfff"), None)
    if bad is None:
        return []
    return [f"its {name} holds U+{ord(text[bad]):04X} at character {bad}, which is not text: remove it"]


def faults_of_label(label: str) -> list[str]:
    """Return a fault for an invalid label. A label must not look like a number."""
    if _LABEL.fullmatch(label):
        return []
    return [f"{label!r} can't be a label: use up to 64 of a-z, 0-9, '_', '.' and '-', a letter first"]


def _faults_of_metadata(metadata: Mapping[str, Any]) -> list[str]:
    faults = []
    tier = metadata.get("tier")
    if tier is not None and (not isinstance(tier, int) or isinstance(tier, bool) or tier < 0):
        faults.append(f"its tier is {tier!r}: use a whole number from 0 up, or none")
    if not isinstance(metadata.get("cue", ""), str):
        faults.append("its cue is not a text: use one line, or none")
    if not isinstance(metadata.get("short", ""), str):
        faults.append("its short form is not a text: give one, or none")
    requires = metadata.get("requires", [])
    if not isinstance(requires, list | tuple) or not all(isinstance(name, str) for name in requires):
        faults.append("its requires is not a list of ids: give [id, …], or none")
    try:
        text = json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        return [*faults, f"its metadata is not a JSON object ({error})"]
    if "\\u0000" in text:
        faults.append("its metadata holds U+0000, which is not text: remove it")
    return faults
