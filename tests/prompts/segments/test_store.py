"""Test the segment store on SQLite and PostgreSQL."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.prompts.segments import (
    DEPRECATED,
    SCOPES,
    ScopeRefused,
    SegmentConflict,
    SegmentNotFound,
    SegmentRefused,
    SegmentStore,
    StoreUnavailable,
)
from rlm.prompts.segments.segment import kind_of


def _fill(store: SegmentStore) -> None:
    for kind in ("ruleset", "world", "entry", "npc"):
        store.add_entity(kind, "x")


def test_the_six_static_scopes_may_be_stored(store: SegmentStore) -> None:
    _fill(store)
    for scope in SCOPES:
        store.add(scope, f"words of {scope}", ref_id=None if scope == "core" else "x")
    assert [found.segment.scope for found in store.list()] == list(SCOPES)


@pytest.mark.parametrize("scope", DEPRECATED)
def test_a_deprecated_scope_is_refused_with_its_dynamic_replacement_named(
    store: SegmentStore, scope: str
) -> None:
    with pytest.raises(ScopeRefused, match=rf"no longer stored: pass .* as `{scope}` when the prompt is"):
        store.add(scope, "text")


def test_any_other_scope_is_refused(store: SegmentStore) -> None:
    with pytest.raises(ScopeRefused, match="there is no scope 'chapter': use one of core, ruleset, world"):
        store.add("chapter", "text")


def test_the_database_itself_refuses_other_scopes_dangling_and_missing_references(
    store: SegmentStore,
) -> None:
    _fill(store)
    cases = ("'chapter', 'x'", "'player', 'x'", "'core', 'x'", "'world', NULL", "'world', 'nowhere'")
    for number, values in enumerate(cases):
        statement = (
            f"INSERT INTO prompt_segments (id, scope, ref_id, content) VALUES ('{number}', {values}, 'x')"
        )
        with pytest.raises(StoreUnavailable, match="violates a constraint"):
            store.write(lambda transaction, sql=statement: transaction.execute(sql))
    assert store.list(active=None) == ()


def test_core_takes_no_ref_id(store: SegmentStore) -> None:
    with pytest.raises(SegmentRefused, match="belongs to no entity: remove its ref_id"):
        store.add("core", "text", ref_id="x")


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope != "core"])
def test_a_missing_or_dangling_reference_is_an_error(store: SegmentStore, scope: str) -> None:
    kind = kind_of(scope)
    with pytest.raises(SegmentRefused, match=f"needs the ref_id of its {kind}"):
        store.add(scope, "text")
    with pytest.raises(SegmentRefused, match=f"no {kind} 'nowhere': add it first with `rlm segments entity"):
        store.add(scope, "text", ref_id="nowhere")


def test_rulesets_of_an_entry_must_exist_and_come_in_order(store: SegmentStore) -> None:
    store.add_entity("entry", "e")
    for name in ("b", "a", "c"):
        store.add_entity("ruleset", name)
    store.link("e", "b", 2)
    store.link("e", "a", 2)
    store.link("e", "c", 1)
    assert [link.id for link in store.rulesets("e")] == ["c", "a", "b"]
    store.link("e", "c", 3)
    store.unlink("e", "a")
    assert [link.id for link in store.rulesets("e")] == ["b", "c"]
    with pytest.raises(SegmentRefused, match="no ruleset 'nowhere'"):
        store.link("e", "nowhere")
    with pytest.raises(SegmentNotFound, match="nothing to remove"):
        store.unlink("e", "a")


def test_a_new_segment_is_active_at_version_1_with_its_times(store: SegmentStore) -> None:
    made = store.add("core", "Be kind.", metadata={"tier": 2, "by": ["Ö", 1.5, None]}, note="first")
    assert store.get(made.segment.id) == made
    assert (made.segment.version, made.segment.active, made.segment.tier) == (1, True, 2)
    assert dict(made.segment.metadata) == {"tier": 2, "by": ["Ö", 1.5, None]}
    assert made.created_at == made.updated_at
    assert made.created_at.utcoffset() is not None
    assert [version.note for version in store.history(made.segment.id)] == ["first"]


def test_every_fault_of_a_segment_is_listed_at_once(store: SegmentStore) -> None:
    with pytest.raises(SegmentRefused) as caught:
        store.add("core", " \n", ref_id="x", metadata={"tier": -1, "cue": 3, "bad": float("nan")})
    assert len(caught.value.faults) == 5
    for text in ("a\0b", "a\ud800"):
        with pytest.raises(SegmentRefused, match="at character 1, which is not text"):
            store.add("core", text)


def test_every_edit_is_a_new_version_and_old_ones_stay(store: SegmentStore) -> None:
    name = store.add("core", "one").segment.id
    store.edit(name, content="two", expected=1, note="clearer")
    edited = store.edit(name, metadata={"tier": 1}, expected=2)
    assert (edited.segment.version, edited.segment.content, edited.segment.tier) == (3, "two", 1)
    assert edited.updated_at >= edited.created_at
    assert [(v.version, v.content, dict(v.metadata), v.note) for v in store.history(name)] == [
        (1, "one", {}, ""),
        (2, "two", {}, "clearer"),
        (3, "two", {"tier": 1}, ""),
    ]
    assert store.edit(name, content="two", expected=3).segment.version == 3  # nothing new, no version


def test_an_edit_of_an_outdated_version_is_a_conflict_and_changes_nothing(store: SegmentStore) -> None:
    name = store.add("core", "one").segment.id
    store.edit(name, content="two", expected=1)
    with pytest.raises(SegmentConflict, match="is at version 2, not 1: someone else edited it") as caught:
        store.edit(name, content="three", expected=1)
    assert (caught.value.expected, caught.value.found) == (1, 2)
    with pytest.raises(SegmentConflict):
        store.rollback(name, 1, expected=1)
    assert [version.content for version in store.history(name)] == ["one", "two"]


def test_labels_point_at_versions_and_move(store: SegmentStore) -> None:
    name = store.add("core", "one").segment.id
    store.edit(name, content="two", expected=1)
    assert store.label(name, "production", 1) == 1
    assert store.label(name, "staging") == 2
    assert store.get(name).labels == (("production", 1), ("staging", 2))
    assert store.label(name, "production", "staging") == 2
    assert store.version(name, "production").content == "two"
    store.unlabel(name, "staging")
    assert store.get(name).labels == (("production", 2),)
    with pytest.raises(SegmentNotFound, match="has no label 'staging'"):
        store.version(name, "staging")
    with pytest.raises(SegmentNotFound, match="has no version 9"):
        store.label(name, "production", 9)
    with pytest.raises(SegmentRefused, match="can't be a label"):
        store.label(name, "1")


def test_diff_shows_what_changed_between_versions_or_labels(store: SegmentStore) -> None:
    name = store.add("core", "Be kind.\nBe short.").segment.id
    store.edit(name, content="Be kind.\nBe clear.", metadata={"tier": 1}, expected=1)
    store.label(name, "production", 1)
    assert store.diff(name, "production", 2).splitlines() == [
        "--- version 1",
        "+++ version 2",
        "@@ -1,2 +1,4 @@",
        "+tier: 1",
        "+",
        " Be kind.",
        "-Be short.",
        "\\ no line end here",
        "+Be clear.",
        "\\ no line end here",
    ]
    assert store.diff(name, 2, 2) == ""


def test_rollback_is_a_new_version_with_the_old_content(store: SegmentStore) -> None:
    name = store.add("core", "one", metadata={"tier": 1}).segment.id
    store.edit(name, content="two", metadata={}, expected=1)
    back = store.rollback(name, 1, expected=2)
    assert (back.segment.version, back.segment.content, back.segment.tier) == (3, "one", 1)
    assert [version.note for version in store.history(name)] == ["", "", "back to version 1"]


def test_a_deactivated_segment_is_listed_apart_and_can_come_back(store: SegmentStore) -> None:
    name = store.add("core", "one").segment.id
    store.set_active(name, False)
    assert store.list() == ()
    assert [found.segment.id for found in store.list(active=False)] == [name]
    store.set_active(name, True)
    assert [found.segment.id for found in store.list()] == [name]


def test_segments_are_found_by_the_start_of_their_id(store: SegmentStore) -> None:
    one, two = (store.add("core", text).segment.id for text in ("one", "two"))
    assert store.resolve(one[:13]) == one
    assert store.resolve(two.upper()) == two
    for start in ("", "zz"):
        with pytest.raises(SegmentNotFound, match="there is no segment"):
            store.resolve(start)
    for name in ("zz", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(SegmentNotFound):
            store.get(name)


@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1), min_size=1, max_size=4
    )
)
def test_content_comes_back_as_it_was_given(store: SegmentStore, texts: list[str]) -> None:
    name, version = store.add("core", "start").segment.id, 1
    for text in texts:
        if text.strip():
            version = store.edit(name, content=text, expected=version).segment.version
            assert store.get(name).segment.content == text
            assert store.version(name, version).content == text


def test_a_sqlite_store_needs_no_set_up_and_is_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with SegmentStore.open() as store:
        store.add("core", "one")
    file = tmp_path / "state" / "rlm" / "rlm.db"
    assert store.name == str(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_a_store_and_the_journal_share_a_file(tmp_path: Path) -> None:
    from rlm.journal import Journal

    file = tmp_path / "rlm.db"
    with SegmentStore.open(file) as store:
        store.add("core", "one")
        async with Journal.open(file) as journal:
            assert await journal.runs(5) == ()
        assert len(store.list()) == 1


def test_what_is_no_store_is_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but a text that is longer than a header " * 5)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt can't be opened: file is not a database; move"):
        SegmentStore.open(file)
    with pytest.raises(StoreUnavailable, match="mysql is not supported for a store; give a path, sqlite://"):
        SegmentStore.open("mysql://host/name")
    with pytest.raises(StoreUnavailable, match="URL can't be read"):
        SegmentStore.open("sqlite://")


def test_an_unreachable_server_is_one_line_without_the_password() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        SegmentStore.open("postgresql://me:hunter2@127.0.0.1:9/prompts")
    message = str(caught.value)
    assert "can't be opened" in message
    assert "check its URL, its password and that its server runs" in message
    assert "hunter2" not in message
    assert "\n" not in message


def test_a_store_of_a_newer_rlm_is_refused(store_url: str) -> None:
    with SegmentStore.open(store_url) as store:
        store.write(lambda opened: opened.execute("UPDATE prompt_segment_schema SET version_num = '9999'"))
    with pytest.raises(StoreUnavailable, match="has schema 9999, this rlm needs"):
        SegmentStore.open(store_url)


def test_a_closed_store_says_so(store: SegmentStore) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="is closed; open it again"):
        store.list()


_EDITOR = """
import sys
from rlm.prompts.segments import SegmentConflict, SegmentStore
url, name, who, times = sys.argv[1:]
conflicts = 0
with SegmentStore.open(url) as store:
    for number in range(int(times)):
        while True:
            read = store.get(name).segment
            try:
                store.edit(name, content=f"{read.content} {who}{number}", expected=read.version)
                break
            except SegmentConflict:
                conflicts += 1
