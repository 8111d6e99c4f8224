"""Store prompt segments. Every edit adds a version, and labels mark versions. Nothing is deleted."""

from __future__ import annotations

import difflib
import json
import os
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from rlm.database import store_at
from rlm.database.store import Row, RowConflict, Schema, Store, Transaction, one_of
from rlm.prompts.segments.segment import (
    DEPRECATED,
    ENTITY_KINDS,
    LAYERS,
    NO_METADATA,
    EntryRuleset,
    Segment,
    SegmentConflict,
    SegmentNotFound,
    SegmentRefused,
    SegmentVersion,
    StoredSegment,
    StoreUnavailable,
    check_scope,
    faults_of_label,
    faults_of_segment,
    faults_of_text,
    kind_of,
)
from rlm.store_file import default_store

__all__ = [
    "SegmentStore",
    "StoreAdapter",
    "all_segments",
    "insert_entity",
    "insert_link",
    "insert_next_version",
    "insert_segment",
    "insert_version",
    "is_same_text",
    "lock_out_writers",
    "to_version",
]

_ADOPTED = "prompt_segments_adopted"
_BATCH = 400  # values of an IN
_T = TypeVar("_T")


class _SegmentSchema(Schema):
    noun = "the segments in"
    version_table = "prompt_segment_schema"
    version = "3"
    bulk = ("prompt_segments", "prompt_segment_versions")
    error = StoreUnavailable
    file = Path(__file__).with_name("schema.sql")

    def make(self, transaction: Transaction) -> None:
        """Make the tables. Another program's table `prompt_segments` is renamed, and its rows are copied."""
        is_taken = transaction.has_table("prompt_segments")
        if is_taken:
            transaction.execute(f"ALTER TABLE prompt_segments RENAME TO {_ADOPTED}")
        super().make(transaction)
        if is_taken:
            _adopt(transaction)


_SCHEMA = _SegmentSchema()


