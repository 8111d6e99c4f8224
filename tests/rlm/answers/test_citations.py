"""Test quotes and citations against a real context file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rlm.answers.citations import cite as cite_all
from rlm.answers.citations import quotes_in
from rlm.results import Citation, Span
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.place_index import MessageHeader

FIRST = "The first line.\nÜber alles: the kettle\n  whistled   at seven.\nNobody heard it.\n"
SECOND = "A second document begins.\nThe kettle was cold by eight o'clock.\n"
MakeBody = Callable[..., Body]


async def cite(evidence: Sequence[Span | str], answer: str, body: Body) -> tuple[Citation, ...]:
    return (await cite_all(evidence, answer, body)).citations


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


async def test_a_citation_says_where_its_quote_stands(make_body: MakeBody) -> None:
    """A citation holds quote, span, document and its line (from 1), and is verified."""
    body = make_body(FIRST, SECOND)
    start = len(FIRST) + SECOND.index("The kettle")
    end = len(FIRST + SECOND) - 1
    expected = Citation("[¹]", "The kettle was cold by eight o'clock.", start, end, "d1.txt", None, 2, True)
    assert await cite([Span(start, end)], "", body) == (expected,)
    assert await cite(["The kettle was cold by eight o'clock."], "", body) == (expected,)


async def test_a_quote_that_is_not_there_is_not_verified(make_body: MakeBody) -> None:
    """It is shown as unverified, without a place."""
    body = make_body(FIRST, SECOND)
    assert await cite(["the kettle sang at seven", " \n"], "", body) == (
        Citation("[¹]", "the kettle sang at seven", None, None, None, None, None, False),
        Citation("[²]", " \n", None, None, None, None, None, False),
    )


async def test_a_span_outside_the_body_is_not_verified(make_body: MakeBody) -> None:
    """A cell may claim any numbers as its evidence."""
    for body in (make_body(FIRST), make_body()):
        for span in (Span(5, 5), Span(9, 3), Span(-4, 3), Span(0, 10**9), Span(10**9, 10**9 + 1)):
            (citation,) = await cite([span], "", body)
            assert citation == Citation("[¹]", "", span.start, span.end, None, None, None, False)


async def test_markers_count_up_and_equal_pieces_are_cited_once(make_body: MakeBody) -> None:
    """The markers are `[¹]` to `[¹⁰]` and on, in the given order."""
    body = make_body("abcdefghijklmnopqrstuvwxyz")
    pieces = [Span(number, number + 1) for number in range(11)]
    cited = await cite([*pieces, pieces[0]], "", body)
    assert [item.marker for item in cited[:3]] == ["[¹]", "[²]", "[³]"]
    assert [item.marker for item in cited[9:]] == ["[¹⁰]", "[¹¹]"]
    assert "".join(item.quote for item in cited) == "abcdefghijk"


async def test_a_long_quote_is_shown_by_its_head(make_body: MakeBody) -> None:
    """The quote is cut at 600 characters; the span stays whole."""
    body = make_body("x" * 5_000)
    by_span, by_text = await cite([Span(10, 4_000), "x" * 4_000], "", body)
    assert (by_span.quote, by_span.start, by_span.end) == ("x" * 600, 10, 4_000)
    assert (by_text.quote, by_text.start, by_text.end, by_text.verified) == ("x" * 600, 0, 4_000, True)


async def test_quotes_of_the_answer_are_checked_too(make_body: MakeBody) -> None:
    """They come after the evidence, unless a piece of it holds them already."""
    body = make_body(FIRST, SECOND)
    answer = (
        'It says "A second document begins," then “The kettle was cold by eight o\'clock.” '
        'and "nothing of the kind at all."'
    )
    cited = await cite([Span(0, 15), "The kettle was cold by eight o'clock."], answer, body)
    assert [(item.marker, item.quote, item.document, item.verified) for item in cited] == [
        ("[¹]", "The first line.", "d0.txt", True),
        ("[²]", "The kettle was cold by eight o'clock.", "d1.txt", True),
        ("[³]", "A second document begins", "d1.txt", True),
        ("[⁴]", "nothing of the kind at all", None, False),
    ]


async def test_a_quotation_may_begin_with_the_capital_of_the_answer_s_sentence(make_body: MakeBody) -> None:
    body = make_body("so people say how do I get to the castle and go there")
    (cited,) = await cite([], "“How do I get to the castle” is what they say.", body)
    assert cited.verified
    assert (cited.start, cited.end) == (14, 40)


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
        ("“琥珀宫殿的第七扇门” 「琥珀宫殿的第七扇门后」", ["琥珀宫殿的第七扇门后"]),
        ('"exactly twenty chars"', ["exactly twenty chars"]),
        ('flags = ["-DWITH_A_BACKEND_OF_ITS_OWN", "src/transports/of_some_kind.c"]', []),
    ],
)  # fmt: skip
def test_which_passages_of_an_answer_are_quotes(answer: str, quotes: list[str]) -> None:
    """They are double-quoted, have at least 20 characters, and stay within a paragraph."""
    assert quotes_in(answer) == quotes


async def test_a_citation_says_page_message_and_heading(tmp_path: Path) -> None:
    """The place holds the page, line and message of its document, with author and time."""
    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a.pdf", "pdf")
        writer.begin_page()
        writer.write("One page.\n")
        writer.begin_page()
        writer.heading(1, 5)
        writer.write("Terms\nIt ends in May.\n")
        writer.begin_document("talk.json", "chat")
        writer.begin_message(MessageHeader(7, "user", "Anna", "2026-05-01 10:00"))
        writer.write("We leave at noon.\n")
        body = writer.finish().open()
    with body:
        paper, talk = await cite(["It ends in May.", "We leave at noon."], "", body)
    assert (paper.document, paper.page, paper.line) == ("a.pdf", 2, 3)
    assert (paper.message, paper.author, paper.heading_path) == (None, None, ("Terms",))
    assert paper.place == "a.pdf, page 2, line 3, under “Terms”"
    assert (talk.page, talk.message, talk.author, talk.time) == (None, 7, "Anna", "2026-05-01 10:00")
    assert talk.place == "talk.json:2, message 7 (Anna 2026-05-01 10:00)"


async def test_an_answer_that_numbers_its_evidence_keeps_its_numbers(make_body: MakeBody) -> None:
    """The third piece is `[³]` even if the second repeats the first. Quotes of the answer come after the
    evidence.
    """
    body = make_body(FIRST, SECOND)
    pieces = [Span(0, 15), Span(0, 15), "Nobody heard it."]
    answer = 'It is so [1], and so [3]: "The kettle was cold by eight o\'clock."'
    assert [(item.marker, item.quote) for item in await cite(pieces, answer, body)] == [
        ("[¹]", "The first line."),
        ("[²]", "The first line."),
        ("[³]", "Nobody heard it."),
        ("[⁴]", "The kettle was cold by eight o'clock"),
    ]
    assert len(await cite(pieces, "It is so.", body)) == 2


async def test_a_quote_that_stands_twice_is_cited_where_the_evidence_is(make_body: MakeBody) -> None:
    """The place near the given span wins."""
    text = "the fee is due at noon. " + "x " * 2_000 + "Here the fee is due at noon. "
    body = make_body(text)
    second = text.rindex("the fee")
    span = Span(second - 5, second - 1)
    _, citation = await cite([span, "the fee is due at noon"], "", body)
    assert (citation.start, citation.verified) == (second, True)


@pytest.mark.parametrize("quote", ["T", "42", "the", "It is", "of the", "世", "state", "–"])
async def test_evidence_that_any_text_may_hold_proves_nothing(make_body: MakeBody, quote: str) -> None:
    """Too few letters, function words only, or a word that stands all over the text."""
    body = make_body("It is the state of the 世 of T, 42 – so the end. " + "Their state. – " * 10)
    cited = await cite_all([quote], "", body)
    assert [citation.verified for citation in cited.citations] == [False]
    assert cited.unverified("common") == [quote]


@pytest.mark.parametrize("quote", ["Zebra-99", "900", "世界", "code word", "the state", "RM4"])
async def test_a_short_quote_that_points_at_a_place_is_verified(make_body: MakeBody, quote: str) -> None:
    body = make_body("The code word is Zebra-99, the state of RM4 and 世界 cost 900. " + "filler " * 100)
    cited = await cite_all([quote], "", body)
    assert cited.citations[0].verified


def test_an_answer_of_one_open_quotation_mark_takes_little_memory() -> None:
    """A regular expression that backtracks would keep a state for each character."""
    answer = '"' + "a b " * 250_000
    tracemalloc.start()
    try:
        assert quotes_in(answer) == []
        assert tracemalloc.get_traced_memory()[1] < 10 * len(answer)
    finally:
        tracemalloc.stop()