print(conflicts)
"""


def test_two_processes_that_edit_one_segment_lose_no_write(store_url: str) -> None:
    times = 15
    with SegmentStore.open(store_url) as store:
        name = store.add("core", "start").segment.id
        editors = [
            subprocess.Popen(
                [sys.executable, "-c", _EDITOR, store_url, name, who, str(times)], stdout=subprocess.PIPE
            )
            for who in ("a", "b")
        ]
        for editor in editors:
            editor.communicate(timeout=100)
            assert editor.returncode == 0
        history = store.history(name)
        assert [version.version for version in history] == list(range(1, 2 * times + 2))
        words = store.get(name).segment.content.split()[1:]
    assert sorted(words) == sorted(f"{who}{number}" for who in "ab" for number in range(times))


def test_two_processes_may_make_the_same_store_at_once(store_url: str) -> None:
    code = (
        "import sys; from rlm.prompts.segments import SegmentStore as S; S.open(sys.argv[1]).add('core', 'x')"
    )
    made = [subprocess.Popen([sys.executable, "-c", code, store_url]) for _ in range(2)]
    assert [process.wait(100) for process in made] == [0, 0]
    with SegmentStore.open(store_url) as store:
        assert len(store.list()) == 2


def test_a_killed_writer_leaves_a_whole_store(tmp_path: Path) -> None:
    file = tmp_path / "segments.db"
    code = (
        "import os, sys; from rlm.prompts.segments import SegmentStore as S; s = S.open(sys.argv[1])\n"
        "s.add('core', 'kept')\n"
        "import rlm.prompts.segments.store as m\n"
        "m.insert_version = lambda *a: os.kill(os.getpid(), 9)\n"
        "s.add('core', 'half written')"
    )
    assert subprocess.run([sys.executable, "-c", code, str(file)], check=False).returncode == -9
    with SegmentStore.open(file) as store:
        assert [found.segment.content for found in store.list()] == ["kept"]


def test_a_place_that_can_not_hold_a_store_is_one_clear_error(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "file" / "segments.db"):
        (tmp_path / "file").touch()
        with pytest.raises(StoreUnavailable, match="check that its folder exists and is yours to write"):
            SegmentStore.open(place)


def test_opening_a_store_again_keeps_the_locks_of_its_other_users(tmp_path: Path) -> None:
    """POSIX drops all of a process's locks on a file when it closes any descriptor of it."""
    file = tmp_path / "segments.db"
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)\n"
        "c.execute('PRAGMA journal_mode=WAL'); c.execute('PRAGMA locking_mode=EXCLUSIVE')\n"
        "c.execute('BEGIN EXCLUSIVE')"
    )
    with SegmentStore.open(file) as store:
        store.add("core", "one")
        SegmentStore.open(file).close()
        run = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False
        )
        assert "database is locked" in run.stderr
