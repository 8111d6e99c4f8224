"""Read segments from SQLite and PostgreSQL as a DbAdapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, select

from rlm.prompts.segments.database import Database
from rlm.prompts.segments.rows import freeze
from rlm.prompts.segments.segment import EntryRuleset, Segment
from rlm.prompts.segments.tables import entry_rulesets, labels, prompt_segments, store_revision, versions

__all__ = ["StoreAdapter"]


class StoreAdapter:
    """Provides active segments: their current version or, with a label, the version that has the label.

    With a label, segments without it are left out: they were never released under it. Every method is one
    query. Raises StoreUnavailable.
    """

    def __init__(self, database: Database, label: str | None = None) -> None:
        self._database = database
        self._label = label

    def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
        """Return the active segments of that scope and entity."""
        ref = prompt_segments.c.ref_id
        return self._fetch(self._query(scope).where(ref.is_(None) if ref_id is None else ref == ref_id))

    def get_segments_of(self, scope: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
        """Return the active segments of that scope for any of those entities."""
        return self._fetch(self._query(scope).where(prompt_segments.c.ref_id.in_(ref_ids)))

    def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
        """Return the rulesets of an entry."""
        query = select(entry_rulesets.c.ruleset, entry_rulesets.c.sort_order)
        with self._database.read() as connection:
            rows = connection.execute(query.where(entry_rulesets.c.entry == entry_id)).all()
        return [EntryRuleset(row.ruleset, row.sort_order) for row in rows]

    def revision(self) -> object:
        """Return the number of changes to the store so far."""
        with self._database.read() as connection:
            return connection.scalar(select(store_revision.c.revision))

    def _query(self, scope: str) -> Select[Any]:
        segments = prompt_segments.c
        chosen = (segments.id, segments.scope, segments.ref_id)
        if self._label is None:
            query: Select[Any] = select(*chosen, segments.content, segments.metadata, segments.version)
        else:
            query = (
                select(*chosen, versions.c.content, versions.c.metadata, versions.c.version)
                .join(labels, labels.c.segment_id == segments.id)
                .join(
                    versions,
                    (versions.c.segment_id == segments.id) & (versions.c.version == labels.c.version),
                )
                .where(labels.c.label == self._label)
            )
        return query.where(segments.active, segments.scope == scope)

    def _fetch(self, query: Select[Any]) -> Sequence[Segment]:
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [
            Segment(
                id=str(row.id),
                scope=row.scope,
                content=row.content,
                ref_id=row.ref_id,
                metadata=freeze(row.metadata),
                version=row.version,
            )
            for row in rows
        ]
