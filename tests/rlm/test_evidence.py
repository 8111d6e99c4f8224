"""Quotes and citations against a real context file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.evidence import cite, locate, quotes_in
from rlm.types import Citation, Span
from sandbox.context_file import ContextFileWriter
from sandbox.in_kernel.body import Body

FIRST = "The first line.\nÜber alles: the kettle\n  whistled   at seven.\nNobody heard it.\n"
SECOND = "A second document begins.\nThe kettle was cold by eight o'clock.\n"
MakeBody = Callable[..., Body]


@pytest.fixture
def make_body(tmp_path: Path) -> Iterator[MakeBody]:
    opened: list[Body] = []

    def make(*documents: str) -> Body:
        with ContextFileWriter(tmp_path / str(len(opened))) as writer:
            for number, text in enumerate(documents):
                writer.begin_document(f"d{number}.txt")
                writer.write(text)
                writer.end_document()
            file = writer.finish()
        opened.append(file.open())
        return opened[-1]

    yield make
    for body in opened:
        body.close()


class PlainBody:
    """A body in memory that says how much was read of it at once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.chars = len(text)
        self.largest = 0
        self.read = 0

    def text(self, start: int, end: int) -> str:
        assert 0 <= start <= end <= self.chars
        self.largest = max(self.largest, end - start)
        self.read += end - start
        return self._text[start:end]

    def line_of(self, char: int) -> int:
        return self._text.count("\n", 0, char)

    def document_at(self, char: int) -> None:
        return None


def test_a_citation_says_where_its_quote_stands(make_body: MakeBody) -> None:
    """driver.md 5.3: quote, span, document, line within it (from 1), verified."""
    body = make_body(FIRST, SECOND)
    start = len(FIRST) + SECOND.index("The kettle")
    end = len(FIRST + SECOND) - 1
    wanted = Citation("[¹]", "The kettle was cold by eight o'clock.", start, end, "d1.txt", None, 2, True)
    assert cite([Span(start, end)], "", body) == (wanted,)
    assert cite(["The kettle was cold by eight o'clock."], "", body) == (wanted,)


def test_white_space_is_folded(make_body: MakeBody) -> None:
    """driver.md 5.3: a quote over a line break, written by a model with blanks, is verified at its place."""
    body = make_body(FIRST, SECOND)
    quote = "the kettle whistled\nat seven."
    (citation,) = cite([quote], "", body)
    assert (citation.verified, citation.quote, citation.line) == (True, quote, 2)
    assert body.text(citation.start, citation.end) == "the kettle\n  whistled   at seven."


def test_a_quote_that_is_not_there_is_not_verified(make_body: MakeBody) -> None:
    """driver.md 5.3: shown as such, and without a place."""
    body = make_body(FIRST, SECOND)
    assert cite(["the kettle sang at seven", " \n"], "", body) == (
        Citation("[¹]", "the kettle sang at seven", None, None, None, None, None, False),
        Citation("[²]", " \n", None, None, None, None, None, False),
    )


@pytest.mark.parametrize(
    "span", [Span(5, 5), Span(9, 3), Span(-4, 3), Span(0, 10**9), Span(10**9, 10**9 + 1)]
)
def test_a_span_outside_the_body_is_not_verified(make_body: MakeBody, span: Span) -> None:
    """driver.md 5.3: a cell may claim any numbers as its evidence."""
    (citation,) = cite([span], "", make_body(FIRST))
    assert citation == Citation("[¹]", "", span.start, span.end, None, None, None, False)
    assert locate("The first line.", make_body(FIRST), span) == Span(0, 15)


def test_an_empty_body_verifies_nothing(make_body: MakeBody) -> None:
    """driver.md 5.3."""
    body = make_body()
    assert [
        item.verified for item in cite([Span(0, 0), "anything at all"], '"some twenty characters"', body)
    ] == [
        False,
        False,
        False,
    ]


def test_markers_count_up_and_equal_pieces_are_cited_once(make_body: MakeBody) -> None:
    """driver.md 5.3: `[¹]` to `[¹⁰]` and on, in the order given."""
    body = make_body("abcdefghijklmnopqrstuvwxyz")
    pieces = [Span(number, number + 1) for number in range(11)]
    cited = cite([*pieces, pieces[0]], "", body)
    assert [item.marker for item in cited[:3]] == ["[¹]", "[²]", "[³]"]
    assert [item.marker for item in cited[9:]] == ["[¹⁰]", "[¹¹]"]
    assert "".join(item.quote for item in cited) == "abcdefghijk"


