"""Test how a cell finds the place of a text: tolerant like evidence, and helpful where there is none."""

from __future__ import annotations

import json
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Span

CARD = {"id": "q-1", "text": "The café opens at “nine”.\nIt closes at noon. Dr. Adams has the key."}
PROSE = """Intro.

The agree-
ment was signed by both
parties on 3 May 2024. It ended **in
June**, two years later."""
WIDE = "会議は金曜日の午後に始まります。資料は前日までに配布します。"


@pytest.fixture(scope="module")
def handle(make_handle) -> Handle:
    return make_handle(
        ("prose.txt", "text", PROSE + "\n"),
        ("card.jsonl", "jsonl", json.dumps(CARD) + "\n"),
        ("wide.txt", "text", WIDE + "\nＡＢＣ 123\n"),
    )


@pytest.mark.parametrize(
    ("quote", "stands"),
    [
        ("signed by both parties", "signed by both\nparties"),
        ("The agreement was signed", "The agree-\nment was signed"),
        ("ended in June, two", "ended **in\nJune**, two"),
        (unicodedata.normalize("NFD", "The café opens"), "The caf\\u00e9 opens"),
        ('The café opens at "nine". It closes', "The caf\\u00e9 opens at \\u201cnine\\u201d.\\nIt closes"),
        ("ABC 123", "ＡＢＣ 123"),
        ("午後に始まります", "午後に始まります"),
    ],
)
def test_a_quote_is_found_however_it_is_written(handle: Handle, quote: str, stands: str) -> None:
    """It is returned as it stands, with its span."""
    found = handle.quote(quote)
    assert found == stands
    assert found.span == (found.start, found.end)
    assert handle.peek(found.start, found.end) == stands


def test_of_nearly_equal_passages_the_first_verbatim_one_is_taken(make_handle) -> None:
    handle = make_handle("a **red** fox\na red fox.\na red fox!\na  blue fox\na “blue” fox\na\tblue fox")
    assert handle.quote("a red fox").start == 14
    assert handle.quote("a blue fox").start == 36
    assert handle.quote("a red fox", within=(20, 100)).start == 25


def test_an_absent_quote_names_the_nearest_place(handle: Handle) -> None:
    """The place has its offsets, and the words that differ."""
    with pytest.raises(ValueError, match="does not stand in the text as given") as told:
        handle.quote("was signed by all parties on 3 May 2025")
    message = str(told.value)
    place = handle.quote("was signed by both parties on 3 May 2024")
    assert f"Nearest: ({place.start}, {place.end}), 7 of 9 words, in prose.txt: " in message
    assert "'both' stands for 'all'; '2024' stands for '2025'" in message
    with pytest.raises(ValueError, match="differs in case or punctuation"):
        handle.quote("The Agreement Was Signed".replace("Agreement", "agree ment"))
    with pytest.raises(ValueError, match=r"No place is like it: .* search\(\) or rank\(\)"):
        handle.quote("zebras graze quietly")
    with pytest.raises(ValueError, match=r"in wide\.txt: '会議は金曜日の午後に始まり"):
        handle.quote("会議は火曜日の午後に始まります")


@pytest.mark.parametrize("quote", ["", " ", "…", "\ud800", "x" * 5_001, 5, None, b"x"])
def test_what_is_no_quote_is_told(handle: Handle, quote: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        handle.quote(quote)


def test_a_quote_is_looked_for_within_a_part(make_handle) -> None:
    handle = make_handle(
        ("a.txt", "text", "the key is red\n"), ("b/b.txt", "text", "the key is blue\nthe key is red\n")
    )
    assert handle.quote("the key is").start == 0
    assert handle.quote("the key is", within="b.txt").start == 15
    assert handle.quote("the key is red", within=handle.documents()[1]).start == 31
    with pytest.raises(ValueError, match=r"Nearest: \(15, 30\), 3 of 4 words, in b/b.txt"):
        handle.quote("the key is green", within=(15, 30))


TEXTS = st.text(alphabet=st.sampled_from('ab é\n"\\*-_#.世界\u0301ﬁＡ'), max_size=120)


@settings(max_examples=150, deadline=None)
@given(TEXTS, TEXTS, st.integers(0, 100), st.integers(1, 60))
def test_any_part_of_a_text_is_found_in_it(make_handle, text: str, other: str, start: int, size: int) -> None:
    """Whatever is found reads at its offsets. Nothing ends in another error."""
    handle = make_handle(("a.txt", "text", other + "\n"), ("b.txt", "text", text + "\n"))
    quote = text[start : start + size]
    found = None
    try:
        found = handle.quote(quote, within="b.txt")
    except ValueError:
        assert not quote.strip(" \t\r\n…") or not any(map(str.isalnum, quote))
    if found is not None:
        begin, end = found.span
        assert handle.documents()[1].start <= begin < end
        assert handle.peek(begin, end) == found
    for where in (start, (start, start + size), *handle.search("a|世")[:3]):
        sentence = handle.around(where, by="sentence")
        assert handle.peek(*sentence.span) == sentence


def test_the_search_for_what_is_not_there_is_bounded(make_handle) -> None:
    """A text full of the quote's words, and one of look-alikes, end in time."""
    common = "the plan of the board for the year was agreed and the report of the board was read "
    handle = make_handle(common * 12_000)
    began = time.process_time()
    with pytest.raises((ValueError, TimeoutError)):
        handle.quote("the report of the chair for the year was refused and the plan of the board was lost")
    with pytest.raises((ValueError, TimeoutError)):
        handle.quote(("the board " * 499).strip() + " ended")
    assert time.process_time() - began < 12


@pytest.mark.parametrize(
    ("inside", "sentence"),
    [
        ("signed", "The agree-\nment was signed by both\nparties on 3 May 2024."),
        ("two years", "It ended **in\nJune**, two years later."),
        ("noon", "It closes at noon."),
        ("the key", "Dr. Adams has the key."),
        ("q-1", "q-1"),
        ("資料", "資料は前日までに配布します。"),
        ("Intro", "Intro."),
    ],
)
def test_the_sentence_of_a_hit(handle: Handle, inside: str, sentence: str) -> None:
    assert handle.around(handle.search(inside)[0], by="sentence") == sentence
    assert handle.around(handle.search(inside)[0].start, by="sentence") == sentence


def test_turns_items_and_rows_are_sentences(make_handle) -> None:
    text = (
        "[D1:1] Ann: Hello there\n"
        "[D1:2] Bob: Fine. And you? See the picture of the old lighthouse by the sea\n"
        "- item one\n- item two\n"
    )
    handle = make_handle(text, ("t.csv", "csv", "a,b\nfirst row,1\nsecond row,2\n"))
    for inside, sentence in (
        ("Hello", "[D1:1] Ann: Hello there"),
        ("And", "And you?"),
        ("lighthouse", "See the picture of the old lighthouse by the sea"),
        ("one", "- item one"),
        ("second", "second row,2"),
    ):
        assert handle.around(handle.search(inside)[0], by="sentence") == sentence
    everything = handle.around(Span(0, 60), by="sentence")
    assert everything.start == 0
    assert make_handle("").around(0, by="sentence") == ""
