"""Test how a store takes over the table of another program, as seed 001 describes it, on both databases."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from rlm.database import store_at
from rlm.database.store import Schema, Transaction
from rlm.prompts import ScopedInput, ScopedPrompt
from rlm.prompts.segments import DEPRECATED, ScopeRefused, SegmentRefused, SegmentStore, StoreUnavailable

_TABLES = {
    "sqlite": "CREATE TABLE prompt_segments (id TEXT PRIMARY KEY, scope TEXT NOT NULL, ref_id TEXT, "
    "content TEXT NOT NULL, metadata TEXT, version TEXT, active BOOLEAN DEFAULT 1, "
    "created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    "postgresql": "CREATE TABLE prompt_segments (id uuid PRIMARY KEY, scope text NOT NULL, ref_id text, "
    "content text NOT NULL, metadata jsonb, version text, active boolean DEFAULT true, "
    "created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now())",
}
_ROWS = (
    ("core", None, None),
    ("world", "w", '{"tier": 1}'),
    ("entry_start", "e", '{"tier": 1}'),
    ("npc", "n", '{"tier": 1}'),
    ("game_state", None, '{"tier": 2, "note": "its own note"}'),
    ("player", "p", "{}"),
    ("rng", None, None),
    ("input", None, None),
)


class _Foreign(Schema):
    """The other program's view of its database."""

    noun = "the table in"
    version_table = "its_version"
    version = "1"
    error = StoreUnavailable
    definitions: dict[str, str] = {  # noqa: RUF012
        "its_version": "CREATE TABLE its_version (version_num VARCHAR(32) NOT NULL)"
    }


def _run(url: str, work: Any) -> Any:
    store = store_at(_Foreign(), url)
    store.open_now()
    try:
        return store.write_now(work)
    finally:
        store.close_now()


def _rows(url: str, table: str = "prompt_segments") -> list[Any]:
    return list(_run(url, lambda opened: opened.rows(f"SELECT * FROM {table} ORDER BY id")))


def _make_old_table(url: str, rows: Sequence[tuple[str, str | None, str | None]] = _ROWS) -> None:
    def work(opened: Transaction) -> None:
        opened.execute(_TABLES[url.partition(":")[0] if "://" in url else "sqlite"])
        for number, (scope, ref_id, metadata) in enumerate(rows):
            row = {"id": str(uuid.UUID(int=number)), "scope": scope, "ref_id": ref_id}
            row |= {"content": f"{scope} ✓\n", "metadata": metadata, "version": "v1"}
            opened.insert("prompt_segments", [row])

    _run(url, work)


def test_the_segments_of_another_program_s_table_are_taken_over(store_url: str) -> None:
    _make_old_table(store_url)
    with SegmentStore.open(store_url) as store:
        found = [(s.segment.scope, s.segment.ref_id, s.segment.content, s.segment.tier) for s in store.list()]
        assert found == [
            ("core", None, "core ✓\n", None),
            ("world", "w", "world ✓\n", 1),
            ("entry_start", "e", "entry_start ✓\n", 1),
            ("npc", "n", "npc ✓\n", 1),
        ]
        assert store.entities() == (("entry", "e"), ("npc", "n"), ("world", "w"))
        core = store.list("core")[0].segment
        assert core.id == str(uuid.UUID(int=0))
        assert store.history(core.id)[0].note == "adopted, was version v1"


def test_retired_scopes_are_put_aside_inactive_and_marked_and_their_content_stays(
    store_url: str,
) -> None:
    _make_old_table(store_url)
    with SegmentStore.open(store_url) as store:
        aside = {found.segment.scope: found.segment for found in store.list(active=False)}
        assert list(aside) == list(DEPRECATED)
        for scope, segment in aside.items():
            assert segment.content == f"{scope} ✓\n"
            assert segment.metadata["deprecated_scope"] == scope
            assert len(segment.metadata["deprecated_at"]) >= 19
            assert scope in segment.metadata["note"]
        assert aside["game_state"].tier == 2
        assert aside["player"].ref_id == "p"
        text = ScopedPrompt(store.adapter()).assemble(ScopedInput("e", "w")).text
        assert "core ✓" in text
        assert "player" not in text
        for segment in aside.values():
            with pytest.raises(ScopeRefused, match=f"scope '{segment.scope}' are no longer stored"):
                store.edit(segment.id, content="new", expected=1)
            with pytest.raises(ScopeRefused):
                store.set_active(segment.id, True)


def test_an_adoption_can_be_taken_back_to_the_letter_until_something_is_written(store_url: str) -> None:
    _make_old_table(store_url)
    before = _rows(store_url)
    store = SegmentStore.open(store_url)
    store.undo_adoption()
    assert _rows(store_url) == before
    with SegmentStore.open(store_url) as store:
        store.add("core", "new")
        with pytest.raises(SegmentRefused, match="segments were written since: export them"):
            store.undo_adoption()
        assert len(store.list()) == 5
    assert _rows(store_url, "prompt_segments_adopted") == before


def test_without_an_adopted_table_there_is_nothing_to_put_back(store: SegmentStore) -> None:
    with pytest.raises(SegmentRefused, match="no table was adopted"):
        store.undo_adoption()
    assert store.list() == ()


def test_another_program_s_table_that_can_not_be_taken_over_is_left_as_it_was(store_url: str) -> None:
    _make_old_table(
        store_url,
        [("chapter", "c", None), ("world", None, None), ("core", "c", None), ("core", None, None)],
    )
    before = _rows(store_url)
    with pytest.raises(SegmentRefused) as caught:
        SegmentStore.open(store_url)
    assert [fault.partition(": ")[0].partition("prompt_segments ")[2] for fault in caught.value.faults] == [
        "has the unknown scope 'chapter'",
        "is of scope 'world' and has no ref_id",
        "is of scope 'core' and has a ref_id",
    ]
    assert _rows(store_url) == before


def test_an_adoption_that_is_killed_changes_nothing(store_url: str) -> None:
    _make_old_table(store_url)
    before = _rows(store_url)
    code = (
        "import os, sys\nimport rlm.prompts.segments.store as m\n"
        "m.insert_version = lambda *a: os.kill(os.getpid(), 9)\n"
        "m.SegmentStore.open(sys.argv[1])"
    )
    assert subprocess.run([sys.executable, "-c", code, store_url], check=False).returncode == -9
    assert _rows(store_url) == before
    with SegmentStore.open(store_url) as store:
        assert len(store.list(active=None)) == len(_ROWS)
