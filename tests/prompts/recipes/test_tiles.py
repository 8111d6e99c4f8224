"""Test prompts of scored tiles."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.prompts import (
    BudgetExceeded,
    InputError,
    Tile,
    TileConfig,
    TileInput,
    TilePrompt,
    TileStats,
    get_counter,
)
from rlm.prompts.json_input import read
from rlm.prompts.recipes.tiles import AssembledTiles

EXAMPLE = json.loads((Path(__file__).parents[3] / "examples" / "tiles.json").read_text(encoding="utf-8"))
BIG = 100_000
COUNTER = get_counter("bytes4_floor")


def build(*tiles: Tile, query: str = "test", **config: Any) -> AssembledTiles:
    return TilePrompt().assemble(TileInput(query, tiles, TileConfig(**config)))


ONE = Tile("t1", "What is flux?", "Bytecode runtime.", "flux", 0.9)


def test_defaults() -> None:
    """Max_tokens 4096, inject_deadband, structured, empty prefix, include_domain; priority P2."""
    config = TileConfig()
    assert (config.max_tokens, config.inject_deadband, config.format) == (4096, True, "structured")
    assert (config.system_prefix, config.include_domain) == ("", True)
    assert ONE.priority == "P2"
    plain = read(TileInput, {"query": "q", "tiles": [{"id": "t", "question": "q", "answer": "a"}]})
    assert plain.config == config
    assert plain.tiles[0].priority == "P2"


def test_p0_first_then_score_descending_stable_nan_last() -> None:
    """Whatever the score of a P0 tile."""
    tiles = [
        Tile("p2", "Q p2", "A", "misc", 0.5),
        Tile("nan", "Q nan", "A", "misc", math.nan, "P1"),
        Tile("low", "Q low", "A", "misc", -2.0, "P1"),
        Tile("first", "Q first", "A", "misc", 0.7, "P1"),
        Tile("second", "Q second", "A", "misc", 0.7, "P1"),
        Tile("p0", "Q p0", "A", "misc", 0.1, "P0"),
    ]
    text = build(*tiles).text
    assert re.findall(r"Q: Q (\w+)", text) == ["p0", "first", "second", "low", "nan", "p2"]


def test_a_prefix_larger_than_the_budget_is_an_error_that_names_it() -> None:
    """Prefix and query can't be dropped."""
    with pytest.raises(BudgetExceeded) as caught:
        build(ONE, system_prefix="p" * 400, max_tokens=50)
    assert caught.value.sections == ("system", "query")


def test_room_is_kept_for_the_warning_that_would_follow() -> None:
    """A tile is included only if its warnings fit, too."""
    critical = Tile("gap", "Critical " * 40, "Answer " * 40, "unsafe", 0.1, "P0")
    small = Tile("ok", "Fine?", "Yes.", "safe", 0.9)
    tile = "[safe]Q: Fine?\nA: Yes."
    rest = "## Deadband Warnings\n\n- ⚠️ P0 gap: no coverage for [unsafe]\n\nQuery: test"
    exact = len(f"{tile}\n\n{rest}".encode()) // 4
    assert build(critical, small, max_tokens=exact).text == f"{tile}\n\n{rest}"
    assert build(critical, small, max_tokens=exact - 1).text == rest


@pytest.mark.parametrize(
    ("form", "domain", "expected"),
    [
        ("structured", True, "[flux]Q: What is flux?\nA: Bytecode runtime."),
        ("structured", False, "Q: What is flux?\nA: Bytecode runtime."),
        ("markdown", True, "## What is flux? (flux)\n\nBytecode runtime."),
        ("markdown", False, "## What is flux?\n\nBytecode runtime."),
        ("json", True, '[{"id":"t1","q":"What is flux?","a":"Bytecode runtime.","score":0.900}]'),
        ("json", False, '[{"id":"t1","q":"What is flux?","a":"Bytecode runtime.","score":0.900}]'),
        ("compact", True, "t1: 0.90 | What is flux? → Bytecode runtime."),
        ("compact", False, "t1: 0.90 | What is flux? → Bytecode runtime."),
    ],
)
def test_formats(form: str, domain: bool, expected: str) -> None:
    """include_domain affects the first two formats. Parts are joined by a blank line, query last."""
    made = build(ONE, format=form, include_domain=domain, system_prefix="You are PLATO.")
    assert made.text == f"You are PLATO.\n\n{expected}\n\nQuery: test"


def test_json_is_a_valid_array_for_any_text_in_the_tiles() -> None:
    """With quotes, line breaks and NaN."""
    tiles = [
        Tile('a"b', 'say "hi"\n', "back\\slash \u0001 漢", "d", 0.85),
        Tile("t2", "Q", "A", "d", math.nan),
        Tile("t3", "Q", "A", "d", math.inf, "P1"),
    ]
    array = json.loads(build(*tiles, format="json").text.removesuffix("\n\nQuery: test"))
    assert [entry["id"] for entry in array] == ["t3", 'a"b', "t2"]
    assert array[1] == {"id": 'a"b', "q": 'say "hi"\n', "a": "back\\slash \u0001 漢", "score": 0.85}
    assert array[2]["score"] is None


