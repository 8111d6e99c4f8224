"""Test the search for quotes in a real context file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm.answers.quote_search import MAX_SEARCHED_CHARS, locate, locate_all
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Span

MakeBody = Callable[[str], Body]


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
        ("первое\n слово", "первое слово"),
        ("🙂 a 👩‍👩‍👧\nfamily", "🙂 a 👩‍👩‍👧 family"),
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


@pytest.mark.parametrize(
    "near", [Span(5, 5), Span(9, 3), Span(-4, 3), Span(0, 10**9), Span(10**9, 10**9 + 1)]
)
def test_a_claim_outside_the_body_is_no_hint(make_body: MakeBody, near: Span) -> None:
    """A cell may claim any numbers as its evidence."""
    assert locate("first line", make_body("The first line."), near) == Span(4, 14)


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
    assert locate("a" * (MAX_SEARCHED_CHARS + 1), body) is None
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
