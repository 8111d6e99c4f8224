"""Test import and export of a store."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from rlm.prompts.segments import SegmentRefused, SegmentStore, export_segments, import_segments

FILE: dict[str, Any] = {
    "entities": [{"kind": "world", "id": "w"}, {"kind": "entry", "id": "e"}, {"kind": "ruleset", "id": "r"}],
    "entry_rulesets": [{"entry": "e", "ruleset": "r", "sort_order": 3}],
    "segments": [
        {"scope": "core", "content": "Be kind."},
        {
            "scope": "world",
            "ref_id": "w",
            "content": "Hills.",
            "metadata": {"tier": 1},
            "labels": {"production": 1},
        },
    ],
}


def test_an_export_into_an_empty_store_gives_the_same_export_again(
    store: SegmentStore, tmp_path: Path
) -> None:
    import_segments(store, FILE)
    name = store.list("world")[0].segment.id
    store.edit(name, content="Hills & dales.", expected=1, note="more")
    store.label(name, "staging", 2)
    store.set_active(store.list("core")[0].segment.id, False)
    exported = json.loads(json.dumps(export_segments(store)))
    with SegmentStore.open(tmp_path / "other.db") as other:
        result = import_segments(other, exported)
        assert (result.added, result.replaced, result.unchanged) == (2, 0, 0)
        assert export_segments(other) == exported
        assert [version.note for version in other.history(name)] == ["imported", "more"]


def test_importing_a_file_twice_adds_nothing(store: SegmentStore) -> None:
    import_segments(store, FILE)
    before = export_segments(store)
    result = import_segments(store, FILE)
    assert (result.added, result.replaced, result.unchanged) == (0, 0, 2)
    assert export_segments(store) == before


def test_a_segment_that_differs_is_refused_or_becomes_a_new_version(store: SegmentStore) -> None:
    import_segments(store, FILE)
    exported = export_segments(store)
    edited = copy.deepcopy(exported)
    world = next(segment for segment in edited["segments"] if segment["scope"] == "world")
    world["content"] = world["versions"][0]["content"] = "Mountains."
    with pytest.raises(SegmentRefused, match="exists with other content: import with --replace"):
        import_segments(store, edited)
    assert export_segments(store) == exported
    result = import_segments(store, edited, replace=True)
    assert (result.added, result.replaced, result.unchanged) == (0, 1, 1)
    assert [version.content for version in store.history(world["id"])] == ["Hills.", "Mountains."]
    assert store.get(world["id"]).labels == (("production", 1),)
    world["scope"], world["ref_id"] = "entry", "e"
    with pytest.raises(SegmentRefused, match="its scope or ref_id can't change"):
        import_segments(store, edited, replace=True)


def test_every_fault_of_a_file_is_listed_and_nothing_of_it_is_imported(store: SegmentStore) -> None:
    bad = {
        "segments": [
            {"scope": "core", "content": "fine"},
            {"scope": "core", "content": " ", "id": "x"},
            {"scope": "player", "content": "old"},
            {"scope": "chapter", "content": "what"},
            {"scope": "world", "content": "no ref"},
            {"scope": "core", "content": "b", "labels": {"production": 2, "1": 1}},
            {"scope": "core", "content": "c", "version": 1, "versions": [{"version": 2, "content": "c"}]},
            {"scope": "core", "content": "d", "versions": [{"version": 1, "content": "other"}]},
            {"scope": "core", "content": "fine"},
        ]
    }
    with pytest.raises(SegmentRefused) as caught:
        import_segments(store, bad)
    text = "\n".join(caught.value.faults)
    for fault in (
        r"segment 2 \(x\): its id is not a UUID",
        r"segment 2 \(x\): its content is blank",
        "scope 'player' is no longer stored: pass the player's facts",
        "there is no scope 'chapter'",
        "a segment of scope 'world' needs the ref_id of its world",
        "its label 'production' is on version 2, which does not exist",
        "'1' can't be a label",
        "its version 1 is not the newest of its versions",
        "it differs from its version 1",
        "occurs more than once",
    ):
        assert re.search(fault, text), fault
    assert store.list(active=None) == ()


def test_a_file_of_another_shape_is_refused_with_the_places(store: SegmentStore) -> None:
    with pytest.raises(SegmentRefused) as caught:
        import_segments(store, {"segments": [{"content": 3}], "entitys": [], "format": "rlm-segments/9"})
    assert {fault.partition(":")[0] for fault in caught.value.faults} == {
        "format",
        "segments.0.scope",
        "segments.0.content",
        "entitys",
    }
    with pytest.raises(SegmentRefused, match="the file: "):
        import_segments(store, [])


def test_a_dangling_reference_in_a_file_is_an_error(store: SegmentStore) -> None:
    with pytest.raises(SegmentRefused) as caught:
        import_segments(
            store,
            {
                "entry_rulesets": [{"entry": "e", "ruleset": "r"}],
                "segments": [{"scope": "npc", "ref_id": "n", "content": "x"}],
            },
        )
    assert caught.value.faults == (
        "entry_rulesets: there is no entry 'e': add it to `entities`",
        "entry_rulesets: there is no ruleset 'r': add it to `entities`",
        "segment 1: there is no npc 'n': add it to `entities`",
    )
    assert store.entities() == ()


def test_an_import_that_is_killed_half_way_changes_nothing(store_url: str) -> None:
    SegmentStore.open(store_url).close()
    code = (
        "import os, sys, json\nfrom rlm.prompts.segments import SegmentStore, import_segments\n"
        "import rlm.prompts.segments.exchange as x\nreal = x.insert_version\ncalls = []\n"
        "def write(*a):\n    real(*a); calls.append(1)\n    len(calls) == 2 and os.kill(os.getpid(), 9)\n"
        "x.insert_version = write\n"
        "import_segments(SegmentStore.open(sys.argv[1]), json.loads(sys.argv[2]))"
    )
    run = subprocess.run([sys.executable, "-c", code, store_url, json.dumps(FILE)], check=False)
    assert run.returncode == -9
    with SegmentStore.open(store_url) as store:
        assert store.list(active=None) == ()
        assert store.entities() == ()


def test_what_the_migration_put_aside_travels_too(store: SegmentStore, tmp_path: Path) -> None:
    sql = "INSERT INTO prompt_segments (id, scope, content, active) VALUES (:key, 'rng', 'old dice', :active)"
    store.write(lambda opened: opened.execute(sql, key=str(uuid.UUID(int=10)), active=False))
    exported = export_segments(store)
    with SegmentStore.open(tmp_path / "other.db") as other:
        import_segments(other, exported)
        assert [found.segment.content for found in other.list(active=False)] == ["old dice"]