GAP = (
    Tile("safe", "Safe topic question here", "Safe answer here", "safe_domain", 0.9),
    Tile("gap", "Critical safety question " * 10, "Critical answer", "unsafe_domain", 0.1, "P0"),
)


def test_a_p0_domain_without_an_included_tile_is_warned_of() -> None:
    """The warning is after the tiles and before the query."""
    made = build(*GAP, max_tokens=50)
    assert made.stats.excluded == 1
    assert made.stats.deadband_tokens > 0
    assert made.text == (
        "[safe_domain]Q: Safe topic question here\nA: Safe answer here\n\n"
        "## Deadband Warnings\n\n- ⚠️ P0 gap: no coverage for [unsafe_domain]\n\nQuery: test"
    )


def test_a_domain_that_is_nearly_uncovered_is_warned_of() -> None:
    """One short tile of nine is included: that is near to nothing."""
    tiles = [Tile(f"t{n}", "Q" * 400, "A", "dosage", 0.5, "P0") for n in range(8)]
    made = build(*tiles, Tile("short", "Q", "A", "dosage", 0.1), max_tokens=60)
    assert made.stats.tiles_included == 1
    assert "- ⚠️ P0 thin: little coverage for [dosage]\n\nQuery: test" in made.text
    assert made.stats.total_tokens <= 60
    assert made.report.warnings == ("domain 'dosage' is nearly uncovered: 1 of its 9 tiles are included",)
    half = build(*tiles[:2], Tile("s", "Q", "A", "dosage", 0.1), max_tokens=180)
    assert "P0 thin" not in half.text


def test_the_warning_of_a_thin_domain_never_displaces_a_tile() -> None:
    tiles = [Tile(f"t{n}", "Q" * 400, "A", "dosage", 0.5, "P0") for n in range(8)]
    short = Tile("short", "Q", "A", "dosage", 0.1)
    for room in range(2, 60):
        try:
            made = build(*tiles, short, max_tokens=room)
        except BudgetExceeded:
            continue
        assert made.stats.total_tokens <= room
        unwarned = build(*tiles, short, max_tokens=room, inject_deadband=False)
        assert made.stats.tiles_included <= unwarned.stats.tiles_included
        assert ("nearly uncovered" in "".join(made.report.warnings)) == (made.stats.tiles_included == 1)


def test_without_p0_tiles_there_is_nothing_to_warn_of() -> None:
    made = build(Tile("t", "Q" * 400, "A", "d"), max_tokens=5)
    assert made.report.warnings == ()


def test_more_gaps_than_there_is_room_for_are_counted_and_reported() -> None:
    """A thousand warnings leave room for the query, and none is dropped silently."""
    tiles = [Tile(f"t{n}", f"What of {n}?", "This.", f"domain-{n:04}", 0.5, "P0") for n in range(1_000)]
    made = build(*tiles, max_tokens=400)
    assert made.stats.tiles_included > 0
    lines = re.findall(r"no coverage for \[domain-\d+\]", made.text)
    more = re.search(r"no coverage for (\d+) more domains", made.text)
    assert more is not None
    assert made.stats.tiles_included + len(lines) + int(more[1]) == 1_000
    assert "1,000 domains have P0 tiles" in made.report.warnings[0]
    assert made.stats.total_tokens <= 400


def test_ten_figures_that_add_up() -> None:
    """total = system + tile + deadband + query; p0 + p1 + p2 = included; included + excluded = n."""
    assert len(TileStats.__slots__) == 10
    made = TilePrompt().assemble(EXAMPLE)
    stats = made.stats
    assert stats.total_tokens == (
        stats.system_tokens + stats.tile_tokens + stats.deadband_tokens + stats.query_tokens
    )
    assert stats.total_tokens == COUNTER.count(made.text)
    assert stats.system_tokens == len("You answer questions about a plant.") // 4
    assert (stats.p0_count, stats.p1_count, stats.p2_count) == (1, 1, 1)
    assert (stats.tiles_included, stats.excluded) == (3, 1)
    assert made.to_json()["stats"]["tiles_included"] == 3


TILES = st.lists(
    st.builds(
        Tile,
        st.text(max_size=4),
        st.text(st.sampled_from('aé漢"\\\n [😀\ud800'), max_size=30),
        st.text(max_size=60),
        st.sampled_from(["a", "b", "ünï", "d\nd", ""]),
        st.floats(allow_nan=True),
        st.sampled_from(["P0", "P1", "P2"]),
    ),
    max_size=8,
)


