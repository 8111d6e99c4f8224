"""Convert rows of the tables to records."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, select

from rlm.prompts.segments.errors import SegmentNotFound
from rlm.prompts.segments.segment import Segment, SegmentVersion, StoredSegment
from rlm.prompts.segments.tables import labels, prompt_segments, versions

__all__ = [
    "find_segment",
    "find_version",
    "freeze",
    "labels_by_segment",
    "segment_id",
    "to_segment_version",
    "to_stored_segment",
]


def segment_id(text: str) -> uuid.UUID:
    """Parse the id of a segment. Raises SegmentNotFound for an invalid one."""
    try:
        return uuid.UUID(text)
    except ValueError as error:
        raise SegmentNotFound(f"{text!r} is not a segment id: `rlm segments list` shows them") from error


def freeze(metadata: Any) -> Mapping[str, Any]:
    """Return metadata as a read-only mapping."""
    return MappingProxyType(metadata if isinstance(metadata, dict) else {})


def to_stored_segment(row: Row[Any], its_labels: Sequence[tuple[str, int]]) -> StoredSegment:
    """A row of `prompt_segments`, with the labels of it."""
    fields = row._mapping
    segment = Segment(
        id=str(fields["id"]),
        scope=fields["scope"],
        content=fields["content"],
        ref_id=fields["ref_id"],
        metadata=freeze(fields["metadata"]),
        version=fields["version"],
        active=fields["active"],
    )
    return StoredSegment(segment, fields["created_at"], fields["updated_at"], tuple(sorted(its_labels)))


def to_segment_version(row: Row[Any]) -> SegmentVersion:
    """Convert a row of the versions."""
    fields = row._mapping
    return SegmentVersion(
        segment_id=str(fields["segment_id"]),
        version=fields["version"],
        content=fields["content"],
        metadata=freeze(fields["metadata"]),
        note=fields["note"],
        created_at=fields["created_at"],
    )


def labels_by_segment(
    connection: Connection, only: uuid.UUID | None = None
) -> dict[uuid.UUID, list[tuple[str, int]]]:
    """Return the (label, version) pairs of every segment, or of one."""
    query = select(labels)
    if only is not None:
        query = query.where(labels.c.segment_id == only)
    found: dict[uuid.UUID, list[tuple[str, int]]] = {}
    for row in connection.execute(query):
        found.setdefault(row.segment_id, []).append((row.label, row.version))
    return found


def find_segment(connection: Connection, name: uuid.UUID) -> StoredSegment:
    """Return the current segment. Raises SegmentNotFound."""
    row = connection.execute(select(prompt_segments).where(prompt_segments.c.id == name)).first()
    if row is None:
        raise SegmentNotFound(f"there is no segment {name}: `rlm segments list --all` shows them")
    return to_stored_segment(row, labels_by_segment(connection, name).get(name, ()))


def find_version(connection: Connection, name: uuid.UUID, version: int) -> SegmentVersion:
    """Return one version of a segment. Raises SegmentNotFound."""
    query = select(versions).where(versions.c.segment_id == name, versions.c.version == version)
    row = connection.execute(query).first()
    if row is None:
        raise SegmentNotFound(
            f"segment {name} has no version {version}: `rlm segments show {name}` lists its versions"
        )
    return to_segment_version(row)