def test_a_long_quote_is_shown_by_its_head(make_body: MakeBody) -> None:
    """driver.md 5.3: at most 600 characters of it, while the span stays whole."""
    body = make_body("x" * 5_000)
    by_span, by_text = cite([Span(10, 4_000), "x" * 4_000], "", body)
    assert (by_span.quote, by_span.start, by_span.end) == ("x" * 600, 10, 4_000)
    assert (by_text.quote, by_text.start, by_text.end, by_text.verified) == ("x" * 600, 0, 4_000, True)


def test_quotes_of_the_answer_are_checked_too(make_body: MakeBody) -> None:
    """driver.md 5.3: after the evidence, unless a piece of it holds them already."""
    body = make_body(FIRST, SECOND)
    answer = (
        'It says "A second document begins," then “The kettle was cold by eight o\'clock.” '
        'and "nothing of the kind at all."'
    )
    cited = cite([Span(0, 15), "The kettle was cold by eight o'clock."], answer, body)
    assert [(item.marker, item.quote, item.document, item.verified) for item in cited] == [
        ("[¹]", "The first line.", "d0.txt", True),
        ("[²]", "The kettle was cold by eight o'clock.", "d1.txt", True),
        ("[³]", "A second document begins", "d1.txt", True),
        ("[⁴]", "nothing of the kind at all", None, False),
    ]


def test_the_place_nearest_to_the_claim_wins(make_body: MakeBody) -> None:
    """driver.md 5.3: at the span first, then around it (folded), then anywhere."""
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
    assert locate("", body) is None


@pytest.mark.parametrize("gap", [" ", "\n", "  \n\t  "])
def test_a_quote_across_two_windows_is_found(gap: str) -> None:
    """driver.md 5.3: the body is read in pieces, and no place falls between them."""
    for before in range((1 << 20) - 60, (1 << 20) + 130, 7):
        body = PlainBody("." * before + f"the needle{gap}in the haystack" + "." * 200)
        assert locate("the needle in the haystack", body) == Span(before, before + 25 + len(gap))


def test_memory_stays_bounded_and_one_pass_serves_all_quotes() -> None:
    """driver.md 5.3: a body of any size is never read whole, nor once a quote."""
    body = PlainBody("some words and\nothers " * 300_000)
    cited = cite([f"quote number {number} is not here" for number in range(50)], "", body)
    assert not any(item.verified for item in cited)
    assert body.largest < (1 << 20) + 10_000
    assert body.read < 1.1 * body.chars


@pytest.mark.parametrize(
    ("answer", "quotes"),
    [
        ("", []),
        ('He said "no" and "this one is long enough".', ["this one is long enough"]),
        ("“Curly marks do as well as any” and «angular marks do as well».",
         ["Curly marks do as well as any", "angular marks do as well"]),
        ('"the same passage twice over" "the same passage twice over"', ["the same passage twice over"]),
        ('"over one line\nbreak is still one"', ["over one line\nbreak is still one"]),
        ('a 5" pipe, a long way off\n\nand "a passage of its own here"', ["a passage of its own here"]),
        ('"never closed and therefore no quote', []),
        ('"exactly twenty char"', []),
        ('"exactly twenty chars"', ["exactly twenty chars"]),
    ],
)  # fmt: skip
def test_which_passages_of_an_answer_are_quotes(answer: str, quotes: list[str]) -> None:
    """driver.md 5.3: double-quoted, at least 20 characters, within a paragraph."""
    assert quotes_in(answer) == quotes


words = st.lists(st.sampled_from(["a", "b", "aa", "ab", "ba", "é"]), min_size=1, max_size=6)
blanks = st.sampled_from([" ", "  ", "\n", "\t \n"])


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "aa", "ab", "é"]), blanks), max_size=40), words)
def test_a_place_is_found_exactly_when_the_folded_body_holds_the_quote(
    pieces: list[tuple[str, str]], quote: list[str]
) -> None:
    """driver.md 5.3: what is found reads as the quote; what is not found is not there."""
    text = "".join(word + blank for word, blank in pieces)
    body = PlainBody(text)
    found = locate(" ".join(quote), body)
    assert (found is not None) == (" ".join(quote) in " ".join(text.split()))
    if found is not None:
        assert text[found.start : found.end].split() == quote
    assert locate(" ".join(quote), body, Span(0, 1)) is None or found is not None


def test_a_quote_made_to_be_searched_for_long_is_not(make_body) -> None:
    """The search is linear in the body, whatever the quote: a document's author may choose both."""
    body = make_body("a " * 300_000)
    (citation,) = cite(["a " * 2_000 + "b"], "", body)
    assert not citation.verified
    (citation,) = cite(["a  " * 1_000 + "a"], "", body)
    assert (citation.start, citation.end) == (0, 2_001)
