"""What an assembly needs of whoever keeps the segments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from rlm.prompts.segments.segment import EntryRuleset, Segment

__all__ = ["BatchAdapter", "DbAdapter", "RevisedAdapter"]


class DbAdapter(Protocol):
    """Gives the static layers. Asked from several threads at once; never asked for a dynamic layer.

    Whatever order the segments come in, and whether or not inactive ones are among them, the prompt is
    the same. An exception becomes AdapterFailed.
    """

    def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
        """The active segments of that scope and entity; `ref_id` is None for core."""

    def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
        """The rulesets of an entry."""


@runtime_checkable
class BatchAdapter(DbAdapter, Protocol):
    """An adapter that can fetch for several entities with one query."""

    def get_segments_of(self, scope: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
        """The active segments of that scope of any of those entities."""


@runtime_checkable
class RevisedAdapter(DbAdapter, Protocol):
    """An adapter that knows when its contents changed, so that static layers may be kept."""

    def revision(self) -> object:
        """Something that compares unequal after every change of a segment, a version, a label or a link."""
