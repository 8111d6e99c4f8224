"""Test which citations a reply contains."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from rlm.prompts import CitedInput, CitedPrompt, Pack, check_citations

PACKS = (
    Pack("a", "minutes", "The bridge was closed.", 3.0, heading_path=("March",), hits=((112, 118),)),
    Pack("b", "letters", "It opened in July.", 2.0),
    Pack("c", "ledger", "The ferry cost 14,300.", 1.0),
)
CITATIONS = CitedPrompt().assemble(CitedInput("When?", PACKS)).citations
FOOTNOTES = CitedPrompt().assemble(CitedInput("When?", PACKS, citation_style="footnote")).citations


def test_known_unknown_unused_and_uncited_are_distinguished() -> None:
    """Markers are parsed from the reply."""
    check = check_citations(
        "It was closed [¹]. Nobody knows why. It cost much [⁷]! It opened [²], in July.", CITATIONS
    )
    assert check.known == ("[¹]", "[²]")
    assert check.unknown == ("[⁷]",)
    assert check.unused == ("[³]",)
    assert check.uncited == ("Nobody knows why.",)


def test_each_citation_is_resolved_to_document_and_span() -> None:
    """With its place in the reply and in the document."""
    reply = "Closed in March [¹]."
    (place,) = check_citations(reply, CITATIONS).places
    assert reply[place.start : place.end] == "[¹]"
    assert (place.citation.doc_id, place.citation.span_offsets) == ("minutes", ((112, 118),))
    json.dumps(check_citations(reply, CITATIONS).to_json())


def test_markers_are_read_however_a_model_writes_them() -> None:
    for reply in ("So [¹][²].", "So [1, 2].", "So [^1][^2].", "So [ 1 ; 2 ].", "So.[¹] And so [²]."):
        check = check_citations(reply, CITATIONS)
        assert check.known == ("[¹]", "[²]")
        assert check.uncited == ()


def test_footnote_definitions_are_neither_citations_nor_sentences() -> None:
    """The list of footnotes in a reply cites nothing."""
    reply = "It was closed[^1].\n\n[^1]: minutes, March\n[^2]: letters"
    check = check_citations(reply, FOOTNOTES)
    assert check.known == ("[^1]",)
    assert check.unused == ("[^2]", "[^3]")
    assert check.uncited == ()


def test_a_reply_without_markers_is_uncited_throughout() -> None:
    check = check_citations("One thing. Another thing!\n\nAnd a third", CITATIONS)
    assert check.uncited == ("One thing.", "Another thing!", "And a third")
    assert check.known == ()
    assert len(check.unused) == 3
    assert check_citations("", CITATIONS).uncited == ()


@given(st.text(st.sampled_from("ab .!?\n[]^¹²1,;: "), max_size=80))
def test_any_reply_can_be_checked(reply: str) -> None:
    """Never raises. Every citation is known or unused."""
    check = check_citations(reply, CITATIONS)
    assert {*check.known, *check.unused} == {citation.marker for citation in CITATIONS}
    assert not set(check.known) & set(check.unused)
    for place in check.places:
        assert reply[place.start] == "["
        assert reply[place.end - 1] == "]"


def test_an_index_a_year_and_code_are_no_markers() -> None:
    found = check_citations("It is `a[1]` or arr[1] in [2024], see [1]. So arr[2] it is.", CITATIONS)
    assert found.unknown == ()
    assert len(found.places) == 1
    assert found.uncited == ("So arr[2] it is.",)


def test_marks_that_are_no_index_count_right_after_a_word() -> None:
    """Only plain brackets can be an index, and only beside marks after a space."""
    for first in ("[¹]", "[^1]"):
        reply = f"The fee is four percent{first}. The term is two years [²]."
        check = check_citations(reply, CITATIONS)
        assert check.known == ("[¹]", "[²]")
        assert check.uncited == ()
    assert check_citations("It is values[1], or f(x)[3], of five [2].", CITATIONS).known == ("[²]",)
    assert check_citations("It says [1]: four. One[1]; two[2].", CITATIONS).known == ("[¹]",)
    assert check_citations("One[1]. Two[2].", CITATIONS).known == ("[¹]", "[²]")
