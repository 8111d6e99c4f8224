"""Test the search for quotes in a text: the same for any size, and off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlm.answers import quote_places
from rlm.answers.quote_places import Wanted, find_places
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span

MakeBody = Callable[[str], Body]


@pytest.fixture
def make_body(tmp_path: Path) -> Iterator[MakeBody]:
    opened: list[Body] = []

    def make(text: str) -> Body:
        with ContextFileWriter(tmp_path / str(len(opened))) as writer:
            writer.begin_document("d")
            writer.write(text)
            opened.append(writer.finish().open())
        return opened[-1]

    yield make
    for body in opened:
        body.close()


HOSTILE_TEXT = "a\n" * 2_500_000
HOSTILE_QUOTES = [Wanted("a" * 4_900 + f"Z{number}") for number in range(50)]
HOSTILE_HINTS = [Span(number * 20_000, number * 20_000 + 20_000) for number in range(100)]
FILLER = "lorem ipsum dolor sit amet\n" * 100_000


async def test_each_quote_has_its_own_result(make_body: MakeBody) -> None:
    quotes = [
        *(Wanted("the kettle whistled at seven"), Wanted("the café is open"), Wanted("never there")),
        *(Wanted("ipsum", 3), Wanted("kettle", 3), Wanted("x" * 6_000), Wanted("")),
    ]
    text = "世 the kettle\nwhistled at seven, the cafe\u0301 is open. " + FILLER[:50_000]
    body = make_body(text)
    assert await find_places(quotes, body, [Span(0, 20)]) == [
        Span(2, 30),
        Span(32, 49),
        "missing",
        "common",
        Span(6, 12),
        "too_long",
        "missing",
    ]


async def test_a_large_text_is_searched(make_body: MakeBody) -> None:
    """A window of a body is searched within its own part of the file."""
    body = make_body("outside the window. 世 " + FILLER * 4 + "the needle\nis here")
    quotes = [Wanted("the needle is here"), Wanted("outside the window")]
    places = await find_places(quotes, body)
    assert places == [
        Span(body.chars - 18, body.chars),
        Span(0, 18),
    ]
    window = body.window(22, body.chars)
    places = await find_places(quotes, window)
    assert places == [Span(window.chars - 18, window.chars), "missing"]
    assert window.text(*places[0]) == "the needle\nis here"


async def test_a_claim_outside_the_body_is_no_hint(make_body: MakeBody) -> None:
    """A cell may claim any numbers as its evidence."""
    near = [Span(5, 5), Span(9, 3), Span(-4, 3), Span(0, 10**9), Span(10**9, 10**9 + 1)]
    found = await find_places([Wanted("first line")], make_body("The first line."), near)
    assert found == [Span(4, 14)]


async def test_a_search_ends_after_its_seconds(make_body: MakeBody, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not looked up is not taken for missing."""
    monkeypatch.setattr(quote_places, "SEARCH_SECONDS", -1.0)
    monkeypatch.setattr(quote_places, "_MOMENT", -1.0)
    body = make_body(FILLER * 2)
    assert await find_places([Wanted("never there")], body) == ["unsearched"]


async def test_a_cancelled_search_does_not_outlive_its_text(make_body: MakeBody) -> None:
    body = make_body(HOSTILE_TEXT)
    searching = asyncio.ensure_future(find_places(HOSTILE_QUOTES, body, HOSTILE_HINTS))
    await asyncio.sleep(0.1)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    body.close()
    await asyncio.sleep(0.2)


async def test_the_loop_is_free_while_a_hostile_text_is_searched(make_body: MakeBody) -> None:
    body = make_body(HOSTILE_TEXT)
    task = asyncio.ensure_future(find_places(HOSTILE_QUOTES, body, HOSTILE_HINTS))
    worst = 0.0
    began = time.monotonic()
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - before)
    assert set(await task) <= {"missing", "unsearched"}
    assert worst < 1
    assert time.monotonic() - began < 60
