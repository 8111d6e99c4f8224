"""Test the records of a search: they know their place, their line and their text."""

from __future__ import annotations

import re
import tracemalloc

import pytest

from rlm.sandbox.in_kernel.handle import MAX_HITS, Handle
from rlm.sandbox.in_kernel.places import spans_of
from rlm.sandbox.text.body import Span

STORY = "Call me Ishmael.\r\nSome years ago — never mind how long — 世界 🙂\n\nThe needle is 4711.\nlast line"


@pytest.fixture
def story(make_handle) -> Handle:
    return make_handle(STORY)


def test_hits_say_where_and_what(story: Handle) -> None:
    [hit] = story.search(r"needle is (\d+)", context=6)
    start = STORY.index("needle")
    assert hit == {
        "index": 0,
        "start": start,
        "end": start + 14,
        "line": 3,
        "match": "needle is 4711",
        "snippet": STORY[start - 6 : start + 20],
        "line_text": "The needle is 4711.",
        "document": "d0.txt",
    }
    assert list(hit) == ["index", "start", "end", "line", "match", "snippet", "line_text", "document"]
    assert story.peek(hit.start, hit["end"]) == hit.match == hit["match"]
    assert story.peek(hit.line, hit.line + 1, "lines") == hit.line_text + "\n"
    assert hit.snippet.span == (start - 6, start + 20)


def test_search_is_multiline_and_folds_case_beyond_ascii(make_handle) -> None:
    """The search is MULTILINE and folds the case of Russian text."""
    handle = make_handle("ЁЛКА\nёлка\nи Ёлка\n")
    assert [hit.match for hit in handle.search("(?i)^ёлка$")] == ["ЁЛКА", "ёлка"]
    assert handle.count(re.compile("ёлка", re.IGNORECASE)) == 3


def test_a_cut_list_of_hits_says_so(make_handle) -> None:
    """`len(hits)` must never be mistaken for a count."""
    handle = make_handle("ab\n" * 1000)
    hits = handle.search("ab", max_hits=7)
    assert (len(hits), hits.truncated) == (7, True)
    assert "7 of at least 8 hits" in repr(hits)
    assert hits.total == 1000
    assert "7 of 1,000 hits" in repr(hits)
    assert len(repr(hits)) < 3_000
    whole = handle.search("ab", max_hits=1000)
    assert (len(whole), whole.truncated, whole.total) == (1000, False, 1000)
    assert repr(whole).startswith("1,000 hits\n")
    assert [hit.start for hit in whole[2:5]] == [6, 9, 12]
    assert len(repr(whole[2:])) < 3_000
    assert (whole[:5].total, hits[:2].total) == (1000, 1000)
    assert repr(whole[:5]).startswith("5 of 1,000 hits\n")


@pytest.mark.parametrize("most", [0, -1])
def test_no_hits_wanted_none_given(story: Handle, most: int) -> None:
    """`max_hits<=0` returns no hits."""
    hits = story.search("e", max_hits=most)
    assert (list(hits), hits.truncated, hits.total) == ([], True, STORY.count("e"))


@pytest.mark.parametrize("pattern", [r"^\s*- wood", r"\n- wood", r"\s+- wood"])
def test_the_line_of_a_hit_is_that_of_its_first_word(make_handle, pattern: str) -> None:
    r"""`\s` matches line ends, so a match may begin on the blank line before."""
    [hit] = make_handle("Buy:\n\n\n- wood\n- nails\n").search(pattern)
    assert (hit.line, hit.line_text) == (3, "- wood")


def test_a_hit_of_blanks_alone_is_on_the_line_where_it_begins(make_handle) -> None:
    [hit] = make_handle("one \n\ntwo").search(r"\s+")
    assert (hit.line, hit.line_text) == (0, "one ")


def test_hits_are_bounded_whatever_the_text(make_handle) -> None:
    """Match ≤ 500, line_text ≤ 1,000 around the match, snippet ± context."""
    text = "a" * 5000 + "NEEDLE" + "é" * 5000
    handle = make_handle(text)
    [hit] = handle.search("NEEDLE", context=10**9)
    assert len(hit.line_text) == 1000
    assert "NEEDLE" in hit.line_text
    assert text[slice(*hit.line_text.span)] == hit.line_text
    assert len(hit.snippet) <= 20_500
    [long] = handle.search("a+NEEDLEé+")
    assert (long.end - long.start, len(long.match)) == (len(text), 500)
    assert len(repr(long)) < 2_000
    for text in (
        "x" * 999 + "N",
        "x" * 1000 + "N",
        "N" + "x" * 1000,
        "\n" + "x" * 400 + "N" + "x" * 400 + "\n",
    ):
        [hit] = make_handle(text).search("N")
        assert "N" in hit.line_text
        assert len(hit.line_text) == min(1000, len(text.strip()))


