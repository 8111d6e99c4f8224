"""Export a store to one JSON object, and import such an object."""

from __future__ import annotations

import contextlib
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from rlm.database.store import Transaction
from rlm.prompts.segments.segment import (
    DEPRECATED,
    SCOPES,
    Segment,
    SegmentRefused,
    SegmentVersion,
    StoredSegment,
    faults_of_label,
    faults_of_segment,
    faults_of_text,
    kind_of,
)
from rlm.prompts.segments.store import (
    SegmentStore,
    all_segments,
    insert_entity,
    insert_link,
    insert_next_version,
    insert_segment,
    insert_version,
    is_same_text,
    lock_out_writers,
    to_version,
)

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

    def work(transaction: Transaction) -> dict[str, Any]:
        lock_out_writers(transaction)
        history: dict[str, list[SegmentVersion]] = defaultdict(list)
        for row in transaction.rows("SELECT * FROM prompt_segment_versions ORDER BY version"):
            history[row["segment_id"]].append(to_version(row))
        segments = sorted(all_segments(transaction), key=lambda found: found.segment.id)
        entities = transaction.rows("SELECT kind, id FROM entities")
        links = transaction.rows("SELECT entry, ruleset, sort_order FROM entry_rulesets")
        return {
            "format": FORMAT,
            "entities": sorted(map(dict, entities), key=lambda row: (row["kind"], row["id"])),
            "entry_rulesets": sorted(
                map(dict, links), key=lambda row: (row["entry"], row["sort_order"], row["ruleset"])
            ),
            "segments": [_export_segment(found, history[found.segment.id]) for found in segments],
        }

    return store.snapshot(work)


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

    def work(transaction: Transaction) -> Imported:
        known = {(row["kind"], row["id"]) for row in transaction.rows("SELECT kind, id FROM entities")}
        _refuse_dangling(given, known | {(entity.kind, entity.id) for entity in given.entities})
        for entity in given.entities:
            insert_entity(transaction, entity.kind, entity.id)
        for link in given.entry_rulesets:
            insert_link(transaction, link.entry, link.ruleset, link.sort_order)
        return _import_segments(transaction, wanted, given, replace)

    return store.write(work)


def _import_segments(
    transaction: Transaction, wanted: list[Segment], given: _File, replace: bool
) -> Imported:
    here = {found.segment.id: found.segment for found in all_segments(transaction)}
    added = replaced = unchanged = 0
    faults = []
    for segment, entry in zip(wanted, given.segments, strict=True):
        old = here.get(segment.id)
        if old is None:
            _add(transaction, segment, entry)
            added += 1
            continue
        is_same_place = (old.scope, old.ref_id) == (segment.scope, segment.ref_id)
        if is_same_place and is_same_text(old, segment) and old.active == segment.active:
            unchanged += 1
        elif replace and is_same_place:
            _replace(transaction, old, segment)
            replaced += 1
        else:
            remedy = (
                "its scope or ref_id can't change" if replace else "import with --replace to add a version"
            )
            faults.append(f"segment {segment.id} exists with other content: {remedy}")
    if faults:
        raise SegmentRefused(*faults)
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
        kind = kind_of(segment.scope)
        if kind is not None and (kind, segment.ref_id or "") not in known:
            faults.append(f"segment {number}: there is no {kind} {segment.ref_id!r}: add it to `entities`")
    if faults:
        raise SegmentRefused(*faults)


def _add(transaction: Transaction, segment: Segment, entry: _Segment) -> None:
    created = entry.created_at or datetime.now(UTC)
    insert_segment(transaction, StoredSegment(segment, created, entry.updated_at or created))
    history = entry.versions or [
        _Version(version=segment.version, content=entry.content, metadata=entry.metadata, note="imported")
    ]
    for one in history:
        made = one.created_at or created
        version = SegmentVersion(segment.id, one.version, one.content, one.metadata, one.note, made)
        insert_version(transaction, version)
    labels = [{"segment_id": segment.id, "label": name, "version": on} for name, on in entry.labels.items()]
    if labels:
        transaction.insert("prompt_segment_labels", labels)


def _replace(transaction: Transaction, old: Segment, segment: Segment) -> None:
    """Add the imported content as a new version. The store keeps its own history and labels."""
    if not is_same_text(old, segment):
        insert_next_version(transaction, old, segment, "imported")
    change = {"active": segment.active, "updated_at": datetime.now(UTC).isoformat()}
    transaction.update("prompt_segments", change, "id = :key", key=old.id)
