"""Fetch the static layers of a scoped prompt, and keep them until they change."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from rlm.prompts.segments.segment import AdapterFailed, BatchAdapter, DbAdapter, RevisedAdapter, Segment

__all__ = ["LayerSource", "StaticLayers"]

_T = TypeVar("_T")
_MAX_ENTITIES = 4096  # kept entities
_TRIES = 3  # attempts to read all layers at one revision while others write


@dataclass(frozen=True, slots=True)
class StaticLayers:
    """Active segments in rendered order: by scope (all but npc), and by character."""

    by_scope: tuple[tuple[str, tuple[Segment, ...]], ...]
    by_npc: tuple[tuple[Segment, ...], ...]


class LayerSource:
    """Fetches segments from an adapter. Thread-safe.

    From a RevisedAdapter, nothing is fetched twice until its revision changes, and all layers come from one
    revision, unless others write during each of three attempts.
    """

    def __init__(self, adapter: DbAdapter) -> None:
        self._adapter = adapter
        self._lock = threading.Lock()
        self._revision: object = None
        self._segments: dict[tuple[str, str | None], tuple[Segment, ...]] = {}
        self._rulesets: dict[str, list[str]] = {}

    def forget(self) -> None:
        """Forget what was fetched."""
        with self._lock:
            self._segments, self._rulesets = {}, {}

    def fetch(self, entry: str, world: str, first_turn: bool, npcs: Sequence[str]) -> StaticLayers:
        """Return the layers of one prompt. Raises AdapterFailed, which names the scope."""
        with self._lock:
            for _ in range(_TRIES):
                revision = self._read_revision()
                if revision is None or revision != self._revision or len(self._segments) > _MAX_ENTITIES:
                    self._segments, self._rulesets = {}, {}
                self._revision = revision
                known = len(self._segments), len(self._rulesets)
                layers = self._read(entry, world, first_turn, npcs)
                has_fetched = known != (len(self._segments), len(self._rulesets))
                if revision is None or not has_fetched or self._read_revision() == revision:
                    break
        return layers

    def _read_revision(self) -> object:
        # A failure is reported for the first scope.
        is_revised = isinstance(self._adapter, RevisedAdapter)
        return _called("core", self._adapter.revision) if is_revised else None  # type: ignore[attr-defined]

    def _read(self, entry: str, world: str, first_turn: bool, npcs: Sequence[str]) -> StaticLayers:
        core = self._segments_of("core", [None])
        if entry not in self._rulesets:
            links = _called("ruleset", lambda: list(self._adapter.get_rulesets_for_entry(entry)))
            names = [link.id for link in sorted(links, key=lambda link: (link.sort_order, link.id))]
            self._rulesets[entry] = list(dict.fromkeys(names))
        rulesets = self._segments_of("ruleset", self._rulesets[entry])
        scopes = {
            "core": core[0],
            "ruleset": tuple(segment for segments in rulesets for segment in segments),
            "world": self._segments_of("world", [world])[0],
            "entry": self._segments_of("entry", [entry])[0],
            "entry_start": self._segments_of("entry_start", [entry])[0] if first_turn else (),
        }
        by_npc = tuple(self._segments_of("npc", npcs))
        _check_ids("ruleset", scopes["ruleset"])
        _check_ids("npc", [segment for segments in by_npc for segment in segments])
        return StaticLayers(tuple(scopes.items()), by_npc)

    def _segments_of(self, scope: str, names: Sequence[str | None]) -> list[tuple[Segment, ...]]:
        """Return the segments of each of these entities, several new ones with one query."""
        missing = [name for name in dict.fromkeys(names) if (scope, name) not in self._segments]
        ids = [name for name in missing if name is not None]
        adapter = self._adapter
        if len(missing) > 1 and isinstance(adapter, BatchAdapter):
            rows = _called(scope, lambda: list(adapter.get_segments_of(scope, ids)))
            for one in ids:
                self._segments[scope, one] = _active(scope, [row for row in rows if row.ref_id == one])
        else:
            for name in missing:
                rows = _called(scope, partial(_rows, adapter, scope, name))
                self._segments[scope, name] = _active(scope, rows)
        return [self._segments[scope, name] for name in names]


def _rows(adapter: DbAdapter, scope: str, name: str | None) -> list[Segment]:
    return list(adapter.get_segments(scope, name))


def _active(scope: str, rows: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return active, non-blank segments without duplicates: no tier first, then by tier, then by id.

    Raises AdapterFailed for a segment of another scope, and for two different segments with one id.
    """
    kept: dict[str, Segment] = {}
    for row in rows:
        if row.scope != scope:
            raise AdapterFailed(scope, ValueError(f"segment {row.id!r} has the scope {row.scope!r}"))
        if not row.active or not row.content.strip():
            continue
        if kept.setdefault(row.id, row) != row:
            raise AdapterFailed(scope, ValueError(f"two segments have the id {row.id!r}"))
    return tuple(sorted(kept.values(), key=lambda row: (row.tier is not None, row.tier or 0, row.id)))


def _check_ids(scope: str, segments: Sequence[Segment]) -> None:
    """Raise AdapterFailed if segments of several entities have one id."""
    twice = next((name for name, n in Tally(segment.id for segment in segments).items() if n > 1), None)
    if twice is not None:
        raise AdapterFailed(scope, ValueError(f"two segments have the id {twice!r}"))


def _called(scope: str, question: Callable[[], _T]) -> _T:
    """Call an adapter, which may be third-party code. Any error becomes AdapterFailed."""
    try:
        return question()
    except Exception as error:
        raise AdapterFailed(scope, error) from error
