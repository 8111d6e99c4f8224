"""Test where checks run: cheap ones in the driver, the others in a process, with the same result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.answers import checks
from rlm.answers.checker.pool import shared_pool
from rlm.answers.checks import QuotePlace, Wanted, check_value, find_places, read_reply
from rlm.answers.json_schema import AnswerSchema, SchemaError
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.in_kernel.body.body import Body
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


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kinds of the requests that went to a process."""
    pool = shared_pool()
    kinds: list[str] = []
    original = pool.ask

    async def ask(request: dict[str, Any], **options: Any) -> dict[str, Any]:
        kinds.append(request["kind"])
        return await original(request, **options)

    monkeypatch.setattr(pool, "ask", ask)
    return kinds


SCHEMA = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}}


async def test_a_small_check_needs_no_process(asked: list[str]) -> None:
    schema = AnswerSchema.of({"name": "str", "age": "int"})
    assert await read_reply(schema, '{"name": "x", "age": 3}') == {"name": "x", "age": 3}
    with pytest.raises(SchemaError, match="'age' is a required property"):
        await read_reply(schema, '{"name": "x"}')
    assert asked == []


async def test_a_large_value_and_an_unbounded_schema_are_checked_in_a_process(asked: list[str]) -> None:
    """The result is the same, with the place of the fault."""
    schema = AnswerSchema.of(SCHEMA)
    good = [{"n": number} for number in range(20_000)]
    await check_value(schema, good)
    with pytest.raises(SchemaError, match=r"\[20000\]\['n'\]: 'x' is not of type 'integer'"):
        await check_value(schema, [*good, {"n": "x"}])
    trusted = AnswerSchema.of({"$defs": {"a": {"pattern": "^a"}}, "$ref": "#/$defs/a"}, trusted=True)
    await check_value(trusted, "abc")
    with pytest.raises(SchemaError, match="does not match"):
        await check_value(trusted, "bc")
    assert asked == ["schema"] * 4


async def test_a_callers_regular_expression_meets_a_hostile_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check ends, and the value is refused."""
    monkeypatch.setattr(checks, "SCHEMA_SECONDS", 0.5)
    schema = AnswerSchema.of({"pattern": "^(a|a)+$"}, trusted=True)
    began = time.monotonic()
    with pytest.raises(SchemaError, match=r"could not be checked against the schema: not done within"):
        await check_value(schema, "a" * 60 + "b")
    assert time.monotonic() - began < 30


async def test_a_value_is_bounded_before_it_is_checked(asked: list[str]) -> None:
    schema = AnswerSchema.of({"type": "string"})
    for value in ("x" * 1_000_001, float("nan"), [float("inf")]):
        with pytest.raises(SchemaError):
            await check_value(schema, value)
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(SchemaError, match="deeper than 100 levels"):
        await check_value(schema, deep)
    assert asked == []


FILLER = "lorem ipsum dolor sit amet\n" * 100_000


async def test_a_search_gives_the_same_in_the_driver_and_in_a_process(
    make_body: MakeBody, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quotes = [
        *(Wanted("the kettle whistled at seven"), Wanted("the café is open"), Wanted("never there")),
        *(Wanted("ipsum", 3), Wanted("kettle", 3), Wanted("x" * 6_000), Wanted("")),
    ]
    text = "世 the kettle\nwhistled at seven, the cafe\u0301 is open. " + FILLER[:50_000]
    body = make_body(text)
    here = await find_places(quotes, body, [Span(0, 20)])
    assert asked == []
    monkeypatch.setattr(checks, "MAX_SEARCH_STEPS", 0)
    there = await find_places(quotes, body, [Span(0, 20)])
    assert asked == ["quotes"]
    assert here == there
    assert here == [
        QuotePlace("found", Span(2, 30)),
        QuotePlace("found", Span(32, 49)),
        QuotePlace("missing"),
        QuotePlace("common"),
        QuotePlace("found", Span(6, 12)),
        QuotePlace("too_long"),
        QuotePlace("missing"),
    ]


async def test_a_large_text_is_searched_in_a_process(make_body: MakeBody, asked: list[str]) -> None:
    """A window of a body is searched within its own part of the file."""
    body = make_body("outside the window. 世 " + FILLER * 4 + "the needle\nis here")
    quotes = [Wanted("the needle is here"), Wanted("outside the window")]
    places = await find_places(quotes, body)
    assert places == [
        QuotePlace("found", Span(body.chars - 18, body.chars)),
        QuotePlace("found", Span(0, 18)),
    ]
    window = body.window(22, body.chars)
    places = await find_places(quotes, window)
    assert places == [QuotePlace("found", Span(window.chars - 18, window.chars)), QuotePlace("missing")]
    assert set(asked) == {"quotes"}
    assert window.text(*places[0].span or (0, 0)) == "the needle\nis here"


@pytest.mark.parametrize(
    "near", [Span(5, 5), Span(9, 3), Span(-4, 3), Span(0, 10**9), Span(10**9, 10**9 + 1)]
)
async def test_a_claim_outside_the_body_is_no_hint(make_body: MakeBody, near: Span) -> None:
    """A cell may claim any numbers as its evidence."""
    body = make_body("The first line.")
    assert await find_places([Wanted("first line")], body, [near]) == [QuotePlace("found", Span(4, 14))]


async def test_a_process_that_lies_is_not_believed(
    make_body: MakeBody, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place outside the text, or no list, leaves the quotes unsearched."""
    monkeypatch.setattr(checks, "MAX_SEARCH_STEPS", 0)
    body = make_body("The first line.")
    for said in (
        {"found": [["found", 0, 10**6]]},
        {"found": [["found", 5, 3]]},
        {"found": []},
        {"found": [["sure", 0, 3]]},
        {"found": [["found", "a", 3]]},
        {"found": 3},
        {"error": "no memory"},
    ):

        async def lie(*_: Any, said: Any = said, **__: Any) -> Any:
            return said

        monkeypatch.setattr(shared_pool(), "ask", lie)
        assert await find_places([Wanted("first line")], body) == [QuotePlace("unsearched")]


async def test_the_loop_is_free_while_a_hostile_text_is_searched(make_body: MakeBody) -> None:
    """50 quotes made to be searched for long, in 5 MB of the same letter."""
    body = make_body("a\n" * 2_500_000)
    quotes = [Wanted("a" * 4_900 + f"Z{number}") for number in range(50)]
    near = [Span(number * 20_000, number * 20_000 + 20_000) for number in range(100)]
    task = asyncio.ensure_future(find_places(quotes, body, near))
    worst = 0.0
    began = time.monotonic()
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - before)
    assert {place.status for place in await task} <= {"missing", "unsearched"}
    assert worst < 1
    assert time.monotonic() - began < 60
