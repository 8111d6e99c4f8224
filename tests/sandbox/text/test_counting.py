"""`count` returns what `re` counts, for any pattern in any script, without a Python step for each match."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm.sandbox.text import search
from rlm.sandbox.text.search import Scanner
from rlm.sandbox.text.search_pattern import compile_pattern
from tests.sandbox.text.drawn_patterns import patterns

# Letters that are one in `re` and several elsewhere, or the other way round; letters whose bytes are those of
# others but for one; marks, and characters that share bytes with them.
HARD = "iIİıkK\u212asSſßẞåÅ\u212bµμΜσςΣдДоОрРеЕёЁЀЂѠѐᲀᲁᲂᲃвВñÑé\u0301ΐΐǅǆǄ世界🙂Ĳĳ аА"
LITERALS = st.text(HARD, min_size=1, max_size=6)
TEXTS = st.lists(st.text(HARD + "\n", max_size=30), max_size=12).map("".join)
FLAGS = st.sampled_from(["", "(?i)", "(?ai)"])


@pytest.fixture(
    params=[
        {"_LAP": 1, "_STEP": 40, "_PLAIN_STEP": 40, "_SLOW": 1 << 30},
        {"_LAP": 2, "_STEP": 12, "_PLAIN_STEP": 9, "_APART": 20, "_MANY": 3},
    ],
    ids=["dense", "sparse and dense in turn"],
    scope="class",
)
def sizes(request) -> Iterator[None]:
    """Change the sizes so that short texts take every way of counting. Class scope ends with each test."""
    with pytest.MonkeyPatch.context() as patch:
        anything_is_rare = {"_SAMPLES": 1, "_SAMPLE": 1, "_RARE": 1 << 30, "_FEW": 1 << 30}
        for name, value in {**anything_is_rare, **request.param}.items():
            patch.setattr(search, name, value)
        yield


def check(make_body, pattern: str, text: str) -> None:
    wanted = sum(1 for _ in re.finditer(pattern, text, re.MULTILINE))
    with make_body(text) as body:
        query = compile_pattern(pattern, ascii_body=body.ascii)
        for window in (64, 4_096, 1 << 24):
            assert Scanner(body, window=window).count(query) == wanted, (pattern, window)


@given(LITERALS, TEXTS, FLAGS)
@example("договор", "ДОГОВОР договор Договор дᲂговор", "(?i)")
@example("рек", "Рек РЕК рЕК ѐек Ѐек Ѡек", "(?i)")
@example("kiß", "KIẞ \u212aiß kİß kıß", "(?i)")
@example("é", "É e\u0301 Ꭹ ꭰ", "(?i)")
@example("é丩", "É丩 É三 é三", "(?i)")
@example("ѵе", "ѕе ѕЕ ѴЕ", "(?i)")
@example("аА", "аА" * 500, "")
@example("aa", "aaaaa aaa" * 30, "")
@settings(max_examples=20, deadline=None)
def test_a_plain_text_is_counted_as_re_counts_it(
    make_body, sizes, literal: str, text: str, flags: str
) -> None:
    text = f"{text}{literal}\n{literal.upper()}{literal.lower()} {literal.swapcase()}\n" * 3
    check(make_body, flags + re.escape(literal), text)


@given(patterns(), st.lists(st.text("abéÉ世1 \n", max_size=12), min_size=1, max_size=4), st.integers(1, 12))
@example("a+", ["aab", "ab\n"], 12)
@example("^", ["a\n", "\n"], 9)
@example("$", ["a\n"], 12)
@example("\\b", ["a b"], 12)
@example("", ["é世"], 12)
@example("(?:\\Z|)", ["é\n a"], 12)
@example("(?:a|ab)(?:1|b1)?", ["ab1"], 12)
@example("a.*?1", ["a1a ", "\n"], 12)
@example("a\\n", ["a\n"], 12)
@example("[^a]+", ["ab"], 12)
@settings(max_examples=30, deadline=None)
def test_any_pattern_is_counted_as_re_counts_it(
    make_body, sizes, pattern: str, parts: list[str], times: int
) -> None:
    """Matches that are dense, sparse, empty, longer than a window or cut by its border count once."""
    check(make_body, pattern, "".join(part * times for part in parts) * 3)


PLAIN = st.text("aBé世1 ,\nkK\u212a", min_size=1, max_size=3).map(re.escape)


@given(
    st.sampled_from(
        [
            "{0}(?={1})",
            "(?<={1}){0}",
            "(?<={1}){0}(?={2})",
            "\\b{1}\\b",
            "\\b{1}",
            "{1}\\b",
            "\\b(?:{1}|{2})s?\\b",
            "\\b{1}\\w*\\b",
            "\\b\\w+ {1}\\b",
        ]
    ),
    st.sampled_from(["", "(?i)", "(?ai)", "(?a)"]),
    patterns(),
    PLAIN,
    PLAIN,
    st.lists(st.text("abBé世1 ,\r\nkK\u212a", max_size=12), min_size=1, max_size=4),
    st.integers(1, 12),
)
@example("(?<={1}){0}", "", "1", "1", "a", ["111", "11"], 5)
@example("(?<={1}){0}(?={2})", "", "1", ",", ",", [",1", ","], 12)
@example("(?<={1}){0}", "(?i)", "k", "\u212a", "a", ["Kk\u212a"], 5)
@example("(?<={1}){0}", "", "(?i:É)", "é", "a", ["éÉé", "éé"], 5)
@example("(?<={1}){0}", "", "[^a]+", "b", "a", ["bb1"], 5)
@example("(?<={1}){0}", "", "1+", "a ", "a", ["a 11\n", "a 1 "], 5)
@example("{0}(?={1})", "", "\\d+?", ",", "a", ["11,1,", ","], 5)
@example("\\b{1}\\b", "(?i)", "", "ab", "", ["ab AB", " é", "éab", "abab ab"], 5)
@example("\\b{1}\\b", "(?a)", "", "ab", "", ["éab", "abé "], 5)
@example("\\b{1}\\b", "", "", "a,a", "", ["a,a,a "], 5)
@example("\\b{1}\\b", "", "", "a", "", ["aa a", "a é"], 5)
@example("\\b{1}\\b", "", "", "a", "", ["a,a é\r\n", "a"], 12)
@example("\\b(?:{1}|{2})s?\\b", "(?i)", "", "a", "ab", ["as AB,A é\n", "a"], 12)
@example("\\b\\w+ {1}\\b", "", "", "a", "", ["a a a é a\n"], 12)
@settings(max_examples=60, deadline=None)
def test_assertions_at_the_ends_are_counted_as_re_counts_them(
    make_body, sizes, shape: str, flags: str, middle: str, one: str, other: str, parts: list[str], times: int
) -> None:
    """Also at the borders of windows, and where the text of an assertion is that of the match before."""
    if flags and not middle.startswith("(?i"):
        middle = middle.replace("(?i:", "(?:")
    check(make_body, flags + shape.format(middle, one, other), "".join(part * times for part in parts) * 3)


LOG = "2026-01-06 10:15:32 INFO served 4711 in 868 ms with Code 200\n"


@pytest.mark.parametrize(
    ("pattern", "each"),
    [(r"\d+", 9), (r"\w+", 15), ("e", 3), (r"^", 1)],
)
def test_a_million_matches_take_no_step_of_python_each(make_body, pattern: str, each: int) -> None:
    """Counting costs at most 0.3 µs a match; the test allows for a machine three times as slow."""
    lines = 1_000_000 // each
    query = compile_pattern(pattern, ascii_body=True)
    with make_body(LOG * lines) as body:
        began = time.thread_time()
        found = Scanner(body).count(query)
        seconds = time.thread_time() - began
    assert found == lines * each + (pattern == "^")
    assert seconds < 1e-6 * found
    assert found > 900_000


@pytest.mark.parametrize("pattern", ["(?i)word", "word", r"\w+", r"(?i)WORD\b", r"word(?! )", "[^q]"])
def test_one_long_line_is_counted_like_many_short_ones(make_body, pattern: str) -> None:
    """Nothing in the way of counting depends on line ends."""
    words = 400_000
    query = compile_pattern(pattern, ascii_body=True)
    with make_body("word " * words + "x") as body:
        began = time.thread_time()
        found = Scanner(body).count(query)
        assert time.thread_time() - began < 4
    assert found == {"[^q]": 5 * words + 1, r"\w+": words + 1, "word(?! )": 0}.get(pattern, words)


@pytest.mark.parametrize(
    ("pattern", "each"),
    [(r"(?<=code )\d+", 1), (r"(?i)\binfo\b", 1), (r"(?<!x)\w+", 20)],
)
def test_assertions_take_no_step_of_python_each(make_body, pattern: str, each: int) -> None:
    """Matches that are dense are counted in RE2 or in `re`, also in a body with letters beyond ASCII."""
    lines = 150_000
    with make_body("12:32 INFO served 4711 in 868 ms to 10.0.0.1 by a, b, c, code 200, é\n" * lines) as body:
        query = compile_pattern(pattern, ascii_body=body.ascii)
        began = time.thread_time()
        found = Scanner(body).count(query)
        seconds = time.thread_time() - began
    assert found == lines * each
    assert seconds < 4e-8 * 70 * lines + 2e-6 * found


def test_counting_stops_at_the_time_limit(make_body) -> None:
    """A batch of matches of `re` is interrupted like a single one."""
    query = compile_pattern(r"(?=(?:a+)+b)|(a?)\1c", ascii_body=True)
    began = time.monotonic()
    with make_body("c" + "a" * 60) as body, pytest.raises(TimeoutError, match="stopped after"):
        Scanner(body, seconds=0.3).count(query)
    assert time.monotonic() - began < 3
