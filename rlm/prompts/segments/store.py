"""Store prompt segments. Every edit adds a version, and labels mark versions. Nothing is deleted."""

from __future__ import annotations

import difflib
import os
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from rlm.prompts.segments.database import Database
from rlm.prompts.segments.errors import SegmentConflict, SegmentNotFound, SegmentRefused
from rlm.prompts.segments.location import store_url
from rlm.prompts.segments.migration import HEAD, MigrationStep
from rlm.prompts.segments.reading import StoreAdapter
from rlm.prompts.segments.rows import (
    find_segment,
    find_version,
    labels_by_segment,
    segment_id,
    to_segment_version,
    to_stored_segment,
)
from rlm.prompts.segments.scopes import ENTITY_KINDS, LAYERS, check_scope, kind_of
from rlm.prompts.segments.segment import (
    NO_METADATA,
    EntryRuleset,
    Segment,
    SegmentVersion,
    StoredSegment,
    faults_of_label,
    faults_of_segment,
    faults_of_text,
)
from rlm.prompts.segments.tables import entities, entry_rulesets, labels, prompt_segments, versions
from rlm.store_file import default_store

__all__ = ["SegmentStore", "insert_segment", "insert_version", "require_entity"]


class SegmentStore:
    """Segments in a SQLite file or a PostgreSQL database.

    Open it with `SegmentStore.open(...)`, as a context manager or with `close()`. Any number of threads and
    processes may use a store at once. All errors are SegmentErrors.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, path_or_url: str | Path | None = None) -> SegmentStore:
        """Open the store at a path or URL (`postgresql://user@host/name`). Default: in the state folder.

        A missing SQLite file is created, and an older one is migrated. An empty PostgreSQL database gets its
        tables. Other PostgreSQL schema versions raise StoreOutdated: run `migrate`.
        """
        database = Database(store_url(default_store(os.environ) if path_or_url is None else path_or_url))
        database.open()
        return cls(database)

    @classmethod
    def migrate(cls, path_or_url: str | Path | None = None, revision: str = HEAD) -> MigrationStep:
        """Migrate the tables of a store up or down."""
        url = store_url(default_store(os.environ) if path_or_url is None else path_or_url)
        return Database(url).migrate(revision)

    def close(self) -> None:
        """Close the database. Safe to call twice."""
        self._database.close()

    def __enter__(self) -> SegmentStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """Return the file, or the URL without its password."""
        return self._database.name

    @property
    def database(self) -> Database:
        """Return the database, for `rlm.prompts.segments.exchange`."""
        return self._database

    def adapter(self, label: str | None = None) -> StoreAdapter:
        """Return the adapter for a ScopedPrompt. With a label, it reads the versions with that label."""
        return StoreAdapter(self._database, None if label is None else _check_label(label))

    # reading

    def get(self, name: str) -> StoredSegment:
        """Return the segment with that id. Raises SegmentNotFound."""
        with self._database.read() as connection:
            return find_segment(connection, segment_id(name))

    def resolve(self, start: str) -> str:
        """Return the only id that begins with `start`. Raises SegmentNotFound if none or several do."""
        with self._database.read() as connection:
            names = [str(name) for name in connection.scalars(select(prompt_segments.c.id))]
        found = [name for name in names if start and name.startswith(start.lower())]
        if len(found) == 1:
            return found[0]
        if not found:
            raise SegmentNotFound(f"there is no segment {start!r}: `rlm segments list --all` shows them")
        raise SegmentNotFound(f"{len(found)} segments begin with {start!r}: give more characters of the id")

    def list(
        self, scope: str | None = None, ref_id: str | None = None, *, active: bool | None = True
    ) -> tuple[StoredSegment, ...]:
        """Return segments by scope in prompt order, entity, tier (none first) and id.

        With `active` None, inactive ones are included.
        """
        query = select(prompt_segments)
        if scope is not None:
            query = query.where(prompt_segments.c.scope == scope)
        if ref_id is not None:
            query = query.where(prompt_segments.c.ref_id == ref_id)
        if active is not None:
            query = query.where(prompt_segments.c.active.is_(active))
        with self._database.read() as connection:
            marks = labels_by_segment(connection)
            found = [to_stored_segment(row, marks.get(row.id, ())) for row in connection.execute(query)]
        return tuple(sorted(found, key=_place))

    def history(self, name: str) -> tuple[SegmentVersion, ...]:
        """Return all versions, oldest first. Raises SegmentNotFound."""
        key = segment_id(name)
        with self._database.read() as connection:
            find_segment(connection, key)
            query = select(versions).where(versions.c.segment_id == key).order_by(versions.c.version)
            return tuple(to_segment_version(row) for row in connection.execute(query))

    def version(self, name: str, which: int | str) -> SegmentVersion:
        """Return a version by number or label. Raises SegmentNotFound."""
        key = segment_id(name)
        with self._database.read() as connection:
            if isinstance(which, int):
                return find_version(connection, key, which)
            for label, version in find_segment(connection, key).labels:
                if label == which:
                    return find_version(connection, key, version)
        raise SegmentNotFound(
            f"segment {name} has no label {which!r}: set it with `rlm segments label {name} {which}`"
        )

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
        """(kind, id) of everything that segments may refer to."""
        query = select(entities.c.kind, entities.c.id)
        if kind is not None:
            query = query.where(entities.c.kind == _check_kind(kind))
        with self._database.read() as connection:
            return tuple(sorted((row.kind, row.id) for row in connection.execute(query)))

    def rulesets(self, entry: str) -> tuple[EntryRuleset, ...]:
        """The rulesets of an entry, in order."""
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
        """A new segment, at version 1. Raises ScopeRefused, SegmentRefused (a missing entity too)."""
        check_scope(scope)
        segment = Segment(str(uuid.uuid4()), scope, content, ref_id, dict(metadata))
        _refuse(faults_of_segment(segment) + faults_of_text("note", note))
        with self._database.write() as connection:
            require_entity(connection, kind_of(scope), ref_id)
            now = datetime.now(UTC)
            insert_segment(connection, StoredSegment(segment, now, now))
            version = SegmentVersion(segment.id, 1, content, dict(metadata), note, now)
            insert_version(connection, version)
            return find_segment(connection, segment_id(segment.id))

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
        with self._database.write() as connection:
            now = find_segment(connection, segment_id(name)).segment
            wanted = Segment(
                now.id,
                now.scope,
                now.content if content is None else content,
                now.ref_id,
                now.metadata if metadata is None else dict(metadata),
            )
            return _next_version(connection, now, wanted, expected, note)

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
        mark, key = _check_label(label), segment_id(name)
        with self._database.write() as connection:
            found = find_segment(connection, key)
            if isinstance(version, str):
                marks = dict(found.labels)
                if version not in marks:
                    raise SegmentNotFound(f"segment {name} has no label {version!r}: give a version's number")
                version = marks[version]
            wanted = found.segment.version if version is None else version
            find_version(connection, key, wanted)
            connection.execute(delete(labels).where(labels.c.segment_id == key, labels.c.label == mark))
            connection.execute(insert(labels).values(segment_id=key, label=mark, version=wanted))
        return wanted

    def unlabel(self, name: str, label: str) -> None:
        """Remove a label. Raises SegmentNotFound if no version has it."""
        key = segment_id(name)
        with self._database.write() as connection:
            gone = delete(labels).where(labels.c.segment_id == key, labels.c.label == label)
            if connection.execute(gone).rowcount == 0:
                raise SegmentNotFound(f"segment {name} has no label {label!r}: there is nothing to remove")

    def set_active(self, name: str, active: bool) -> None:
        """Activate a segment, or remove it from every prompt, whatever its labels.

        Raises SegmentNotFound. Raises ScopeRefused for a segment of a scope that is no longer stored.
        """
        key = segment_id(name)
        with self._database.write() as connection:
            found = find_segment(connection, key).segment
            if active:
                check_scope(found.scope)
            if found.active != active:
                change = update(prompt_segments).where(prompt_segments.c.id == key)
                connection.execute(change.values(active=active, updated_at=datetime.now(UTC)))

    def add_entity(self, kind: str, name: str) -> bool:
        """Add a ruleset, world, entry or npc that segments may refer to. Return False if it exists."""
        _check_kind(kind)
        _refuse([*faults_of_text("id", name), *([] if name.strip() else [f"the {kind}'s id is blank"])])
        with self._database.write() as connection:
            if _has_entity(connection, kind, name):
                return False
            connection.execute(insert(entities).values(kind=kind, id=name))
            return True

    def link(self, entry: str, ruleset: str, sort_order: int = 0) -> None:
        """Add a ruleset to an entry, or change its position. Raises SegmentRefused."""
        with self._database.write() as connection:
            require_entity(connection, "entry", entry)
            require_entity(connection, "ruleset", ruleset)
            here = (entry_rulesets.c.entry == entry) & (entry_rulesets.c.ruleset == ruleset)
            if connection.execute(update(entry_rulesets).where(here).values(sort_order=sort_order)).rowcount:
                return
            connection.execute(
                insert(entry_rulesets).values(entry=entry, ruleset=ruleset, sort_order=sort_order)
            )

    def unlink(self, entry: str, ruleset: str) -> None:
        """Remove a ruleset from an entry. Raises SegmentNotFound if they are not linked."""
        here = (entry_rulesets.c.entry == entry) & (entry_rulesets.c.ruleset == ruleset)
        with self._database.write() as connection:
            if connection.execute(delete(entry_rulesets).where(here)).rowcount == 0:
                raise SegmentNotFound(
                    f"entry {entry!r} has no ruleset {ruleset!r}: there is nothing to remove"
                )


def require_entity(connection: Connection, kind: str | None, name: str | None) -> None:
    """Raise SegmentRefused if the entity does not exist. Accepts None for core."""
    if kind is not None and name is not None and not _has_entity(connection, kind, name):
        raise SegmentRefused(
            f"there is no {kind} {name!r}: add it first with `rlm segments entity {kind} {name}`"
        )


def insert_segment(connection: Connection, given: StoredSegment) -> None:
    """Insert a row into `prompt_segments`."""
    segment = given.segment
    connection.execute(
        insert(prompt_segments).values(
            id=segment_id(segment.id),
            scope=segment.scope,
            ref_id=segment.ref_id,
            content=segment.content,
            metadata=dict(segment.metadata),
            version=segment.version,
            active=segment.active,
            created_at=given.created_at,
            updated_at=given.updated_at,
        )
    )


def insert_version(connection: Connection, given: SegmentVersion) -> None:
    """Insert a row into the versions."""
    connection.execute(
        insert(versions).values(
            segment_id=segment_id(given.segment_id),
            version=given.version,
            content=given.content,
            metadata=dict(given.metadata),
            note=given.note,
            created_at=given.created_at,
        )
    )


def _next_version(
    connection: Connection, now: Segment, wanted: Segment, expected: int, note: str
) -> StoredSegment:
    check_scope(now.scope)
    _refuse(faults_of_segment(wanted) + faults_of_text("note", note))
    if now.version != expected:
        raise SegmentConflict(now.id, expected, now.version)
    key = segment_id(now.id)
    if (wanted.content, dict(wanted.metadata)) != (now.content, dict(now.metadata)):
        moment = datetime.now(UTC)
        # Writers queue, so the version read above is current. The condition guards against a bug in that.
        change = (
            update(prompt_segments)
            .where(prompt_segments.c.id == key, prompt_segments.c.version == expected)
            .values(
                content=wanted.content,
                metadata=dict(wanted.metadata),
                version=expected + 1,
                updated_at=moment,
            )
        )
        if connection.execute(change).rowcount == 0:
            raise SegmentConflict(now.id, expected, find_segment(connection, key).segment.version)
        insert_version(
            connection,
            SegmentVersion(now.id, expected + 1, wanted.content, wanted.metadata, note, moment),
        )
    return find_segment(connection, key)


def _has_entity(connection: Connection, kind: str, name: str) -> bool:
    query = select(entities.c.id).where(entities.c.kind == kind, entities.c.id == name)
    return connection.execute(query).first() is not None


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


def _place(found: StoredSegment) -> tuple[int, str, bool, int, str]:
    segment = found.segment
    return (
        LAYERS.index(segment.scope),
        segment.ref_id or "",
        segment.tier is not None,
        segment.tier or 0,
        segment.id,
    )
