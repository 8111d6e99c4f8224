"""Test the migrations on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from rlm.prompts import ScopedInput, ScopedPrompt
from rlm.prompts.segments import (
    DEPRECATED,
    SCOPES,
    ScopeRefused,
    SegmentRefused,
    SegmentStore,
    StoreOutdated,
    StoreUnavailable,
)
from rlm.prompts.segments.database import Database
from rlm.prompts.segments.location import store_url as as_url
from rlm.prompts.segments.migration import HEAD, REVISIONS
from rlm.prompts.segments.tables import metadata

_OLD = {
    "game_state": (True, {"tier": 2, "note": "its own note"}),
    "player": (True, {}),
    "rng": (False, {"deprecated_at": "its own"}),
    "input": (False, {}),
}


def _rows(database: Database) -> dict[str, dict[str, Any]]:
    with database.read() as connection:
        rows = connection.execute(sa.text("SELECT * FROM prompt_segments ORDER BY scope")).mappings()
        return {
            row["scope"]: {
                **row,
                "id": str(row["id"]).replace("-", ""),
                "active": bool(row["active"]),
                "metadata": json.loads(row["metadata"])
                if isinstance(row["metadata"], str)
                else row["metadata"],
            }
            for row in rows
        }


def _old_store(url: str) -> Database:
    """Make a store of the first schema, with a segment of core and of each deprecated scope."""
    Database(as_url(url)).migrate("0001")
    database = Database(as_url(url))
    database._engine = database._make_engine()
    with database.write() as connection:
        for number, scope in enumerate(("core", *_OLD)):
            active, data = _OLD.get(scope, (True, {}))
            connection.execute(
                sa.text(
                    "INSERT INTO prompt_segments (id, scope, ref_id, content, metadata, active) "
                    f"VALUES ('{number:032x}', :scope, :ref, :content, :data, :active)"
                ),
                {
                    "scope": scope,
                    "ref": None if scope == "core" else "any",
                    "content": f"words of {scope}\n",
                    "data": json.dumps(data),
                    "active": active,
                },
            )
    return database


def test_the_migrations_make_exactly_the_tables_that_the_code_knows(store_url: str) -> None:
    with SegmentStore.open(store_url) as store:
        for revision in (*reversed(REVISIONS), *REVISIONS):
            assert SegmentStore.migrate(store_url, revision).after == revision
        with store.database.read() as connection:
            context = MigrationContext.configure(connection)
            found = compare_metadata(context, metadata)
            assert [change for change in found if change[0] != "remove_table"] == []
            assert {change[1].name for change in found} == {"prompt_segments_schema"}
            inspector = sa.inspect(connection)
            assert {check["name"] for check in inspector.get_check_constraints("prompt_segments")} == {
                "prompt_segments_scope",
                "prompt_segments_ref_id",
            }
            indexes = {
                index["name"]: index["column_names"] for index in inspector.get_indexes("prompt_segments")
            }
            assert indexes == {"prompt_segments_scope_ref_id": ["scope", "ref_id"]}


def test_the_revisions_named_in_the_code_are_those_of_the_files() -> None:
    config = Config()
    config.set_main_option("script_location", "rlm.prompts.segments:migrations")
    script = ScriptDirectory.from_config(config)
    assert tuple(reversed([step.revision for step in script.walk_revisions()])) == REVISIONS
    assert script.get_current_head() == HEAD


def test_deprecated_rows_are_put_aside_inactive_and_marked_with_their_content_untouched(
    store_url: str,
) -> None:
    old = _old_store(store_url)
    before = _rows(old)
    assert SegmentStore.migrate(store_url).before == "0001"
    after = _rows(old)
    for scope in DEPRECATED:
        data = after[scope]["metadata"]
        assert after[scope]["active"] is False
        assert data["deprecated_scope"] == scope
        assert len(data["deprecated_at"]) >= 19
        assert scope in data["note"]
        for column in ("id", "scope", "ref_id", "content", "version", "created_at", "updated_at"):
            assert after[scope][column] == before[scope][column]
    assert after["game_state"]["metadata"]["tier"] == 2
    assert after["core"] == before["core"]
    old.close()


def test_the_migration_can_be_taken_back_to_the_letter(store_url: str) -> None:
    old = _old_store(store_url)
    before = _rows(old)
    SegmentStore.migrate(store_url)
    SegmentStore.migrate(store_url, "0001")
    assert _rows(old) == before
    assert {scope: (before[scope]["active"], before[scope]["metadata"]) for scope in _OLD} == _OLD
    old.close()


def test_what_was_put_aside_is_listed_but_neither_assembled_nor_edited_nor_brought_back(
    store_url: str,
) -> None:
    _old_store(store_url).close()
    SegmentStore.migrate(store_url)
    with SegmentStore.open(store_url) as store:
        aside = store.list(active=False)
        assert [found.segment.scope for found in aside] == list(DEPRECATED)
        assert "words of core" in ScopedPrompt(store.adapter()).assemble(ScopedInput("any", "any")).text
        assert "player" not in ScopedPrompt(store.adapter()).assemble(ScopedInput("any", "any")).text
        for found in aside:
            with pytest.raises(ScopeRefused, match=f"scope '{found.segment.scope}' are no longer stored"):
                store.edit(found.segment.id, content="new", expected=1)
            with pytest.raises(ScopeRefused):
                store.set_active(found.segment.id, True)


def test_a_store_that_was_migrated_down_stays_down_until_it_is_migrated_up(store_url: str) -> None:
    SegmentStore.open(store_url).close()
    SegmentStore.migrate(store_url, "0001")
    for _ in range(2):
        with pytest.raises(StoreOutdated, match="run `rlm segments migrate`"):
            SegmentStore.open(store_url)
    assert SegmentStore.migrate(store_url).before == "0001"
    SegmentStore.open(store_url).close()


def test_an_old_sqlite_store_is_migrated_when_it_is_opened_and_a_server_s_is_not(store_url: str) -> None:
    _old_store(store_url).close()
    if store_url.startswith("postgresql"):
        with pytest.raises(
            StoreOutdated, match=f"schema 0001, this rlm needs {HEAD}: run `rlm segments migrate`"
        ):
            SegmentStore.open(store_url)
        SegmentStore.migrate(store_url)
    with SegmentStore.open(store_url) as store:
        assert len(store.list(active=False)) == len(DEPRECATED)


def test_a_migration_that_fails_changes_nothing(store_url: str) -> None:
    old = _old_store(store_url)
    with old.write() as connection:  # in the way of what the migration makes
        connection.execute(sa.text("CREATE TABLE prompt_segments_put_aside (id INTEGER)"))
    before = _rows(old)
    with pytest.raises(StoreUnavailable, match=r"can't be migrated: .*already exists"):
        SegmentStore.migrate(store_url)
    assert _rows(old) == before
    with old.write() as connection:
        connection.execute(sa.text("DROP TABLE prompt_segments_put_aside"))
    SegmentStore.migrate(store_url)
    old.close()


def test_a_migration_that_is_killed_changes_nothing(store_url: str) -> None:
    old = _old_store(store_url)
    before = _rows(old)
    code = (
        "import os, sys\nfrom alembic import op\n"
        "from rlm.prompts.segments import SegmentStore\n"
        "import rlm.prompts.segments.migration as m, rlm.prompts.segments.database as d\n"
        "real = d.move_to\n"
        "d.move_to = lambda *a: (real(*a), os.kill(os.getpid(), 9))\n"
        "SegmentStore.migrate(sys.argv[1])"
    )
    assert subprocess.run([sys.executable, "-c", code, store_url], check=False).returncode == -9
    assert _rows(old) == before
    assert SegmentStore.migrate(store_url).before == "0001"
    old.close()


def test_there_is_no_way_to_a_revision_that_is_none(store_url: str) -> None:
    with pytest.raises(StoreOutdated, match="no schema '7': use one of 0001, 0002"):
        SegmentStore.migrate(store_url, "7")


_SEED_TABLE = {
    "sqlite": "CREATE TABLE prompt_segments (id TEXT PRIMARY KEY, scope TEXT NOT NULL, ref_id TEXT, "
    "content TEXT NOT NULL, metadata TEXT, version TEXT, active BOOLEAN DEFAULT 1, "
    "created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
    "postgresql": "CREATE TABLE prompt_segments (id uuid PRIMARY KEY, scope text NOT NULL, ref_id text, "
    "content text NOT NULL, metadata jsonb, version text, active boolean DEFAULT true, "
    "created_at timestamptz DEFAULT now(), updated_at timestamptz DEFAULT now())",
}


def test_the_segments_of_another_program_s_table_are_taken_over(store_url: str) -> None:
    database = Database(as_url(store_url))
    engine = database._engine = database._make_engine()
    with engine.begin() as connection:
        connection.execute(sa.text(_SEED_TABLE[engine.dialect.name]))
        for number, (scope, ref) in enumerate(
            [
                ("core", None),
                ("world", "w"),
                ("entry_start", "e"),
                ("npc", "n"),
                ("player", "p"),
                ("rng", None),
            ]
        ):
            connection.execute(
                sa.text(
                    "INSERT INTO prompt_segments (id, scope, ref_id, content, metadata, version) VALUES "
                    f"('00000000-0000-0000-0000-00000000000{number}', :scope, :ref, :content, :data, 'v1')"
                ),
                {
                    "scope": scope,
                    "ref": ref,
                    "content": f"{scope} ✓",
                    "data": '{"tier": 1}' if number else None,
                },
            )
    database.close()
    step = SegmentStore.migrate(store_url)
    assert (step.before, step.after) == (None, HEAD)
    with SegmentStore.open(store_url) as store:
        found = [(s.segment.scope, s.segment.ref_id, s.segment.content, s.segment.tier) for s in store.list()]
        assert found == [
            ("core", None, "core ✓", None),
            ("world", "w", "world ✓", 1),
            ("entry_start", "e", "entry_start ✓", 1),
            ("npc", "n", "npc ✓", 1),
        ]
        assert store.entities() == (("entry", "e"), ("npc", "n"), ("world", "w"))
        assert [s.segment.scope for s in store.list(active=False)] == ["player", "rng"]
        core = store.list("core")[0].segment
        assert core.id == "00000000-0000-0000-0000-000000000000"
        assert store.history(core.id)[0].note == "adopted, was version v1"
        assert [s for s in SCOPES if store.list(s)] == ["core", "world", "entry_start", "npc"]


def test_another_program_s_table_that_can_not_be_taken_over_is_left_as_it_was(store_url: str) -> None:
    database = Database(as_url(store_url))
    engine = database._engine = database._make_engine()
    with engine.begin() as connection:
        connection.execute(sa.text(_SEED_TABLE[engine.dialect.name]))
        for number, values in enumerate(("'chapter', 'c'", "'world', NULL", "'core', 'c'", "'core', NULL")):
            connection.execute(
                sa.text(
                    "INSERT INTO prompt_segments (id, scope, ref_id, content) "
                    f"VALUES ('00000000-0000-0000-0000-00000000000{number}', {values}, 'x')"
                )
            )
    with pytest.raises(SegmentRefused) as caught:
        SegmentStore.migrate(store_url)
    assert [
        fault.partition(": ")[0].partition("of prompt_segments ")[2] for fault in caught.value.faults
    ] == [
        "has the unknown scope 'chapter'",
        "is of scope 'world' and has no ref_id",
        "is of scope 'core' and has a ref_id",
    ]
    with engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM prompt_segments")) == 4
        assert set(sa.inspect(connection).get_table_names()) == {"prompt_segments"}
    database.close()