def test_hits_that_match_nothing_are_hits(make_handle) -> None:
    handle = make_handle("a\n\nb\n")
    assert [(hit.start, hit.end, hit.line) for hit in handle.search("^$")] == [(2, 2, 1), (5, 5, 3)]
    assert [hit.document for hit in handle.search(r"\Z")] == ["d0.txt"]
    assert list(make_handle("").search("a")) == []
    assert [hit.document for hit in make_handle("").search("")] == [None]


def test_a_list_of_hits_is_bounded_whatever_was_asked_for(make_handle) -> None:
    """A cut list says so; `.total` is exact."""
    handle = make_handle("ab" * (MAX_HITS // 2 + 5))
    hits = handle.search("[ab]", max_hits=10**9)
    assert (len(hits), hits.truncated, hits.total) == (MAX_HITS, True, MAX_HITS + 10)


def test_many_hits_are_cheap_in_memory(make_handle) -> None:
    handle = make_handle("some line with a hit in it, and quite a lot of other words around\n" * 50_000)
    tracemalloc.start()
    hits = handle.search("hit", max_hits=50_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(hits) == 50_000
    assert used < 50_000 * 800


def test_a_list_of_hits_prints_a_line_each(make_handle) -> None:
    """Printed records are short, and show their places."""
    text = "a cat and a cat\n" + "x" * 300 + "cat" + "y" * 300 + "\n" + "cat\n" * 30
    shown = repr(make_handle(text).search("cat")).splitlines()
    assert shown[:3] == [
        "33 hits",
        "  [0-1] 2 hits, 2-15, line 0 of d0.txt: a cat and a cat",
        f"  [2] 316-319, line 1 of d0.txt: …{'x' * 53}cat{'y' * 104}…",
    ]
    assert shown[-1] == "  … and 12 more in this list"
    assert len(shown) == 22
    assert repr(make_handle("none").search("cat")) == "[]"


def test_hits_on_one_line_are_shown_together(make_handle) -> None:
    text = f"a cat and a cat {'x ' * 200}a cat {'x ' * 200}\n# Cats\n"
    shown = repr(make_handle(("a.md", "markdown", text)).search("(?i)cat")).splitlines()
    assert shown[0] == "4 hits"
    assert shown[1].startswith("  [0-2] 3 hits, 2-421, line 0 of a.md: a cat and a cat x x")
    assert shown[1].endswith("x … (+1 more on it)")
    assert shown[2:] == ["  [3] 825-828, line 1 of a.md: # Cats"]


def test_a_list_of_hits_prints_what_a_cell_made_of_it(make_handle) -> None:
    """Hits are dicts in a list, which a cell may change."""
    hits = make_handle("a cat\nb cat\nc cat\nd cat").search("cat")
    hits[0]["line_text"] = "changed"
    hits[1].pop("line_text")
    hits[2].pop("document")
    hits.append((1, 2))
    shown = repr(hits).splitlines()
    assert "'line_text': 'changed'" in shown[1]
    assert "'start': 8" in shown[2]
    assert shown[3].startswith("  {'index': 2, 'start': 14, ")
    assert shown[4:] == ["  [3] 20-23, line 3 of d0.txt: d cat", "  (1, 2)"]


def part(hit) -> Span:
    """Return what a child gets of a hit."""
    return spans_of(hit, "slice")[0]


def proof(hit) -> Span:
    """Return what is quoted of a hit as evidence."""
    return spans_of([hit], "evidence")[0]


def test_a_hit_stands_for_the_text_around_it(make_handle) -> None:
    """As a slice a hit is its lines with their context; as evidence it is its line."""
    before, line, after = "b" * 200, "Ivo Kral takes over all she led.", "a" * 200
    handle = make_handle(f"{before}\n{line}\n{after}\nthe end", "other")
    [hit] = handle.search("takes over")
    assert handle.peek(*part(hit)) == f"{before}\n{line}\n{after}"
    assert handle.peek(*proof(hit)) == line
    [close] = handle.search("takes over", context=0)
    assert handle.peek(*part(close)) == line
    [last] = handle.search("the end")
    assert handle.peek(*part(last)).endswith("the end\n")
    assert handle.peek(*part(handle.search("other")[0])) == "other"


def test_of_a_long_line_a_hit_stands_for_the_words_around_it(make_handle) -> None:
    words = "word " * 100_000
    handle = make_handle(f"{words}needle {words}")
    [hit] = handle.search("needle")
    line, passage = handle.peek(*proof(hit)), handle.peek(*part(hit))
    assert line.split() == ["word"] * 39 + ["needle"] + ["word"] * 39
    assert len(passage) == 120 + len("needle") + 120
    at_an_end = make_handle(f"see needle {words}\n{words}needle now\n  needle {words}\n")
    around = ("see needle word", "word needle now", "needle word")
    for hit, expected in zip(at_an_end.search("needle"), around, strict=True):
        shown = at_an_end.peek(*proof(hit))
        assert expected in shown
        assert shown == shown.strip()
        assert shown.count("word") == 39
    [whole] = handle.search(f"(word ){{200}}needle {words[:500]}word")
    assert proof(whole) == (whole.start, whole.end)
