"""Export a store to one JSON object, and import such an object."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Connection, insert, select, update

from rlm.lazy_dataclass import dataclass
from rlm.prompts.segments.errors import SegmentRefused
from rlm.prompts.segments.rows import labels_by_segment, segment_id, to_segment_version, to_stored_segment
from rlm.prompts.segments.scopes import DEPRECATED, SCOPES, kind_of
from rlm.prompts.segments.segment import (
    Segment,
    SegmentVersion,
    StoredSegment,
    faults_of_label,
    faults_of_segment,
    faults_of_text,
)
from rlm.prompts.segments.store import SegmentStore, insert_segment, insert_version
from rlm.prompts.segments.tables import entities, entry_rulesets, labels, prompt_segments, versions

__all__ = ["FORMAT", "Imported", "export_segments", "import_segments"]

FORMAT = "rlm-segments/1"


@dataclass(frozen=True, slots=True)
class Imported:
    """The number of segments that an import added, replaced by a new version, and found unchanged."""

    added: int
    replaced: int
    unchanged: int


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Entity(_Strict):
    kind: Literal["ruleset", "world", "entry", "npc"]
    id: str = Field(min_length=1)


class _Link(_Strict):
    entry: str
    ruleset: str
    sort_order: int = 0


class _Version(_Strict):
    version: int = Field(ge=1)
    content: str
    metadata: dict[str, Any] = {}
    note: str = ""
    created_at: AwareDatetime | None = Field(default=None, strict=False)


class _Segment(_Strict):
    id: str | None = None
    scope: str
    ref_id: str | None = None
    content: str
    metadata: dict[str, Any] = {}
    version: int | None = Field(default=None, ge=1)
    active: bool = True
    created_at: AwareDatetime | None = Field(default=None, strict=False)
    updated_at: AwareDatetime | None = Field(default=None, strict=False)
    versions: list[_Version] = []
    labels: dict[str, int] = {}


class _File(_Strict):
    format: Literal["rlm-segments/1"] = "rlm-segments/1"
    entities: list[_Entity] = []
    entry_rulesets: list[_Link] = []
    segments: list[_Segment] = []


def export_segments(store: SegmentStore) -> dict[str, Any]:
    """Return everything in the store as a JSON-safe object, with inactive segments and all versions.

    Equal contents give equal exports. Importing an export into an empty store and exporting again gives the
    same object.
    """
    with store.database.read() as connection:
        marks = labels_by_segment(connection)
        history: dict[uuid.UUID, list[SegmentVersion]] = {}
        query = select(versions).order_by(versions.c.segment_id, versions.c.version)
        for row in connection.execute(query):
            history.setdefault(row.segment_id, []).append(to_segment_version(row))
        segments = [
            (to_stored_segment(row, marks.get(row.id, ())), history.get(row.id, []))
            for row in connection.execute(select(prompt_segments))
        ]
        known = sorted((row.kind, row.id) for row in connection.execute(select(entities)))
        links = sorted(
            (row.entry, row.sort_order, row.ruleset) for row in connection.execute(select(entry_rulesets))
        )
    segments.sort(key=lambda pair: pair[0].segment.id)
    return {
        "format": FORMAT,
        "entities": [{"kind": kind, "id": name} for kind, name in known],
        "entry_rulesets": [
            {"entry": entry, "ruleset": ruleset, "sort_order": order} for entry, order, ruleset in links
        ],
        "segments": [_export_segment(found, its_versions) for found, its_versions in segments],
    }


def import_segments(store: SegmentStore, data: object, *, replace: bool = False) -> Imported:
    """Import an export, or a file written by hand, completely or not at all.

    A segment without an id gets one computed from its scope, ref_id and content, so importing a file twice
    adds nothing. A segment that exists with other content is refused, unless `replace` adds a new version.
    Raises SegmentRefused with every fault.
    """
    try:
        given = _File.model_validate(data)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg']}" for fault in error.errors()
        ]
        raise SegmentRefused(*faults) from error
    wanted = [_to_segment(segment) for segment in given.segments]
    faults = [
        f"segment {number} ({segment.id}): {fault}"
        for number, (segment, entry) in enumerate(zip(wanted, given.segments, strict=True), 1)
        for fault in _faults(segment, entry)
    ]
    faults += _find_duplicates(f"segment {segment.id}" for segment in wanted)
    faults += [
        f"{entity.kind} {entity.id!r}: {fault}"
        for entity in given.entities
        for fault in faults_of_text("id", entity.id)
    ]
    if faults:
        raise SegmentRefused(*faults)
    with store.database.write() as connection:
        known = {(row.kind, row.id) for row in connection.execute(select(entities))}
        _refuse_dangling(given, known | {(entity.kind, entity.id) for entity in given.entities})
        for entity in given.entities:
            if (entity.kind, entity.id) not in known:
                known.add((entity.kind, entity.id))
                connection.execute(insert(entities).values(kind=entity.kind, id=entity.id))
        _import_links(connection, given)
        return _import_segments(connection, wanted, given, replace)


def _import_links(connection: Connection, given: _File) -> None:
    for link in given.entry_rulesets:
        here = (entry_rulesets.c.entry == link.entry) & (entry_rulesets.c.ruleset == link.ruleset)
        order = update(entry_rulesets).where(here).values(sort_order=link.sort_order)
        if not connection.execute(order).rowcount:
            connection.execute(insert(entry_rulesets).values(**link.model_dump()))


def _import_segments(connection: Connection, wanted: list[Segment], given: _File, replace: bool) -> Imported:
    here = {
        str(row.id): to_stored_segment(row, ()).segment for row in connection.execute(select(prompt_segments))
    }
    added = replaced = unchanged = 0
    differing = []
    for segment, entry in zip(wanted, given.segments, strict=True):
        old = here.get(segment.id)
        if old is None:
            _add(connection, segment, entry)
            added += 1
        elif _is_same(old, segment):
            unchanged += 1
        elif replace and (old.scope, old.ref_id) == (segment.scope, segment.ref_id):
            _replace(connection, old, segment)
            replaced += 1
        else:
            differing.append(segment.id)
    if differing:
        raise SegmentRefused(
            *(
                f"segment {name} exists with other content: "
                + (
                    "its scope or ref_id can't change"
                    if replace
                    else "import with --replace to add a version"
                )
                for name in differing
            )
        )
    return Imported(added, replaced, unchanged)


def _export_segment(found: StoredSegment, its_versions: list[SegmentVersion]) -> dict[str, Any]:
    segment = found.segment
    return {
        "id": segment.id,
        "scope": segment.scope,
        "ref_id": segment.ref_id,
        "content": segment.content,
        "metadata": dict(segment.metadata),
        "version": segment.version,
        "active": segment.active,
        "created_at": found.created_at.isoformat(),
        "updated_at": found.updated_at.isoformat(),
        "versions": [
            {
                "version": version.version,
                "content": version.content,
                "metadata": dict(version.metadata),
                "note": version.note,
                "created_at": version.created_at.isoformat(),
            }
            for version in its_versions
        ],
        "labels": dict(found.labels),
    }


def _to_segment(entry: _Segment) -> Segment:
    name = entry.id
    if name is not None:
        with contextlib.suppress(ValueError):  # an invalid id is reported with all other faults
            name = str(uuid.UUID(name))
    else:
        name = str(uuid.uuid5(uuid.NAMESPACE_OID, repr((entry.scope, entry.ref_id, entry.content))))
    newest = max((version.version for version in entry.versions), default=1)
    return Segment(
        name,
        entry.scope,
        entry.content,
        entry.ref_id,
        entry.metadata,
        newest if entry.version is None else entry.version,
        entry.active,
    )


def _faults(segment: Segment, entry: _Segment) -> list[str]:
    faults = []
    try:
        uuid.UUID(segment.id)
    except ValueError:
        faults.append("its id is not a UUID: give one, or leave it out")
    if segment.scope in SCOPES:
        faults += faults_of_segment(segment)
    elif segment.scope not in DEPRECATED:
        faults.append(f"there is no scope {segment.scope!r}: use one of {', '.join(SCOPES)}")
    elif segment.active:
        faults.append(f"scope {segment.scope!r} is no longer stored: {DEPRECATED[segment.scope]}")
    numbers = [version.version for version in entry.versions]
    faults += _find_duplicates(f"version {number}" for number in numbers)
    newest = next((v for v in entry.versions if v.version == segment.version), None)
    if entry.versions and (newest is None or segment.version != max(numbers)):
        faults.append(f"its version {segment.version} is not the newest of its versions")
    elif newest is not None and (newest.content, newest.metadata) != (entry.content, entry.metadata):
        faults.append(f"it differs from its version {segment.version}")
    known = set(numbers) or {segment.version}
    faults += [
        f"its label {label!r} is on version {version}, which does not exist"
        for label, version in entry.labels.items()
        if version not in known
    ]
    faults += [fault for label in entry.labels for fault in faults_of_label(label)]
    for version in entry.versions:
        faults += [
            f"version {version.version}: {fault}" for fault in faults_of_text("content", version.content)
        ]
        faults += [f"version {version.version}: {fault}" for fault in faults_of_text("note", version.note)]
    return faults


def _find_duplicates(names: Iterable[str]) -> list[str]:
    return [f"{name} occurs more than once" for name, times in Counter(names).items() if times > 1]


def _refuse_dangling(given: _File, known: set[tuple[str, str]]) -> None:
    faults = []
    for link in given.entry_rulesets:
        for end, name in (("entry", link.entry), ("ruleset", link.ruleset)):
            if (end, name) not in known:
                faults.append(f"entry_rulesets: there is no {end} {name!r}: add it to `entities`")
    for number, segment in enumerate(given.segments, 1):
        kind = kind_of(segment.scope) if segment.scope in SCOPES else None
        if kind is not None and (kind, segment.ref_id or "") not in known:
            faults.append(f"segment {number}: there is no {kind} {segment.ref_id!r}: add it to `entities`")
    if faults:
        raise SegmentRefused(*faults)


def _is_same(old: Segment, new: Segment) -> bool:
    return (old.scope, old.ref_id, old.content, dict(old.metadata), old.active) == (
        new.scope,
        new.ref_id,
        new.content,
        dict(new.metadata),
        new.active,
    )


def _add(connection: Connection, segment: Segment, entry: _Segment) -> None:
    now = datetime.now(UTC)
    created = entry.created_at or now
    insert_segment(connection, StoredSegment(segment, created, entry.updated_at or created))
    history = entry.versions or [
        _Version(version=segment.version, content=entry.content, metadata=entry.metadata, note="imported")
    ]
    for version in history:
        insert_version(
            connection,
            SegmentVersion(
                segment.id,
                version.version,
                version.content,
                version.metadata,
                version.note,
                version.created_at or created,
            ),
        )
    for label, number in entry.labels.items():
        connection.execute(
            insert(labels).values(segment_id=segment_id(segment.id), label=label, version=number)
        )


def _replace(connection: Connection, old: Segment, segment: Segment) -> None:
    """Add the imported content as a new version. The store keeps its own history and labels."""
    key, now = segment_id(old.id), datetime.now(UTC)
    number = old.version
    if (old.content, dict(old.metadata)) != (segment.content, dict(segment.metadata)):
        number += 1
        version = SegmentVersion(old.id, number, segment.content, segment.metadata, "imported", now)
        insert_version(connection, version)
    connection.execute(
        update(prompt_segments)
        .where(prompt_segments.c.id == key)
        .values(
            content=segment.content,
            metadata=dict(segment.metadata),
            version=number,
            active=segment.active,
            updated_at=now,
        )
    )
