"""Define scopes, stored segments, their versions, and the links between entries and rulesets.

SegmentError is the base of all errors here: ScopeRefused, SegmentRefused, SegmentNotFound,
SegmentConflict, StoreUnavailable and AdapterFailed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from rlm.prompts.errors import PromptError

__all__ = [
    "DEPRECATED",
    "ENTITY_KINDS",
    "LAYERS",
    "NO_METADATA",
    "SCOPES",
    "AdapterFailed",
    "BatchAdapter",
    "DbAdapter",
    "EntryRuleset",
    "MemoryAdapter",
    "RevisedAdapter",
    "ScopeRefused",
    "Segment",
    "SegmentConflict",
    "SegmentError",
    "SegmentNotFound",
    "SegmentRefused",
    "SegmentVersion",
    "StoreUnavailable",
    "StoredSegment",
    "check_scope",
    "faults_of_label",
    "faults_of_segment",
    "faults_of_text",
    "kind_of",
]


class SegmentError(PromptError):
    """Base class of all errors of stored segments."""


class ScopeRefused(SegmentError):
    """The scope can't be stored."""


class SegmentRefused(SegmentError):
    """The data to write is invalid. `faults` lists every reason."""

    def __init__(self, *faults: str) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class SegmentNotFound(SegmentError):
    """There is no segment, version or label of that name."""


class SegmentConflict(SegmentError):
    """The segment was edited between reading and writing it. Nothing was written.

    `expected` is the version the writer had read, `found` the current one.
    """

    def __init__(self, segment_id: str, expected: int, found: int) -> None:
        super().__init__(
            f"segment {segment_id} is at version {found}, not {expected}: someone else edited it; "
            "read it again and repeat your edit"
        )
        self.segment_id = segment_id
        self.expected = expected
        self.found = found


class StoreUnavailable(SegmentError):
    """The database can't be opened, read or written."""


class AdapterFailed(SegmentError):
    """A DbAdapter raised an error, which is chained. `scope` is the scope it was asked for."""

    def __init__(self, scope: str, error: BaseException) -> None:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        super().__init__(f"the segments of scope {scope!r} could not be fetched: {reason}")
        self.scope = scope


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


class DbAdapter(Protocol):
    """Provides the static layers. Called from several threads at once, never for a dynamic layer.

    The prompt does not depend on the order of the segments, nor on inactive ones among them. An exception
    becomes AdapterFailed.
    """

    def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
        """Return the active segments of that scope and entity. `ref_id` is None for core."""

    def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
        """Return the rulesets of an entry."""


@runtime_checkable
class BatchAdapter(DbAdapter, Protocol):
    """An adapter that can fetch several entities with one query."""

    def get_segments_of(self, scope: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
        """Return the active segments of that scope for any of those entities."""


@runtime_checkable
class RevisedAdapter(DbAdapter, Protocol):
    """An adapter that reports changes, so that static layers can be cached."""

    def revision(self) -> object:
        """Return a value that differs after every change of a segment, version, label or link."""


class MemoryAdapter:
    """A DbAdapter over segments given once. `rulesets` are by entry.

    Raises ScopeRefused and SegmentRefused, like a store.
    """

    def __init__(
        self,
        segments: Iterable[Segment] = (),
        rulesets: Mapping[str, Sequence[EntryRuleset]] | None = None,
    ) -> None:
        self._segments = tuple(segments)
        self._rulesets = {entry: tuple(links) for entry, links in (rulesets or {}).items()}
        faults = []
        for segment in self._segments:
            check_scope(segment.scope)
            faults += [f"segment {segment.id}: {fault}" for fault in faults_of_segment(segment)]
        if faults:
            raise SegmentRefused(*faults)

    def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
        """Return the active segments of that scope and entity."""
        return [s for s in self._segments if s.active and s.scope == scope and s.ref_id == ref_id]

    def get_segments_of(self, scope: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
        """Return the active segments of that scope for any of those entities."""
        return [s for s in self._segments if s.active and s.scope == scope and s.ref_id in ref_ids]

    def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
        """Return the rulesets of an entry."""
        return self._rulesets.get(entry_id, ())

    def revision(self) -> object:
        """Return a constant, because the segments never change."""
        return 0