class SegmentStore:
    """Segments in a SQLite file or a PostgreSQL database.

    Open it with `SegmentStore.open(...)`, as a context manager or with `close()`. Any number of threads and
    processes may use a store at once. All errors are SegmentErrors.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(cls, path_or_url: str | Path | None = None) -> SegmentStore:
        """Open the store at a path or URL (`postgresql://user@host/name`). Default: in the state folder.

        A missing SQLite file is created, with its tables. A table `prompt_segments` of another program is
        renamed to `prompt_segments_adopted`, and its rows are copied.
        """
        store = store_at(_SCHEMA, default_store(os.environ) if path_or_url is None else path_or_url)
        store.open_now()
        return cls(store)

    def close(self) -> None:
        """Close the database. Safe to call twice."""
        self._store.close_now()

    def __enter__(self) -> SegmentStore:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Return the file, or the URL without its password."""
        return self._store.name

    def adapter(self, label: str | None = None) -> StoreAdapter:
        """Return the adapter for a ScopedPrompt. With a label, it reads the versions with that label."""
        return StoreAdapter(self._store, None if label is None else _check_label(label))

    def read(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work`, which only reads."""
        return self._store.read_now(work)

    def snapshot(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work`, which only reads, in a transaction."""
        return self._store.write_now(work)

    def write(self, work: Callable[[Transaction], _T]) -> _T:
        """Run `work` in a transaction with no other writer in it: kept at its end, or nothing of it is."""

        def count_and_work(transaction: Transaction) -> _T:
            transaction.execute("UPDATE prompt_segment_schema SET revision = revision + 1")
            return work(transaction)

        try:
            return self._store.write_now(count_and_work)
        except RowConflict as error:
            raise StoreUnavailable(
                f"the segments in {self.name} can't be written: the data violates a constraint of its table; "
                "correct it"
            ) from error

    def undo_adoption(self) -> None:
        """Put an adopted table back as it was, without the tables of this store, which is then closed.

        Raises SegmentRefused if there is none, or if segments were written since.
        """

        def work(transaction: Transaction) -> None:
            if not transaction.has_table(_ADOPTED):
                raise SegmentRefused("no table was adopted: there is nothing to put back")
            lock_out_writers(transaction)
            if transaction.scalar("SELECT revision FROM prompt_segment_schema"):
                raise SegmentRefused("segments were written since: export them, and use another store")
            tables = [name for name, sql in _SCHEMA.definitions.items() if sql.startswith("CREATE TABLE")]
            for name in reversed(tables):
                transaction.execute(f"DROP TABLE {name}")
            transaction.execute(f"ALTER TABLE {_ADOPTED} RENAME TO prompt_segments")

        self._store.write_now(work)
        self.close()

    # reading

    def get(self, name: str) -> StoredSegment:
        """Return the segment with that id. Raises SegmentNotFound."""
        return self.read(lambda transaction: _find(transaction, name))

    def resolve(self, start: str) -> str:
        """Return the only id that begins with `start`. Raises SegmentNotFound if none or several do."""
        ids = self.read(lambda transaction: transaction.rows("SELECT id FROM prompt_segments"))
        found = [row["id"] for row in ids if start and row["id"].startswith(start.lower())]
        if len(found) == 1:
            return str(found[0])
        if not found:
            raise SegmentNotFound(f"there is no segment {start!r}: `rlm segments list` shows them")
        raise SegmentNotFound(f"{len(found)} segments begin with {start!r}: give more characters of the id")

    def list(
        self, scope: str | None = None, ref_id: str | None = None, *, active: bool | None = True
    ) -> tuple[StoredSegment, ...]:
        """Return segments by scope in prompt order, entity, tier (none first) and id.

        With `active` None, inactive ones are included.
        """

        def is_wanted(one: Segment) -> bool:
            return (
                scope in (None, one.scope) and ref_id in (None, one.ref_id) and active in (None, one.active)
            )

        def place(found: StoredSegment) -> tuple[int, str, bool, int, str]:
            one = found.segment
            return LAYERS.index(one.scope), one.ref_id or "", one.tier is not None, one.tier or 0, one.id

        return tuple(sorted((one for one in self.read(all_segments) if is_wanted(one.segment)), key=place))

    def history(self, name: str) -> tuple[SegmentVersion, ...]:
        """Return all versions, oldest first. Raises SegmentNotFound."""

        def work(transaction: Transaction) -> list[Row]:
            key = _find(transaction, name).segment.id
            sql = "SELECT * FROM prompt_segment_versions WHERE segment_id = :key ORDER BY version"
            return transaction.rows(sql, key=key)

        return tuple(map(to_version, self.read(work)))

    def version(self, name: str, which: int | str) -> SegmentVersion:
        """Return a version by number or label. Raises SegmentNotFound."""
        return self.read(lambda transaction: _find_version(transaction, name, which))

    def diff(self, name: str, old: int | str, new: int | str) -> str:
        """Return a unified diff of two versions (numbers or labels), or "" if they are equal."""
        before, after = self.version(name, old), self.version(name, new)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ no line end here\n"
            for line in difflib.unified_diff(
                _lines(before), _lines(after), f"version {before.version}", f"version {after.version}"
            )
        )

    def entities(self, kind: str | None = None) -> tuple[tuple[str, str], ...]:
        """Return (kind, id) of everything that segments may refer to."""
        wanted = ENTITY_KINDS if kind is None else (_check_kind(kind),)
        rows = self.read(lambda transaction: transaction.rows("SELECT kind, id FROM entities"))
        return tuple(sorted((row["kind"], row["id"]) for row in rows if row["kind"] in wanted))

    def rulesets(self, entry: str) -> tuple[EntryRuleset, ...]:
        """Return the rulesets of an entry, in order."""
        found = self.adapter().get_rulesets_for_entry(entry)
        return tuple(sorted(found, key=lambda link: (link.sort_order, link.id)))

    # writing

    def add(
        self,
        scope: str,
        content: str,
        *,
        ref_id: str | None = None,
        metadata: Mapping[str, Any] = NO_METADATA,
        note: str = "",
    ) -> StoredSegment:
        """Add a segment, at version 1. Raises ScopeRefused, SegmentRefused (a missing entity too)."""
        check_scope(scope)
        segment = Segment(str(uuid.uuid4()), scope, content, ref_id, dict(metadata))
        _refuse(faults_of_segment(segment) + faults_of_text("note", note))
        now = datetime.now(UTC)

        def work(transaction: Transaction) -> StoredSegment:
            _require_entity(transaction, kind_of(scope), ref_id)
            insert_segment(transaction, StoredSegment(segment, now, now))
            insert_version(transaction, SegmentVersion(segment.id, 1, content, metadata, note, now))
            return _find(transaction, segment.id)

        return self.write(work)

    def edit(
        self,
        name: str,
        *,
        expected: int,
        content: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        note: str = "",
    ) -> StoredSegment:
        """Add a version with new content, new metadata (replaced as a whole), or both.

        `expected` is the version that was read before editing. If the segment has a newer one,
        SegmentConflict is raised and nothing is written. Unchanged content adds no version.
        """

        def work(transaction: Transaction) -> StoredSegment:
            now = _find(transaction, name).segment
            check_scope(now.scope)
            wanted = replace(
                now,
                content=now.content if content is None else content,
                metadata=now.metadata if metadata is None else dict(metadata),
            )
            _refuse(faults_of_segment(wanted) + faults_of_text("note", note))
            if now.version != expected:
                raise SegmentConflict(now.id, expected, now.version)
            if not is_same_text(wanted, now):
                insert_next_version(transaction, now, wanted, note)
            return _find(transaction, now.id)

        return self.write(work)

    def rollback(self, name: str, to: int | str, *, expected: int, note: str = "") -> StoredSegment:
        """Add a version with the content of an old one (number or label). Raises as `edit` does."""
        old = self.version(name, to)
        return self.edit(
            name,
            expected=expected,
            content=old.content,
            metadata=old.metadata,
            note=note or f"back to version {old.version}",
        )

    def label(self, name: str, label: str, version: int | str | None = None) -> int:
        """Move a label to a version (number or other label; default: the newest). Return that version.

        Raises SegmentNotFound.
        """
        _check_label(label)

        def work(transaction: Transaction) -> int:
            segment = _find(transaction, name).segment
            wanted = _find_version(transaction, name, segment.version if version is None else version)
            row = {"segment_id": segment.id, "label": label, "version": wanted.version}
            _drop_label(transaction, segment.id, label)
            transaction.insert("prompt_segment_labels", [row])
            return wanted.version

        return self.write(work)

    def unlabel(self, name: str, label: str) -> None:
        """Remove a label. Raises SegmentNotFound if no version has it."""

        def work(transaction: Transaction) -> None:
            if not _drop_label(transaction, _key(name), label):
                raise SegmentNotFound(f"segment {name} has no label {label!r}: there is nothing to remove")

        self.write(work)

    def set_active(self, name: str, active: bool) -> None:
        """Activate a segment, or remove it from every prompt, whatever its labels.

        Raises SegmentNotFound. Raises ScopeRefused for a segment of a scope that is no longer stored.
        """

        def work(transaction: Transaction) -> None:
            found = _find(transaction, name).segment
            if active:
                check_scope(found.scope)
            if found.active != active:
                change = {"active": active, "updated_at": _time(datetime.now(UTC))}
                transaction.update("prompt_segments", change, "id = :key", key=found.id)

        self.write(work)

    def add_entity(self, kind: str, name: str) -> bool:
        """Add a ruleset, world, entry or npc that segments may refer to. Return False if it exists."""
        _check_kind(kind)
        _refuse([*faults_of_text("id", name), *([] if name.strip() else [f"the {kind}'s id is blank"])])
        return self.write(lambda transaction: insert_entity(transaction, kind, name))

    def link(self, entry: str, ruleset: str, sort_order: int = 0) -> None:
        """Add a ruleset to an entry, or change its position. Raises SegmentRefused."""

        def work(transaction: Transaction) -> None:
            _require_entity(transaction, "entry", entry)
            _require_entity(transaction, "ruleset", ruleset)
            insert_link(transaction, entry, ruleset, sort_order)

        self.write(work)

    def unlink(self, entry: str, ruleset: str) -> None:
        """Remove a ruleset from an entry. Raises SegmentNotFound if they are not linked."""

        def work(transaction: Transaction) -> None:
            sql = "DELETE FROM entry_rulesets WHERE entry = :entry AND ruleset = :ruleset"
            if not transaction.execute(sql, entry=entry, ruleset=ruleset):
                raise SegmentNotFound(
                    f"entry {entry!r} has no ruleset {ruleset!r}: there is nothing to remove"
                )

        self.write(work)


class StoreAdapter:
    """Provides active segments: their current version or, with a label, the version that has the label.

    With a label, segments without it are left out: they were never released under it. Raises
    StoreUnavailable.
    """

    def __init__(self, store: Store, label: str | None = None) -> None:
        self._store = store
        self._label = label

    def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
        """Return the active segments of that scope and entity."""
        if ref_id is None:
            return self._fetch("s.ref_id IS NULL", scope=scope)
        return self._fetch("s.ref_id = :ref_id", scope=scope, ref_id=ref_id)

    def get_segments_of(self, scope: str, ref_ids: Sequence[str]) -> Sequence[Segment]:
        """Return the active segments of that scope for any of those entities."""
        found: list[Segment] = []
        for start in range(0, len(ref_ids), _BATCH):
            names, values = one_of(ref_ids[start : start + _BATCH])
            found += self._fetch(f"s.ref_id IN {names}", scope=scope, **values)
        return found

    def get_rulesets_for_entry(self, entry_id: str) -> Sequence[EntryRuleset]:
        """Return the rulesets of an entry."""
        sql = "SELECT ruleset, sort_order FROM entry_rulesets WHERE entry = :entry"
        rows = self._store.read_now(lambda transaction: transaction.rows(sql, entry=entry_id))
        return [EntryRuleset(row["ruleset"], row["sort_order"]) for row in rows]

    def revision(self) -> object:
        """Return the number of changes to the store so far."""
        sql = "SELECT revision FROM prompt_segment_schema"
        return self._store.read_now(lambda transaction: transaction.scalar(sql))

    def _fetch(self, where: str, **values: Any) -> list[Segment]:
        if self._label is None:
            sql = "SELECT s.* FROM prompt_segments s"
        else:
            sql = (
                "SELECT s.id, s.scope, s.ref_id, s.active, v.content, v.metadata, v.version "
                "FROM prompt_segments s JOIN prompt_segment_labels l ON l.segment_id = s.id "
                "JOIN prompt_segment_versions v ON v.segment_id = s.id AND v.version = l.version "
                "AND l.label = :label"
            )
            values["label"] = self._label
        sql += f" WHERE s.active AND s.scope = :scope AND {where}"
        return list(
            map(_to_segment, self._store.read_now(lambda transaction: transaction.rows(sql, **values)))
        )


def insert_segment(transaction: Transaction, given: StoredSegment) -> None:
    """Insert a row into `prompt_segments`."""
    names = ("id", "scope", "ref_id", "content", "version", "active")
    row = {name: getattr(given.segment, name) for name in names}
    row |= {"metadata": _json(given.segment.metadata)}
    row |= {"created_at": _time(given.created_at), "updated_at": _time(given.updated_at)}
    transaction.insert("prompt_segments", [row])


def insert_version(transaction: Transaction, given: SegmentVersion) -> None:
    """Insert a row into the versions."""
    row = {name: getattr(given, name) for name in ("segment_id", "version", "content", "note")}
    row |= {"metadata": _json(given.metadata), "created_at": _time(given.created_at)}
    transaction.insert("prompt_segment_versions", [row])


def insert_next_version(transaction: Transaction, now: Segment, wanted: Segment, note: str) -> None:
    """Give a segment another text and metadata, as its next version."""
    number, moment = now.version + 1, datetime.now(UTC)
    data = {"content": wanted.content, "metadata": _json(wanted.metadata), "version": number}
    changes = data | {"updated_at": _time(moment)}
    transaction.update("prompt_segments", changes, "id = :key", key=now.id)
    insert_version(transaction, SegmentVersion(now.id, number, wanted.content, wanted.metadata, note, moment))


def insert_entity(transaction: Transaction, kind: str, name: str) -> bool:
    """Add an entity. Return False if it exists."""
    is_new = not _has_entity(transaction, kind, name)
    if is_new:
        transaction.insert("entities", [{"kind": kind, "id": name}])
    return is_new


def insert_link(transaction: Transaction, entry: str, ruleset: str, sort_order: int) -> None:
    """Add a ruleset to an entry, or change its position."""
    row = {"entry": entry, "ruleset": ruleset}
    where = "entry = :entry AND ruleset = :ruleset"
    if not transaction.update("entry_rulesets", {"sort_order": sort_order}, where, **row):
        transaction.insert("entry_rulesets", [row | {"sort_order": sort_order}])


def is_same_text(one: Segment, other: Segment) -> bool:
    """Return whether two segments have the same content and metadata."""
    return (one.content, dict(one.metadata)) == (other.content, dict(other.metadata))


def all_segments(transaction: Transaction, where: str = "TRUE", **values: Any) -> list[StoredSegment]:
    """Return the segments with their labels."""
    labels: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for row in transaction.rows("SELECT * FROM prompt_segment_labels ORDER BY label"):
        labels[row["segment_id"]].append((row["label"], row["version"]))
    return [
        StoredSegment(
            _to_segment(row),
            _to_time(row["created_at"]),
            _to_time(row["updated_at"]),
            tuple(labels[row["id"]]),
        )
        for row in transaction.rows(f"SELECT * FROM prompt_segments WHERE {where}", **values)  # noqa: S608
    ]


def lock_out_writers(transaction: Transaction) -> None:
    """Keep every other write out until the end of the transaction: each begins with this row."""
    transaction.rows(f"SELECT revision FROM prompt_segment_schema{transaction.lock}")  # noqa: S608


def to_version(row: Row) -> SegmentVersion:
    """Convert a row of the versions."""
    values = {name: row[name] for name in ("segment_id", "version", "content", "note")}
    return SegmentVersion(
        metadata=_to_metadata(row["metadata"]), created_at=_to_time(row["created_at"]), **values
    )


def _to_segment(row: Row) -> Segment:
    values = {name: row[name] for name in ("id", "scope", "content", "ref_id", "version")}
    return Segment(metadata=_to_metadata(row["metadata"]), active=bool(row["active"]), **values)


def _to_metadata(text: Any) -> Mapping[str, Any]:
    found = json.loads(text) if isinstance(text, str) else text
    return MappingProxyType(found if isinstance(found, dict) else {})


def _to_time(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False)


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat()


def _key(name: str) -> str:
    """Return the id of a segment in its only spelling. Raises SegmentNotFound for an invalid one."""
    try:
        return str(uuid.UUID(name))
    except ValueError as error:
        raise SegmentNotFound(f"{name!r} is not a segment id: `rlm segments list` shows them") from error


def _find(transaction: Transaction, name: str) -> StoredSegment:
    found = all_segments(transaction, "id = :key", key=_key(name))
    if not found:
        raise SegmentNotFound(f"there is no segment {name}: `rlm segments list` shows them")
    return found[0]


def _find_version(transaction: Transaction, name: str, which: int | str) -> SegmentVersion:
    labels = dict(_find(transaction, name).labels)
    if isinstance(which, str) and which not in labels:
        raise SegmentNotFound(
            f"segment {name} has no label {which!r}: set it with `rlm segments label {name} {which}`"
        )
    number = labels[which] if isinstance(which, str) else which
    sql = "SELECT * FROM prompt_segment_versions WHERE segment_id = :key AND version = :number"
    rows = transaction.rows(sql, key=_key(name), number=number)
    if not rows:
        raise SegmentNotFound(
            f"segment {name} has no version {number}: `rlm segments show {name}` lists its versions"
        )
    return to_version(rows[0])


def _drop_label(transaction: Transaction, key: str, label: str) -> int:
    sql = "DELETE FROM prompt_segment_labels WHERE segment_id = :key AND label = :label"
    return transaction.execute(sql, key=key, label=label)


def _has_entity(transaction: Transaction, kind: str, name: str) -> bool:
    return bool(
        transaction.rows("SELECT 1 FROM entities WHERE kind = :kind AND id = :name", kind=kind, name=name)
    )


def _require_entity(transaction: Transaction, kind: str | None, name: str | None) -> None:
    """Raise SegmentRefused if the entity does not exist. Accepts None for core."""
    if kind is not None and name is not None and not _has_entity(transaction, kind, name):
        raise SegmentRefused(
            f"there is no {kind} {name!r}: add it first with `rlm segments entity {kind} {name}`"
        )


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise SegmentRefused(*faults)


def _check_label(label: str) -> str:
    _refuse(faults_of_label(label))
    return label


def _check_kind(kind: str) -> str:
    if kind not in ENTITY_KINDS:
        raise SegmentRefused(f"there is no kind {kind!r}: use one of {', '.join(ENTITY_KINDS)}")
    return kind


def _lines(version: SegmentVersion) -> Sequence[str]:
    """Return the lines of the content, preceded by the metadata if there is any."""
    head = [f"{key}: {value!r}\n" for key, value in sorted(version.metadata.items())]
    return [*head, *(["\n"] if head else []), *version.content.splitlines(keepends=True)]


def _adopt(transaction: Transaction) -> None:
    """Copy the rows of another program's table. Those of retired scopes become inactive and say so."""
    rows = transaction.rows(f"SELECT * FROM {_ADOPTED}")  # noqa: S608
    _refuse([fault for row in rows for fault in _faults_of_row(row)])
    now = datetime.now(UTC)
    for row in rows:
        scope, content = str(row["scope"]), str(row["content"])
        ref_id = str(row["ref_id"]) if row.get("ref_id") else None
        kind, metadata = kind_of(scope), dict(_to_metadata(row.get("metadata")))
        active = row.get("active")
        if scope in DEPRECATED:
            note = f"no longer stored: {DEPRECATED[scope]}"
            metadata |= {"deprecated_scope": scope, "deprecated_at": _time(now), "note": note}
            active = False
        if kind is not None and ref_id is not None:
            insert_entity(transaction, kind, ref_id)
        try:
            key = str(uuid.UUID(str(row["id"])))
        except ValueError:
            key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"prompt_segments/{row['id']}"))
        made, changed = (_to_time(str(row.get(name) or now)) for name in ("created_at", "updated_at"))
        segment = Segment(key, scope, content, ref_id, metadata, active=active is None or bool(active))
        insert_segment(transaction, StoredSegment(segment, made, changed))
        note = f"adopted, was version {row.get('version')}"
        insert_version(transaction, SegmentVersion(key, 1, content, metadata, note, now))


def _faults_of_row(row: Row) -> list[str]:
    where, scope = f"row {row['id']} of prompt_segments", str(row["scope"])
    if scope not in LAYERS:
        return [f"{where} has the unknown scope {scope!r}: correct or remove it"]
    if kind_of(scope) is not None and not row.get("ref_id"):
        return [f"{where} is of scope {scope!r} and has no ref_id: correct or remove it"]
    if scope == "core" and row.get("ref_id"):
        return [f"{where} is of scope 'core' and has a ref_id: correct or remove it"]
    return []
