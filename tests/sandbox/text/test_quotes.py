"""Test the search for quotes in a real context file."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.quote_pattern import letters, sure_letters
from rlm.sandbox.text.quotes import MAX_QUOTE_CHARS, Budget, Found, Wanted, find_quotes
from rlm.sandbox.types import Span

MakeBody = Callable[[str], Body]


def search(quotes: Sequence[str], body: Body, near: Sequence[Span] = (), **options: int) -> list[Found]:
    """Search without limits, over the mapped bytes of a body."""
    hints = [(body.byte_of(start), body.byte_of(end)) for start, end in near]
    return find_quotes(
        [Wanted(quote) for quote in quotes],
        body.read,
        body.bytes,
        hints,
        budget=Budget(),
        **options,
    )


def locate_all(
    quotes: Sequence[str], body: Body, near: Sequence[Span] = (), **options: int
) -> list[Span | None]:
    found = search(quotes, body, near, **options)
    return [
        Span(body.char_of(one.start), body.char_of(one.end)) if one.status == "found" else None
        for one in found
    ]


def locate(quote: str, body: Body, near: Span | None = None) -> Span | None:
    return locate_all([quote], body, [] if near is None else [near])[0]


@pytest.fixture(scope="module")
def make_body(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeBody]:
    opened: list[Body] = []

    def make(text: str) -> Body:
        with ContextFileWriter(tmp_path_factory.mktemp("context") / "c") as writer:
            writer.begin_document("d")
            writer.write(text)
            opened.append(writer.finish().open())
        return opened[-1]

    yield make
    for body in opened:
        body.close()


@pytest.mark.parametrize(
    ("stands", "quote"),
    [
        ("the kettle whistled at seven", "the kettle whistled at seven"),
        ("the kettle\n  whistled \t at\u00a0seven", "the kettle whistled at seven"),
        ("the kettle whistled at seven", "the  kettle\nwhistled at\u3000seven"),
        ("infor-\nmation and infor\u2010\r\n   mation", "information and information"),
        ("a well-\nknown fact", "a well-known fact"),
        ("in-\nfor-\n  ma-\ntion is po- \n wer", "information is power"),
        ("infor\u2014\\n  mation bro-\\nken into\u2010 \r\n pieces", "information broken into pieces"),
        ("soft\u00adhyphen and zero\u200bwidth", "softhyphen and zerowidth"),
        ("“curly” and it’s ‘so’", "\"curly\" and it's 'so'"),
        ('"straight" and it\'s', "“straight” and it’s"),
        ("«guillemets» – and — dashes", '"guillemets" - and - dashes'),
        ("the oﬃce ﬁrst ﬂoor", "the office first floor"),
        ("the office first floor", "the oﬃce ﬁrst ﬂoor"),
        ("the of-\nfice", "the office"),
        ("wait… and see", "wait... and see"),
        ("wait and see", "…wait and see…"),
        ("第七扇门后\n面的密码", "第七扇门后面的密码"),
        ("第七扇门后面的密码", "第七扇门后\n面的密码"),
        ("第七\n扇门\n后**面**的\n密\n\u3000码", "第七扇门后面的密码"),
        ("第七\\n扇门\\n后面\\n的密\\n码", "第七扇门后面的密码"),
        ("первое\n слово", "первое слово"),
        ("🙂 a 👩‍👩‍👧\nfamily", "🙂 a 👩‍👩‍👧 family"),
        ("the cafe\u0301 is open", "the caf\u00e9 is open"),
        ("the caf\u00e9 is open", "the cafe\u0301 is open"),
        ("été né là", "e\u0301te\u0301 ne\u0301 la\u0300"),
        ("naïve été là", "na\\u00efve \\u00e9t\u00e9 l\\u00e0"),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 글", "한국어 글"),
        ("価格は100円", "価格は１００円"),
        ("価格は１００円（税込）", "価格は100円(税込)"),
        ("ｶﾞﾗｽ と ABC", "ガラス と ＡＢＣ"),
        ("The **cat** is _Felix_ here", "The cat is Felix here"),
        ("The cat is Felix here", "The **cat** is _Felix_ here"),
        ("这是**重点**内容", "这是重点内容"),
        ("run `make test` first", "run make test first"),
        ("it`s so", "it's so"),
        ('He said \\"hi\\" to the caf\\u00e9\\nowner', 'He said "hi" to the café owner'),
        ('He said "hi"', 'He said \\"hi\\"'),
        ("a \\ud83d\\ude00 smile", "a 😀 smile"),
    ],
)
def test_a_quote_is_found_as_a_reader_would(make_body: MakeBody, stands: str, quote: str) -> None:
    """Line wraps, hyphens at line ends, quotation marks, dashes and ligatures are folded."""
    before, after = "First \u4e16 line.\n- ", "\nThe last line. 🙂"
    body = make_body(before + stands + after)
    assert locate(quote, body) == Span(len(before), len(before + stands))
    assert locate_all([quote], body, window=3) == [Span(len(before), len(before + stands))]


@pytest.mark.parametrize(
    ("stands", "quote"),
    [
        ("the kettle whistled", "The kettle whistled"),
        ("the kettle whistled", "the kettle has whistled"),
        ("the kettle whistled", "the kettlewhistled"),
        ("the re-signed clause", "the resigned clause"),
        ("resigned", "re-signed"),
        ("7481920", "7481921"),
        ("naïve café", "naive cafe"),
        ("the kettle", ""),
        ("the kettle", " \n"),
        ("the kettle", "…"),
        ("the kettle", "the \ud800kettle"),
        ("nai\u0308ve cafe\u0301", "naive cafe"),
        ("2*3 is six", "23 is six"),
        ("2 * 3", "2 3"),
        ("snake_case", "snakecase"),
        ("10² m", "102 m"),
        ("½ cup", "12 cup"),
        ("wait… a moment", "wait. a moment"),
        ("C:\\\\new", "C: ew"),
    ],
)
def test_other_words_are_not_found(make_body: MakeBody, stands: str, quote: str) -> None:
    """Folding never turns one word into another."""
    assert locate(quote, make_body(f"x {stands} y")) is None


def test_the_place_nearest_to_the_claim_wins(make_body: MakeBody) -> None:
    """The order is: at the span, around it (folded), anywhere."""
    filler = "lorem ipsum " * 500
    text = f"the red\nfox {filler}the red fox {filler}the red  fox {filler}the blue fox"
    body = make_body(text)
    third = text.index("the red  fox")
    assert locate("the red fox", body) == Span(text.index("the red fox"), text.index("the red fox") + 11)
    assert locate("the red fox", body, Span(third - 3, third + 20)) == Span(third, third + 12)
    assert locate("the red fox", body, Span(third + 60, third + 70)) == Span(third, third + 12)
    assert locate("the blue fox", body, Span(0, 11)) == Span(len(text) - 12, len(text))
    assert locate("the blue\t fox", body, Span(0, 11)) == Span(len(text) - 12, len(text))
    assert locate("red dog", body, Span(0, 11)) is None


WORDS = ["a", "b", "aa", "ab", "ba", "é", "fi", "世", "“a”", "x-y", "..."]
BLANKS = [" ", "  ", "\n", "\t \n"]


@given(
    st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(BLANKS)), max_size=30),
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=4),
    st.sampled_from([1, 2, 5, 64, 1 << 20]),
)
@example([("a", "\n"), ("b", "\n")], [["a", "b"], ["b"]], 1)
def test_a_place_is_found_exactly_when_the_folded_body_holds_the_quote(
    make_body: MakeBody, pieces: list[tuple[str, str]], quotes: list[list[str]], window: int
) -> None:
    """A found place reads as the quote, and a quote that is not found is not there."""
    text = "".join(word + blank for word, blank in pieces)
    texts = [" ".join(quote) for quote in quotes]
    with make_body(text) as body:
        found = locate_all(texts, body, window=window)
    for quote, span in zip(texts, found, strict=True):
        sought = quote.strip(" …")
        assert (span is not None) == (sought in " ".join(text.split())), quote
        if span is not None:
            assert text[span.start : span.end].split() == sought.split()


def test_quotes_made_to_be_searched_for_long_are_not(make_body: MakeBody) -> None:
    """The work is bounded for any quotes: a document's author may choose both."""
    body = make_body("a " * 300_000)
    assert locate("a " * 2_000 + "b", body) is None
    assert locate("a  " * 1_000 + "a", body) == Span(0, 2_001)
    assert search(["a" * (MAX_QUOTE_CHARS + 1)], body)[0].status == "too_long"
    stock = ["a  a " * 10 + str(number) for number in range(50)]
    assert locate_all(stock, body) == [None] * 50


