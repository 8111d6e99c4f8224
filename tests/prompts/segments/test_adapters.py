"""Run one test suite on every adapter. SQLite and PostgreSQL give the same bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rlm.database.store import Row, Transaction
from rlm.prompts import Npc, ScopedInput, ScopedPrompt
from rlm.prompts.segments import (
    AdapterFailed,
    BatchAdapter,
    DbAdapter,
    EntryRuleset,
    MemoryAdapter,
    RevisedAdapter,
    Segment,
    SegmentStore,
    export_segments,
    import_segments,
)

NPCS = tuple(f"npc-{n:02}" for n in range(12))
RULESETS = {"e1": (EntryRuleset("mild", 2), EntryRuleset("dice", 1), EntryRuleset("verse", 1)), "e2": ()}
TURN = ScopedInput(
    "e1",
    "w1",
    is_first_turn=True,
    npcs=tuple(Npc(name, tier=2) for name in NPCS),
    input="Hallo, Wörld! 漢字 🎲",
)


def _uuid(number: int) -> str:
    # in an order of their own, so that the order of insertion is no help
    return f"{(number * 7919) % 99991:08x}-0000-4000-8000-{number:012x}"


def _segments() -> list[Segment]:
    places = [
        ("core", None),
        *(("ruleset", name) for name in ("dice", "mild", "verse")),
        *(("world", name) for name in ("w1", "w2")),
        *((scope, name) for scope in ("entry", "entry_start") for name in ("e1", "e2")),
        *(("npc", name) for name in NPCS),
    ]
    made = []
    for scope, ref in places:
        for tier in (None, 2, 0, 1):
            number = len(made)
            metadata = {"by": "Zoë", "n": [1, 2.5, None, True]} if tier is None else {"tier": tier}
            odd = "naïve ≠ “plain”, 漢字, 🐉\n\ttabs \\ 'quotes' ; -- $& %s\r\nend"
            text = f"{scope} {ref} {tier}: {odd} {number}"
            made.append(Segment(_uuid(number), scope, text, ref, metadata, 1, active=number % 9 != 5))
    return made


def _fill(store: SegmentStore) -> SegmentStore:
    segments = _segments()
    kinds = {"world": "world", "ruleset": "ruleset", "entry": "entry", "entry_start": "entry", "npc": "npc"}
    entities = {(kinds[s.scope], s.ref_id) for s in segments if s.ref_id is not None}
    import_segments(
        store,
        {
            "entities": [{"kind": kind, "id": name} for kind, name in sorted(entities)],
            "entry_rulesets": [
                {"entry": entry, "ruleset": link.id, "sort_order": link.sort_order}
                for entry, links in RULESETS.items()
                for link in links
            ],
            "segments": [
                {
                    "id": s.id,
                    "scope": s.scope,
                    "ref_id": s.ref_id,
                    "content": s.content,
                    "metadata": dict(s.metadata),
                    "active": s.active,
                }
                for s in segments
            ],
        },
    )
    return store


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DbAdapter]:
    """Provide the same contents from three adapters."""
    if request.param == "memory":
        yield MemoryAdapter(_segments(), RULESETS)
        return
    place = tmp_path / "s.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with SegmentStore.open(place) as store:
        yield _fill(store).adapter()


def _plain(rows: Sequence[Segment]) -> list[tuple[object, ...]]:
    return sorted((r.id, r.scope, r.ref_id, r.content, str(dict(r.metadata)), r.version) for r in rows)


def test_an_adapter_is_all_that_an_assembly_can_use(adapter: DbAdapter) -> None:
    assert isinstance(adapter, BatchAdapter)
    assert isinstance(adapter, RevisedAdapter)


def test_an_adapter_gives_the_active_segments_of_a_scope_and_entity(adapter: DbAdapter) -> None:
    segments = _segments()
    for scope, ref in {(s.scope, s.ref_id) for s in segments}:
        expected = [s for s in segments if s.active and (s.scope, s.ref_id) == (scope, ref)]
        assert _plain(adapter.get_segments(scope, ref)) == _plain(expected)
    for scope, ref in (("world", "nowhere"), ("npc", None), ("core", "w1"), ("entry", "w1")):
        assert list(adapter.get_segments(scope, ref)) == []


def test_an_adapter_gives_the_segments_of_several_entities_at_once(adapter: DbAdapter) -> None:
    assert isinstance(adapter, BatchAdapter)
    names = [*NPCS[3:9], "nobody"]
    expected = [s for s in _segments() if s.active and s.scope == "npc" and s.ref_id in names]
    assert _plain(adapter.get_segments_of("npc", names)) == _plain(expected)
    assert list(adapter.get_segments_of("npc", [])) == []


def test_an_adapter_gives_the_rulesets_of_an_entry(adapter: DbAdapter) -> None:
    links = adapter.get_rulesets_for_entry("e1")
    assert sorted((link.id, link.sort_order) for link in links) == [("dice", 1), ("mild", 2), ("verse", 1)]
    assert list(adapter.get_rulesets_for_entry("e2")) == []
    assert list(adapter.get_rulesets_for_entry("nowhere")) == []


def test_an_adapter_s_revision_stays_while_nothing_changes(adapter: DbAdapter) -> None:
    assert isinstance(adapter, RevisedAdapter)
    before = adapter.revision()
    adapter.get_segments("core", None)
    assert adapter.revision() == before


def test_an_adapter_may_be_asked_from_several_threads(adapter: DbAdapter) -> None:
    prompt = ScopedPrompt(adapter)
    texts: list[str] = []

    def work() -> None:
        for _ in range(5):
            prompt.forget()
            texts.append(prompt.assemble(TURN).text)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(texts) == 20
    assert len(set(texts)) == 1


@pytest.mark.parametrize("budget", [8000, 2000, 700, 100])
def test_every_adapter_gives_the_same_bytes(adapter: DbAdapter, budget: int) -> None:
    turn = ScopedInput(
        "e1",
        "w1",
        is_first_turn=True,
        token_budget=budget,
        npcs=TURN.npcs,
        input=TURN.input,
        player="P. " * 99,
    )
    expected = ScopedPrompt(MemoryAdapter(_segments(), RULESETS)).assemble(turn)
    made = ScopedPrompt(adapter).assemble(turn)
    assert made.text.encode() == expected.text.encode()
    assert made.to_json() == expected.to_json()


def test_sqlite_and_postgresql_give_byte_equal_prompts_and_exports(tmp_path: Path, postgres_url: str) -> None:
    """A store can be moved between them, and every prompt stays the same."""
    with SegmentStore.open(tmp_path / "s.db") as sqlite, SegmentStore.open(postgres_url) as postgres:
        _fill(sqlite)
        name = sqlite.list("core")[0].segment.id
        sqlite.edit(name, content="Edited: ß → ẞ", metadata={"tier": 3, "x": {"b": 1, "a": 2.50}}, expected=1)
        sqlite.label(name, "production", 1)
        exported = export_segments(sqlite)
        import_segments(postgres, exported)
        assert export_segments(postgres) == exported
        for label in (None, "production"):
            for turn in (TURN, ScopedInput("e2", "w2"), ScopedInput("e1", "w1", token_budget=900)):
                first, second = (
                    ScopedPrompt(store.adapter(label)).assemble(turn) for store in (sqlite, postgres)
                )
                assert first.text.encode() == second.text.encode()
                assert first.to_json() == second.to_json()


@pytest.fixture
def filled_store(store: SegmentStore) -> SegmentStore:
    """Return a store with the segments of this file."""
    return _fill(store)


def test_an_assembly_takes_a_constant_number_of_queries(
    filled_store: SegmentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[str] = []
    rows = Transaction.rows

    def note(self: Transaction, sql: str, **values: object) -> list[Row]:
        queries.append(sql)
        return rows(self, sql, **values)

    def since() -> list[str]:
        found = list(queries)
        queries.clear()
        return found

    monkeypatch.setattr(Transaction, "rows", note)
    counts = []
    for npcs in (1, 2, len(NPCS)):
        prompt = ScopedPrompt(filled_store.adapter())
        since()
        prompt.assemble(ScopedInput("e1", "w1", is_first_turn=True, npcs=TURN.npcs[:npcs]))
        counts.append(len(since()))
        prompt.assemble(ScopedInput("e1", "w1", is_first_turn=True, npcs=TURN.npcs[:npcs], input="again"))
        assert len(since()) == 1  # did anything change?
    # the revision before and after; core, world, entry, entry_start, npc; the rulesets and their segments
    assert counts == [9, 9, 9]


def test_static_layers_are_kept_until_a_version_changes(filled_store: SegmentStore, store_url: str) -> None:
    store = filled_store
    prompt, labelled = ScopedPrompt(store.adapter()), ScopedPrompt(store.adapter("production"))
    core = store.list("core")[0].segment
    assert core.content in prompt.assemble(TURN).text
    assert "<core>" not in labelled.assemble(TURN).text
    with SegmentStore.open(store_url) as other:
        other.label(core.id, "production")
        assert core.content in labelled.assemble(TURN).text
        other.edit(core.id, content="Another.", expected=1)
        assert "Another." in prompt.assemble(TURN).text
        assert core.content in labelled.assemble(TURN).text  # production is still version 1
        other.set_active(core.id, False)
        assert "Another." not in prompt.assemble(TURN).text
        assert core.content not in labelled.assemble(TURN).text
        other.unlink("e1", "verse")
        assert "ruleset verse" not in prompt.assemble(TURN).text


def test_a_closed_store_is_a_typed_error(store: SegmentStore) -> None:
    prompt = ScopedPrompt(store.adapter())
    store.close()
    with pytest.raises(AdapterFailed, match=r"'core' could not be fetched: .* is closed"):
        prompt.assemble(TURN)


def test_all_layers_of_a_prompt_are_of_one_moment() -> None:
    """If two segments change between two fetches, the prompt has both changes or neither."""

    class Moving(MemoryAdapter):
        def __init__(self) -> None:
            super().__init__()
            self.now, self.moves = 1, 2

        def get_segments(self, scope: str, ref_id: str | None) -> Sequence[Segment]:
            text = f"as of {self.now}"
            if scope == "world" and self.moves:
                self.now, self.moves = self.now + 1, self.moves - 1
            return [Segment(scope, scope, text, ref_id)]

        def revision(self) -> object:
            return self.now

    made = ScopedPrompt(Moving()).assemble(ScopedInput("e1", "w1"))
    assert made.text.count("as of 3") == 3
