from __future__ import annotations

import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm.sandbox.text.body import Body, Span
from rlm.sandbox.text.search import Scanner
from rlm.sandbox.text.search_pattern import compile_pattern
from tests.sandbox.text.drawn_patterns import patterns


def expected(pattern: str | re.Pattern[str], text: str) -> list[Span]:
    source, flags = (pattern, 0) if isinstance(pattern, str) else (pattern.pattern, pattern.flags)
    return [Span(*match.span()) for match in re.finditer(source, text, flags | re.MULTILINE)]


def check(
    body: Body, text: str, pattern: str | re.Pattern[str], windows: tuple[int, ...] = (1, 7, 64)
) -> None:
    matches = expected(pattern, text)
    query = compile_pattern(pattern, ascii_body=body.ascii)
    for window in (*windows, 1 << 24):
        scanner = Scanner(body, window=window)
        found, more = scanner.first(query, len(matches) + 1)
        assert found == matches, (pattern, window)
        assert not more
        assert scanner.count(query) == len(matches), (pattern, window)


ASCII_TEXT = (
    "The year 2024, id=12 and id=1234.\n\n  indented foo  bar\nfoo\nbar\n\n\nTHE END of the_line\r\n"
    'key: "a quoted \\" string", aaab aab ab b\n# heading\n\tlast\x1cline 3.14 (foo)(bar) abcabc xx yy'
)
MIXED_TEXT = (
    "Слово и дело: число 42, ещё ١٢٣.\n世界 foo 世界\u3000bar 🙂 naïve café\n\nЁЛКА ёлка ЕЛКА\r\n"
    "foo世bar foo\u00a0bar\nİstanbul ıssız I i ſ s K k ß ẞ Σσς\n\n\nEnd e\u0301 the END\u2028x\n"
)
PATTERNS = [
    r"foo",
    r"(?i)the",
    r"\d+",
    r"id=\d+",
    r"\bfoo\b",
    r"\w+",
    r"\W+",
    r"\s+",
    r"[^\W\d_]+",
    r"^",
    r"$",
    r"^$",
    r"^\s*$",
    r"^.*$",
    r".+",
    r"(?s).+",
    r"(?s)foo.*bar",
    r"(?s)foo.*?bar",
    r"foo\s+bar",
    r"foo\nbar",
    r"\Afoo|\AThe|\AСлово",
    r"\w+\Z",
    r"[^,]+",
    r"a*",
    r"a+b",
    r"a{2,3}b",
    r"(?:a|ab)(?:c|bcd)?",
    r"(foo)|(bar)",
    r"(?=foo)",
    r"foo(?=\s)",
    r"foo(?!世)",
    r"(?<=id=)\d+",
    r"(?<!\w)foo",
    r"(?<=\n)\w+",
    r"\w+(?=\n)",
    r"(\w)\1",
    r"(abc)\1",
    r"(?P<q>[\"']).*?(?P=q)",
    r"(?>a+)b",
    r"a++b",
    r"\B",
    r"\b",
    r"(?i)[а-яё]+",
    r"(?i)ёлка",
    r"(?i)i",
    r"(?i)[h-j]",
    r"(?i)[^i]",
    r"(?i)s|k|ß",
    r"(?i)σ",
    r"[\u4e00-\u9fff]+",
    r"世.",
    r"\S+",
    r"\D",
    r"(?a)\w+",
    r"(?a)\bfoo\b",
    r"(?a:\d+)\d*",
    r"(?x) f o o  # comment",
    r"(?-m:^foo)|bar",
    r"(?-m:foo$)|x$",
    r"(?i:THE) END",
    r"(?i)the end",
    r"(?i)the_LINE",
    r"(?i)foo  BAR",
    r"(?i)И ДЕЛО: ЧИСЛО",
    r"(?i)世界",
    r"foo 世界",
    r"(?i)istanbul ISSIZ",
    r"(?i)ss",
    r"(?i)σσς",
    r"(?i)kk?ß",
    r"(?i)k ß",
    r"(?ai)k",
    r"(?ai)s s",
    r"(?i)\n\nёлка",
    r"\n\n",
    r"(?i)é",
    r"ab",
    r"aa",
    r"🙂 n",
    r"",
    r"x*$",
    r"(?:a*)*b",
    r"(?:|a)+",
    r"[\s\S]",
    r"(?!)",
    r"[\x00-\x1f]",
    r"\.",
    r"\(foo\)",
    r"(a)?b(?(1)x|y)?",
    r"(a)*\1{2,}(?s:.)*|foo",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_hits_equal_those_of_re_whatever_the_window(make_body, pattern: str) -> None:
    """The search is MULTILINE. Matches that cross windows are found exactly once."""
    for text in (ASCII_TEXT, MIXED_TEXT):
        check(make_body(text), text, pattern)


@settings(max_examples=300)
@given(patterns(), st.text(alphabet="abcéÉ世1 \n", max_size=30), st.integers(1, 12))
@example("(?:a\\nb)+", "a\nba\nb", 2)
@example("\\w+?\\b", "é é\n", 1)
@example("$", "", 1)
def test_hits_equal_those_of_re_for_any_pattern(make_body, pattern: str, text: str, window: int) -> None:
    with make_body(text) as body:
        check(body, text, pattern, (window,))


LETTERS = "aAbkK\u212asSſiIİıßẞΣσςdž世🙂é\u0301 1\n"


@settings(max_examples=120)
@given(
    st.text(LETTERS, min_size=1, max_size=4),
    st.sampled_from(["", "(?i)", "(?ai)"]),
    st.lists(st.text(LETTERS, max_size=6), max_size=8),
    st.data(),
)
@example("ss", "(?i)", ["ſſſs"], None)
@example("k\n", "(?i)", ["K\n\u212a\n"], None)
def test_a_plain_text_is_found_and_counted_as_re_does(
    make_body, literal: str, flags: str, between: list[str], data
) -> None:
    """A literal in either case is right for every script, even where it uses the planned search."""
    spellings = [literal, literal.upper(), literal.lower()]
    text = "".join(part + (data.draw(st.sampled_from(spellings)) if data else literal) for part in between)
    with make_body(text) as body:
        check(body, text, flags + re.escape(literal), (1, 5))


def test_letters_are_the_same_in_any_case_as_re_says() -> None:
    """RE2 and `re` fold every letter alike."""
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    cased = "".join(char for char in every if char.lower() != char or char.upper() != char)
    for char in {*cased[::9], *"ıiIİkKsS\u212aſßẞ"}:
        linear = compile_pattern(f"(?i){char}", ascii_body=False).linear
        found = {match.group().decode() for match in linear.finditer(cased.encode())}
        assert found == set(re.findall(char, cased, re.IGNORECASE)), char


@pytest.mark.parametrize("literal", ["слово", "(?i)СЛОВО", "(?i)the kernel", "(?i)世界", "e", "(?i)K", "zq"])
def test_a_large_body_is_searched_and_counted_exactly(make_body, literal: str) -> None:
    """Rare and frequent texts are counted in different ways."""
    text = ("The kernel of слово, the KERNEL Слово, 世界. " * 7 + "\n") * 2_000 + "zq \u212a"
    body = make_body(text)
    query = compile_pattern(literal, ascii_body=False)
    matches = expected(literal, text)
    scanner = Scanner(body)
    assert scanner.count(query) == len(matches)
    assert scanner.first(query, 10**6) == (matches, False)


@pytest.mark.parametrize(
    "pattern", [r"id=\d+", r"(?i)the\s+end", r"[^,]+", r"(a+)+$", r"^#+ .*$", r"\w+", r"(?s)a.*b"]
)
def test_ordinary_patterns_run_in_linear_time_on_any_text(pattern: str) -> None:
    for ascii_body in (True, False):
        assert compile_pattern(pattern, ascii_body=ascii_body).exact


def test_a_pattern_that_explodes_in_re_returns_at_once(make_body) -> None:
    """`(a+)+$` runs on 100,000 a's."""
    body = make_body("a" * 100_000 + "b")
    began = time.perf_counter()
    assert Scanner(body).count(compile_pattern(r"(a+)+$", ascii_body=True)) == 0
    assert time.perf_counter() - began < 1


def test_a_backtracking_pattern_is_stopped_with_advice(make_body) -> None:
    """A pattern that needs `re` runs under a time limit."""
    body = make_body("x" + "a" * 60 + "b")
    query = compile_pattern(r"(a+)+\1$", ascii_body=True)
    began = time.perf_counter()
    with pytest.raises(TimeoutError, match=r"stopped after 0\.2 s.*Leave out look-around"):
        Scanner(body, seconds=0.2).first(query, 10)
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("seconds", [0.0, 50.0])
def test_the_time_limit_leaves_timer_and_handler_as_they_were(make_body, seconds: float) -> None:
    body = make_body("foo")

    def mine(number: int, frame: object) -> None:
        raise AssertionError

    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    handler = signal.signal(signal.SIGALRM, mine)
    try:
        assert Scanner(body).count(compile_pattern(r"(?=f)", ascii_body=True)) == 1
        assert signal.getsignal(signal.SIGALRM) is mine
        assert seconds - 10 < signal.getitimer(signal.ITIMER_REAL)[0] <= seconds
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_a_thread_is_refused_what_it_could_not_stop(make_body) -> None:
    body = make_body("foo bar")
    raised: list[Exception] = []
    found: list[int] = []

    def search() -> None:
        found.append(Scanner(body).count(compile_pattern("foo", ascii_body=True)))
        try:
            Scanner(body).count(compile_pattern("foo(?! baz)", ascii_body=True))
        except ValueError as error:
            raised.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert found == [1]
    assert "search in the cell itself" in str(raised[0])


def test_first_stops_at_the_number_asked_for(make_body) -> None:
    body = make_body("ab " * 50)
    scanner = Scanner(body, window=16)
    query = compile_pattern("ab", ascii_body=True)
    assert scanner.first(query, 50) == (expected("ab", "ab " * 50), False)
    spans, more = scanner.first(query, 3)
    assert spans == [Span(0, 2), Span(3, 5), Span(6, 8)]
    assert more
    assert scanner.first(query, 0) == ([], True)
    assert scanner.first(compile_pattern("zz", ascii_body=True), 0) == ([], False)


@pytest.mark.parametrize("literal", ["aa", "aba", "ab", "\n", "é", "éé", "世界"])
def test_a_literal_is_counted_as_re_counts_it(make_body, literal: str) -> None:
    """`count` is exact for texts that overlap themselves, too."""
    text = "aaaaa ababa ééé\n世界世界 aab\n" * 9
    body = make_body(text)
    for window in (1, 2, 3, 5, 1000):
        query = compile_pattern(re.escape(literal), ascii_body=False)
        assert Scanner(body, window=window).count(query) == len(re.findall(re.escape(literal), text))


def test_a_compiled_pattern_keeps_its_flags(make_body) -> None:
    text = "Foo.\nbar FOO.\nBAR"
    body = make_body(text)
    for pattern in (
        re.compile("foo", re.I),
        re.compile("o.+b", re.I | re.S),
        re.compile("f o o", re.I | re.X),
    ):
        check(body, text, pattern)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(foo", r"'\(foo' is not a regular expression: .*at position 0; use re\.escape"),
        ("a**", r"multiple repeat at position 2"),
        ("[z-a]", r"bad character range z-a at position 1"),
        ("(" * 5000 + ")" * 5000, r"nested"),
    ],
)
def test_a_wrong_pattern_says_where(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compile_pattern(pattern, ascii_body=True)


@pytest.mark.parametrize("pattern", [b"foo", re.compile(b"foo"), 7, None])
def test_what_is_no_pattern_is_a_type_error(pattern: object) -> None:
    with pytest.raises(TypeError, match="a pattern is a str"):
        compile_pattern(pattern, ascii_body=True)  # type: ignore[arg-type]


def test_a_lone_surrogate_is_found_nowhere(make_body) -> None:
    for text in ("plain", "世界"):
        body = make_body(text)
        for pattern in ("\ud800", "[\ud800-\udfff]", "(?i)\ud800x"):
            assert Scanner(body).count(compile_pattern(pattern, ascii_body=body.ascii)) == 0


def test_a_thread_finds_whole_words_in_any_text(make_body) -> None:
    """RE2 knows the bounds of ASCII words only, so `re` looks again at the places that it finds."""
    text = "naïve word, wordy, sword, ïword, word"
    scanner = Scanner(make_body(text))
    query = compile_pattern(r"\bword\b", ascii_body=False)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(scanner.first(query, 9)))
    thread.start()
    thread.join()
    assert found == [(expected(r"\bword\b", text), False)]


@pytest.mark.parametrize("pattern", [r"\b(a|a)+!|\ba", r"\b" + "a?" * 25 + "a" * 25, r"\b(a|a)(a|a)!|\ba"])
def test_a_thread_is_refused_patterns_that_backtrack_at_one_place(make_body, pattern: str) -> None:
    """`re` holds the interpreter while it tries every way to match, and only a signal stops it."""
    scanner = Scanner(make_body("é " + "a" * 12))
    query = compile_pattern(pattern, ascii_body=False)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ValueError, match="with one repeat at most"):
        pool.submit(scanner.first, query, 9).result()
