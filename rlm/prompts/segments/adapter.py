"""Define the interface between an assembly and a source of segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rlm.prompts.segments.segment import EntryRuleset, Segment

__all__ = ["BatchAdapter", "DbAdapter", "RevisedAdapter"]


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