def test_a_body_is_never_read_whole(make_body: MakeBody, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search reads the mapped bytes and decodes nothing of the body."""
    body = make_body("some words and\nothers 世 " * 300_000 + "the needle\nis here")
    monkeypatch.setattr(Body, "text", None)
    texts = [*(f"quote number {number} is not here" for number in range(50)), "the needle is here"]
    found = locate_all(texts, body)
    assert found[:50] == [None] * 50
    assert found[50] == Span(body.chars - 18, body.chars)


def test_folding_is_what_it_says(make_body: MakeBody) -> None:
    """A quote is verified through every white space of Python."""
    spaces = [char for char in map(chr, range(0x110000)) if re.match(r"\s", char)]
    for char in spaces:
        assert locate("one two", make_body(f"one{char}two")) == Span(0, 7), hex(ord(char))


LETTERS = st.sampled_from([*"abcXYZ019", "é", "ü", "ß", "ж", "世", "界", "한", "ガ", "円", "🙂"])
GAPS = st.sampled_from([" ", " ", ", ", ". ", ' "', '" ', " - "])


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """Return a text, and another way to write it."""
    words = draw(st.lists(st.text(LETTERS, min_size=1, max_size=6), min_size=1, max_size=8))
    gaps = [draw(GAPS) for _ in words[1:]]
    plain = words[0] + "".join(gap + word for gap, word in zip(gaps, words[1:], strict=True))
    written = draw(write_word(words[0]))
    for gap, word in zip(gaps, words[1:], strict=True):
        written += draw(write_gap(gap)) + draw(write_word(word))
    return plain, written


@st.composite
def write_word(draw: st.DrawFn, word: str) -> str:
    way = draw(st.integers(0, 7))
    if way == 1:
        return unicodedata.normalize("NFD", word)
    if way == 2:
        return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in word)
    if way == 3:
        return f"**{word}**"
    if way == 4:
        return "".join(f"\\u{ord(char):04x}" if 127 < ord(char) < 0x10000 else char for char in word)
    if way == 5 and len(word) > 1 and word[0].isalnum() and word[1].isalnum():
        return f"{word[0]}-\n  {word[1:]}"
    if way == 6 and len(word) > 1:
        return f"{word[0]}\xad{word[1:]}"
    if way == 7:
        return re.sub(
            "(?<=[世界한ガ円])(?=[世界한ガ円])", draw(st.sampled_from(["\n", " \\n", "\n\u3000"])), word
        )
    return word


@st.composite
def write_gap(draw: st.DrawFn, gap: str) -> str:
    blank = draw(st.sampled_from([" ", "\n", "  \t ", "\u3000", "\u00a0\n"]))
    quote = draw(st.sampled_from(['"', "“", "»", '\\"']))
    dash = draw(st.sampled_from(["-", "–", "—", "−"]))
    return gap.replace(" ", blank).replace('"', quote).replace("-", dash)


@given(spellings(), spellings(), st.sampled_from([7, 64, 1 << 20]))
@example(("0 00 01", "0 0-\n  0 0-\n  1"), ("0", "0"), 7)
@settings(deadline=None)
def test_any_way_to_write_a_text_is_found_at_its_exact_characters(
    make_body: MakeBody, one: tuple[str, str], other: tuple[str, str], window: int
) -> None:
    """The span covers the written text, whatever stands around it."""
    plain, written = one
    before, after = f"{other[1]} (start) ", f" (end) {other[1]}"
    with make_body(before + written + after) as body:
        (span,) = locate_all([plain], body, [Span(len(before), len(before + written))], window=window)
        assert span is not None, (plain, written)
        cut = (before + written + after)[span.start : span.end]
        assert cut.strip("*") == written.strip("*")
        (anywhere,) = locate_all([plain], body, window=window)
        assert anywhere is not None


@given(spellings(), st.sampled_from(["", "\\", "{", "\\u00", "a ", "\\\\"]))
@settings(deadline=None)
def test_a_window_that_holds_a_quote_is_never_passed_over(pair: tuple[str, str], before: str) -> None:
    """The letters that are sure to stand in it do, unless it may write them otherwise."""
    plain, written = pair
    standing = letters(f"{before}{written} b".encode())
    assert standing is None or sure_letters(plain) in standing


@given(st.text(max_size=300), st.text(max_size=60), st.sampled_from([-1.0, 0.0, 0.0001, 10.0]))
@settings(deadline=None)
def test_no_text_breaks_the_search(make_body: MakeBody, text: str, quote: str, seconds: float) -> None:
    """Any text and quote end within the budget, with a place inside the text or a reason."""
    data = text.encode("utf-8", "replace")
    (found,) = find_quotes(
        [Wanted(quote, 2)], lambda low, high: data[low:high], len(data), [(0, 20)], budget=Budget(seconds)
    )
    if found.status == "found":
        assert 0 <= found.start < found.end <= len(data)
        data[found.start : found.end].decode()
    else:
        assert found.status in ("missing", "common", "too_long", "unsearched")


HOSTILE = {
    "long runs": ("a\n" * 500_000, ["a" * 4_900 + "Z" + str(number) for number in range(50)]),
    "almost": ("a-b " * 200_000, ["ab ab ab" * 100, "a b" * 1_000]),
    "combining marks": ("e" + "\u0301\u0327" * 200_000, ["é" * 2_000, "e" + "\u0327\u0301" * 2_000]),
    "ligatures": ("ﬃ" * 200_000, ["ffi" * 1_600 + "x", "fﬁ" * 2_000]),
    "escapes": ("\\u00e9\\\\" * 100_000, ["é" * 3_000, "\\" * 4_000]),
    "one line": ("word " * 200_000, ["word " * 900 + "end"]),
    "emphasis": ("*" * 500_000 + "a", ["a" + "*" * 4_000 + "b", "*a*" * 1_000]),
    "hyphens": ("a-\n" * 200_000, ["a" * 4_000 + "b"]),
    "half a ligature": ("ffi" * 200_000, ["ffi" * 1_660 + "x"]),
    "wrapped": ("第七扇门\n后面" * 50_000, ["第七扇门后面" * 800 + "x"]),
    "signs": ('"-\n' * 200_000, ['"-' * 2_400 + "x"]),
}


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_search_in_a_hostile_text_ends_after_its_seconds(
    make_body: MakeBody, name: str, near: bool
) -> None:
    """No piece of its work takes long by itself."""
    text, quotes = HOSTILE[name]
    body = make_body(text)
    hints = [(number * 10_000, number * 10_000 + 10_000) for number in range(20)] if near else []
    began = time.thread_time()
    find_quotes(
        [Wanted(quote) for quote in quotes],
        body.read,
        body.bytes,
        hints,
        budget=Budget(0.3),
    )
    assert time.thread_time() - began < 1.3


def test_a_budget_that_is_used_up_leaves_quotes_unsearched(make_body: MakeBody) -> None:
    """What was found before stays found."""
    body = make_body("first words\n" + "filler " * 5_000_000)
    found = find_quotes(
        [Wanted("first words"), Wanted("not here")],
        body.read,
        body.bytes,
        budget=Budget(0.01),
    )
    assert [one.status for one in found] == ["found", "unsearched"]


def test_a_word_that_stands_everywhere_is_common(make_body: MakeBody) -> None:
    body = make_body("the word and the word, thrice the word. Once.")
    options = {"budget": Budget()}
    found = find_quotes(
        [Wanted("word", 2), Wanted("word", 3), Wanted("word"), Wanted("Once", 2)],
        body.read,
        body.bytes,
        **options,
    )
    assert [one.status for one in found] == ["common", "found", "found", "found"]


@pytest.mark.parametrize(
    ("quote", "written"),
    [
        ("that 's twelve point three five.", "that 's {pause} twelve point three five ."),
        ("No , it {vocalsound} was not mushroom .", "No , it was {disfmarker} not mushroom ."),
        ("the rubber, and the plastic", "the rubber , {gap} and the plastic"),
    ],
)
def test_a_transcripts_notes_and_blanks_are_no_words(make_body: MakeBody, quote: str, written: str) -> None:
    text = f"[1] Ann : Hm {{gap}} . {written} [2] Ben: Yes ."
    with make_body(text) as body:
        span = locate(quote, body)
        assert span is not None
        assert text[span.start : span.end] == written
        assert locate(quote.replace("point", "dot").replace("not", "a").replace("and", "or"), body) is None
