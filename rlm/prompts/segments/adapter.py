"""Define what an assembly reads segments from, and keep segments in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from rlm.prompts.segments.errors import SegmentRefused
from rlm.prompts.segments.segment import EntryRuleset, Segment, check_scope, faults_of_segment

__all__ = ["BatchAdapter", "DbAdapter", "MemoryAdapter", "RevisedAdapter"]


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