@settings(max_examples=100)
@given(
    TILES,
    st.text(max_size=20),
    st.integers(0, 150),
    st.sampled_from(["structured", "markdown", "json", "compact"]),
    st.booleans(),
    st.sampled_from(["", "Prefix."]),
)
def test_whatever_the_tiles_the_prompt_is_bounded_adds_up_and_leaves_out_only_what_does_not_fit(
    tiles: list[Tile], query: str, max_tokens: int, form: Any, deadband: bool, prefix: str
) -> None:
    """The result equals that of rendering the whole prompt for every tile tried."""
    config = TileConfig(max_tokens, deadband, form, prefix)
    asked = TileInput(query, tuple(tiles), config)
    before = copy.deepcopy(asked.tiles)
    try:
        made = TilePrompt().assemble(asked)
    except BudgetExceeded as error:
        refused = set(error.sections)
    else:
        refused = set()
    if refused:
        assert refused <= {"system", "query"}
        return
    stats = made.stats
    assert COUNTER.count(made.text) == stats.total_tokens <= max_tokens
    assert stats.p0_count + stats.p1_count + stats.p2_count == stats.tiles_included
    assert stats.tiles_included + stats.excluded == len(tiles)
    assert made.text.endswith(f"Query: {query}")
    assert TilePrompt().assemble(asked).to_json() == made.to_json()
    assert repr(asked.tiles) == repr(before)
    if form == "json" and stats.tiles_included:
        array = next(section.content for section in made.sections if section.name == "tiles")
        assert len(json.loads(array)) == stats.tiles_included
    if not made.report.warnings:
        assert made.text == _by_trying(asked)


def _by_trying(asked: TileInput) -> str:
    """Return the same prompt by rendering all of it for every tile tried."""
    config = asked.config
    ranked = sorted(
        asked.tiles,
        key=lambda tile: (
            tile.priority,
            math.isnan(tile.score),
            0.0 if math.isnan(tile.score) else -tile.score,
        ),
    )

    alone = [build(tile, **_plain(config)).text.removesuffix("\n\nQuery: test") for tile in ranked]

    def render_places(places: list[int]) -> str:
        texts = [alone[place] for place in places]
        if config.format == "json" and texts:
            texts = ["[" + ",".join(text[1:-1] for text in texts) + "]"]
        covered = {ranked[place].domain for place in places}
        bare = {tile.domain for tile in asked.tiles if tile.priority == "P0"} - covered
        lines = [f"- ⚠️ P0 gap: no coverage for [{' '.join(domain.splitlines())}]" for domain in sorted(bare)]
        gaps = "\n".join(["## Deadband Warnings\n", *lines]) if lines and config.inject_deadband else ""
        return "\n\n".join(filter(None, [config.system_prefix, *texts, gaps, f"Query: {asked.query}"]))

    everything = list(range(len(ranked)))
    if COUNTER.count(render_places(everything)) <= config.max_tokens:
        return render_places(everything)
    chosen: list[int] = []
    for place in everything:
        if COUNTER.count(render_places([*chosen, place])) <= config.max_tokens:
            chosen.append(place)
    return render_places(chosen)


def _plain(config: TileConfig) -> dict[str, Any]:
    return {"max_tokens": BIG, "format": config.format, "include_domain": config.include_domain}


def test_plain_data_is_read_and_what_is_wrong_is_named_by_its_path() -> None:
    before = copy.deepcopy(EXAMPLE)
    assert TilePrompt().assemble(EXAMPLE).text == TilePrompt().assemble(read(TileInput, EXAMPLE)).text
    assert before == EXAMPLE
    good = {"id": "t", "question": "q", "answer": "a", "domain": "d", "score": 1, "priority": "P0"}
    assert read(TileInput, {"query": "q", "tiles": [good]}).tiles == (Tile("t", "q", "a", "d", 1.0, "P0"),)
    for wrong, path in (
        ({"tiles": []}, "$.query"),
        ({"query": "q", "tiles": [good, {**good, "score": "high"}]}, "$.tiles[1].score"),
        ({"query": "q", "tiles": [{**good, "priority": "P3"}]}, "$.tiles[0].priority"),
        ({"query": "q", "tiles": [{"id": "t"}]}, "$.tiles[0].question"),
        ({"query": "q", "tiles": [3]}, "$.tiles[0]"),
        ({"query": "q", "config": {"max_tokens": -1}}, "$.config.max_tokens"),
        ({"query": "q", "config": {"format": "xml"}}, "$.config.format"),
        ({"query": "q", "config": {"inject_deadband": "yes"}}, "$.config.inject_deadband"),
    ):
        with pytest.raises(InputError) as caught:
            TilePrompt().assemble(wrong)
        assert caught.value.path == path
    odd = TilePrompt().assemble({"query": "q", "config": {"max_token": 9}})
    assert "$.config.max_token is unknown" in odd.report.warnings[0]
