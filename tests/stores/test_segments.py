"""Test a segment store that commit 806c0b8 wrote, in the same file as its journal."""

from __future__ import annotations

import json

CORE = "5bc8fbbc-bde5-4099-8164-d8399f767c45"


def test_segments_versions_and_labels_are_read_as_they_were(rlm, store, old) -> None:
    exported = rlm("segments", "export")
    assert exported.code == 0, exported.stderr
    assert json.loads(exported.stdout) == json.loads((old / "segments.json").read_text())
    listed = rlm("segments", "list", "--all", "--json").json
    assert [one["scope"] for one in listed] == [
        "core", "ruleset", "ruleset", "world", "entry", "entry_start", "npc", "npc", "npc", "npc", "npc",
    ]  # fmt: skip
    assert [one["active"] for one in listed].count(False) == 1
    (core,) = [one for one in listed if one["id"] == CORE]
    assert (core["version"], core["labels"]) == (4, {"production": 1, "staging": 2})
    staged = rlm("segments", "show", CORE, "--version", "staging", "--content")
    assert staged.stdout.strip() == "You are the narrator. Be brief."


def test_a_segment_is_edited_further(rlm, store) -> None:
    assert rlm("segments", "edit", CORE, "--content", "You are the narrator.", "--if-version", "4").code == 0
    assert rlm("segments", "rollback", CORE, "3").code == 0
    assert rlm("segments", "show", CORE, "--content").stdout.strip() == "You are the narrator. Be very brief."
