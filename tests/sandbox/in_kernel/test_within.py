"""Test helpers over a part of the body, around several places, and sections with their text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CHAT = "".join(
    f"=== SESSION {session} | DATE: {session} May ===\n"
    + "".join(f"[D{session}:{turn}] Ann: turn {turn} é\n" for turn in range(1, 6))
    + "\n"
    for session in range(1, 4)
)


@settings(max_examples=120, deadline=None)
@given(
    st.text(alphabet=st.sampled_from("ab é\n世"), min_size=1, max_size=80),
    st.integers(0, 80),
    st.integers(1, 40),
    st.sampled_from(["a", r"\bb", "(?i)É", "^", "a|b", "世+", "(?=a)"]),
)
def test_a_part_is_searched_as_if_it_were_the_whole(
    make_handle, text: str, start: int, size: int, pattern: str
) -> None:
    """Offsets and lines are those of the whole body."""
    handle = make_handle(text, "more a b")
    end = min(start + size, handle.body.chars)
    whole = handle.peek(0, handle.body.chars)
    if start >= end:
        with pytest.raises(ValueError, match="holds no character"):
            handle.search(pattern, within=(start, start + size))
        return
    hits = handle.search(pattern, within=(start, end))
    expected = [match.span() for match in re.finditer(pattern, whole[start:end], re.MULTILINE)]
    assert [(hit.start - start, hit.end - start) for hit in hits] == expected
    assert handle.count(pattern, within=(start, end)) == hits.total == len(expected)
    assert [hit.line for hit in hits] == [whole.count("\n", 0, hit.start) for hit in hits]
    for chunks in (
        handle.chunk(7, within=(start, end)),
        handle.chunk(7, 3, within=(start, end)),
        handle.chunk(9, by="lines", within=(start, end)),
    ):
        assert handle.chunk_coverage(chunks, within=(start, end)).complete
        assert (chunks[0].start, chunks[-1].end) == (start, end)
        assert all(chunk.text == whole[chunk.start : chunk.end] for chunk in chunks)
    lines = handle.read_lines(within=(start, end))
    assert lines[0].start <= start
    assert lines[-1].end >= end - 1
    assert [line.number for line in lines] == list(range(lines[0].number, lines[0].number + len(lines)))


def test_a_part_is_named_in_many_ways(make_handle) -> None:
    handle = make_handle(("d/chat.txt", "text", CHAT), ("b.txt", "text", "turn 1 é\n"))
    first, second = handle.documents()
    (hit,) = handle.search(r"D2:3", context=0)
    section = handle.quote(CHAT[CHAT.index("=== SESSION 2") : CHAT.index("=== SESSION 3")])
    for within, count in (
        ("d/chat.txt", 3),
        ("chat.txt", 3),
        ("B.TXT", 1),
        (first, 3),
        (second, 1),
        (section, 1),
        (hit, 0),
        ([section.start, section.end], 1),
        ((-9, -1), 1),
        (handle.chunk(10_000)[0], 4),
        (handle.read_lines()[1], 1),
    ):
        assert handle.count("turn 1", within=within) == count, within
    for wrong in (5, None.__class__, 1.5, handle.search("turn"), [], {"start": 1}):
        with pytest.raises(TypeError, match=r"within is one place: .* For several places, call it for each"):
            handle.search("x", within=wrong)
    with pytest.raises(ValueError, match=r"no document is named 'chatt.txt' \(there is 'd/chat.txt'"):
        handle.search("x", within="chatt.txt")
    assert handle.read_lines(1, 2, within=section)[0].startswith("[D2:1]")
    assert handle.peek(section) == section
    assert handle.peek(hit) == "[D2:3] Ann: turn 3 é"


GUIDE = "# A\none\n## B\ntwo\n### C\nthree\n## D\nfour\n"


@pytest.mark.parametrize(
    ("kind", "text", "inside", "section"),
    [
        ("markdown", GUIDE, "two", "## B\ntwo\n### C\nthree\n"),
        ("text", GUIDE, "two", "## B\ntwo\n### C\nthree\n"),
        ("text", "plain\nmuch", "much", "plain\nmuch"),
        ("code", "# A\nx = 1\n", "x = 1", "# A\nx = 1\n"),
    ],
)
def test_a_section_has_its_text(make_handle, kind: str, text: str, inside: str, section: str) -> None:
    handle = make_handle(("a", kind, text), ("b", "text", "# after\n"))
    (hit,) = handle.search(inside, within="a")
    assert handle.around(hit, by="section").rstrip() == section.rstrip()


def test_windows_around_several_places_are_merged(make_handle) -> None:
    handle = make_handle("".join(f"line {number}\n" for number in range(100)))
    hits = handle.search(r"line (10|12|13|50|99)$")
    around = handle.around(hits, lines=2)
    assert [text.span for text in around] == [
        (handle.read_lines()[low].start, handle.peek(0, high, "lines").end)
        for low, high in ((8, 16), (48, 53), (97, 100))
    ]
    assert (
        repr(around).splitlines()[0] == f"[{around[0].start}-{around[0].end}, lines 8-15 of d0.txt, 3 places]"
    )
    assert repr(handle.around([])) == "[]"
    assert list(handle.around([5, (700, 701)], 0)) == [handle.around(5, 0), handle.around(700, 0)]
    with pytest.raises(TypeError, match="where must be a hit"):
        handle.around(["line 5"])
    with pytest.raises(ValueError, match="more than 100,000 at once"):
        make_handle("x\n" * 200_000).around([5, 300_000], 60_000)


def test_an_empty_list_prints_as_one(make_handle) -> None:
    handle = make_handle("a")
    for empty in (handle.search("z"), handle.documents()[1:], make_handle("").chunk(), handle.around([])):
        assert repr(empty) == "[]"
