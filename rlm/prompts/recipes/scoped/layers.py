"""Fetch the static layers of a scoped prompt in parallel, and cache them until they change."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from rlm.lazy_dataclass import dataclass
from rlm.prompts.segments.adapter import BatchAdapter, DbAdapter, RevisedAdapter
from rlm.prompts.segments.errors import AdapterFailed
from rlm.prompts.segments.scopes import SCOPES
from rlm.prompts.segments.segment import Segment

__all__ = ["LayerSource", "StaticLayers"]

_T = TypeVar("_T")
_MAX_ENTITIES = 4096  # cached entities
_TRIES = 3  # attempts to read all layers at one revision while others write

_Key = tuple[str, str | None]


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
        self._revised = adapter if isinstance(adapter, RevisedAdapter) else None
        self._batched = adapter if isinstance(adapter, BatchAdapter) else None
        self._lock = threading.Lock()
        self._revision: object = None
        self._segments: dict[_Key, tuple[Segment, ...]] = {}
        self._rulesets: dict[str, tuple[str, ...]] = {}

    def fetch(self, entry: str, world: str, first_turn: bool, npcs: Sequence[str]) -> StaticLayers:
        """Return the layers of one prompt. Raises AdapterFailed, which names the scope."""
        found = _FetchedLayers()
        for _ in range(_TRIES):
            revision = self._read_revision()
            found = self._load_cached(revision)
            if not self._fill(found, entry, world, first_turn, npcs) or self._revised is None:
                break
            if self._read_revision() == revision:
                self._remember(revision, found)
                break
        rulesets = found.rulesets[entry]
        scopes = {
            "core": found.segments["core", None],
            "ruleset": tuple(segment for name in rulesets for segment in found.segments["ruleset", name]),
            "world": found.segments["world", world],
            "entry": found.segments["entry", entry],
            "entry_start": found.segments["entry_start", entry] if first_turn else (),
        }
        by_npc = tuple(found.segments["npc", name] for name in npcs)
        _check_ids("ruleset", scopes["ruleset"])
        _check_ids("npc", [segment for segments in by_npc for segment in segments])
        return StaticLayers(tuple(scopes.items()), by_npc)

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._segments, self._rulesets = {}, {}

    def _read_revision(self) -> object:
        # a failure is reported for the first scope
        return None if self._revised is None else _call_adapter(SCOPES[0], self._revised.revision)

    def _load_cached(self, revision: object) -> _FetchedLayers:
        with self._lock:
            if self._revised is None or revision != self._revision or len(self._segments) > _MAX_ENTITIES:
                return _FetchedLayers()
            return _FetchedLayers(dict(self._segments), dict(self._rulesets))

    def _remember(self, revision: object, found: _FetchedLayers) -> None:
        with self._lock:
            self._revision, self._segments, self._rulesets = revision, found.segments, found.rulesets

    def _fill(
        self, found: _FetchedLayers, entry: str, world: str, first_turn: bool, npcs: Sequence[str]
    ) -> bool:
        """Fetch what is missing in `found`. Return whether anything was missing."""
        wanted: list[tuple[str, list[str | None]]] = [
            ("core", [None]),
            ("world", [world]),
            ("entry", [entry]),
        ]
        if first_turn:
            wanted.append(("entry_start", [entry]))
        wanted.append(("npc", list(npcs)))
        jobs: list[Callable[[], None]] = [lambda: self._fill_rulesets(found, entry)]
        for scope, names in wanted:
            missing = [name for name in names if (scope, name) not in found.segments]
            if missing:
                jobs.append(partial(self._fill_scope, found, scope, missing))
        if entry in found.rulesets and all(
            ("ruleset", name) in found.segments for name in found.rulesets[entry]
        ):
            del jobs[0]
        _run(jobs)
        return bool(jobs)

    def _fill_rulesets(self, found: _FetchedLayers, entry: str) -> None:
        """Fetch an entry's rulesets. Their ids must be fetched before their segments."""
        links = _fetch_rows("ruleset", partial(self._adapter.get_rulesets_for_entry, entry))
        names = [link.id for link in sorted(links, key=lambda link: (link.sort_order, link.id))]
        found.rulesets[entry] = tuple(dict.fromkeys(names))
        missing: list[str | None] = [
            name for name in found.rulesets[entry] if ("ruleset", name) not in found.segments
        ]
        if missing:
            self._fill_scope(found, "ruleset", missing)

    def _fill_scope(self, found: _FetchedLayers, scope: str, names: Sequence[str | None]) -> None:
        ids = [name for name in names if name is not None]
        if len(names) > 1 and self._batched is not None:
            rows = _fetch_rows(scope, partial(self._batched.get_segments_of, scope, ids))
            for one in ids:
                found.segments[scope, one] = _sort_active(scope, [row for row in rows if row.ref_id == one])
            return
        for name in names:
            rows = _fetch_rows(scope, partial(self._adapter.get_segments, scope, name))
            found.segments[scope, name] = _sort_active(scope, rows)


class _FetchedLayers:
    """The segments fetched so far. Each job writes its own keys."""

    __slots__ = ("rulesets", "segments")

    def __init__(
        self,
        segments: dict[_Key, tuple[Segment, ...]] | None = None,
        rulesets: dict[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.segments = segments or {}
        self.rulesets = rulesets or {}


def _sort_active(scope: str, rows: Sequence[Segment]) -> tuple[Segment, ...]:
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


def _fetch_rows(scope: str, question: Callable[[], Iterable[_T]]) -> list[_T]:
    """Return an adapter's rows as a list, because iterating over them may fail too."""
    return _call_adapter(scope, lambda: list(question()))


def _call_adapter(scope: str, question: Callable[[], _T]) -> _T:
    """Call an adapter, which may be third-party code. Any error becomes AdapterFailed."""
    try:
        return question()
    except Exception as error:
        raise AdapterFailed(scope, error) from error


def _run(jobs: Sequence[Callable[[], None]]) -> None:
    """Run all jobs in parallel. If several fail, raise the error of the first in order."""
    if len(jobs) <= 1:
        for job in jobs:
            job()
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(jobs), thread_name_prefix="rlm-segments") as pool:
        running = [pool.submit(job) for job in jobs]
        for job_running in running:
            job_running.result()
