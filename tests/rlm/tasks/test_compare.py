"""Comparisons: all methods get the same question, models and check of quotes."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Limits, Settings
from rlm.documents import StreamSource, TextSource
from rlm.errors import ModelRejected, UsageError
from rlm.journal import Journal
from rlm.models.base import ModelWindow, Reply, Request, TokenUsage
from rlm.models.catalog.info import ModelInfo
from rlm.tasks.comparison import Comparison, MethodRow, compare
from rlm.testing import ScriptedModel

FACT = "The supplier of the northern plant is Orlen & Sons."
FILLER = "".join(f"Line {n} speaks of the weather and of nothing else at all.\n" for n in range(3_000))
TEXT = FILLER[: len(FILLER) // 2] + FACT + "\n" + FILLER[len(FILLER) // 2 :]
QUESTION = "Who is the supplier of the northern plant?"
ANSWER = f'Orlen & Sons.\nEvidence:\n"{FACT}"'


def told(request: Request) -> Reply:
    """Whoever sees the fact says it with the quote; others say that it is not there."""
    seen = any(FACT in piece.text for piece in request.slices)
    usage = TokenUsage(sum(len(piece.text) for piece in request.slices) // 4, 10)
    if request.role == "child":
        return Reply(f'Orlen & Sons: "{FACT}"' if seen else "NOT_FOUND", usage=usage)
    return Reply(ANSWER if seen else "NOT_FOUND", usage=usage)


@pytest.fixture
def compared(sandbox_level: int, tmp_path: Path, block: Callable[[str], str]) -> Callable[..., Any]:
    """`await compared(text)`: all methods over it, by a model that reads honestly and costs by the token."""

    async def run(text: str = TEXT, window: int = 30_000, **changes: Any) -> Comparison:
        cell = f"hit = search('supplier')[0]\nfinalize('Orlen & Sons.', evidence=[{FACT!r}])"
        answers = {
            "root": lambda _: Reply(block(cell), usage=TokenUsage(9_000, 100)),
            "child": told,
            "direct": told,
            **changes.pop("answers", {}),
        }
        model = ScriptedModel.of(**answers, window=ModelWindow(window, 2_000))
        settings = Settings(
            sandbox=sandbox_level,
            store=tmp_path / "rlm.db",
            facts={"scripted:memory": ModelInfo(input_price=1.0, output_price=1.0)},
        )
        rlm = RLM(model, limits=changes.pop("limits", Limits()), settings=settings)
        sources = changes.pop("sources", [TextSource("text", text)])
        return await compare(rlm, changes.pop("task", QUESTION), sources, **changes)

    return run


async def test_the_same_question_is_answered_in_four_ways_side_by_side(compared: Any, tmp_path: Path) -> None:
    found = await compared()
    rows = {row.method: row for row in found.rows}
    assert list(rows) == ["direct", "bm25", "map-reduce", "rlm"]
    # The text does not fit one prompt, and the fact stands in its middle.
    assert not found.fits
    assert rows["direct"].result.answer is None or "first" in rows["direct"].note
    for method in ("bm25", "map-reduce", "rlm"):
        row = rows[method]
        assert row.result.answer.startswith("Orlen & Sons")
        assert row.is_verified
        assert row.citations[0].line == TEXT[: TEXT.index(FACT)].count("\n") + 1
    assert rows["bm25"].calls == 1
    assert rows["map-reduce"].calls >= 4
    assert rows["map-reduce"].result.coverage.answered_chars == len(TEXT)
    assert rows["map-reduce"].cost_usd == pytest.approx(
        (rows["map-reduce"].input_tokens + rows["map-reduce"].output_tokens) / 1e6
    )
    # Everything that was paid for is in the journal, as one run.
    async with Journal.open(tmp_path / "rlm.db") as journal:
        (kept,) = await journal.runs()
        events = await journal.events(kept.run_id)
    assert {row.result.run_id for row in found.rows} == {kept.run_id}
    assert kept.state == "finished"
    paid = [event.data["within"] for event in events if "reply" in event.data]
    assert {row.method: row.calls for row in found.rows} == Counter(one.partition("/")[0] for one in paid)


async def test_a_text_that_fits_one_call_needs_no_rlm_and_the_advice_says_so(compared: Any) -> None:
    found = await compared(FACT + "\n" + FILLER[:2_000])
    assert found.fits
    assert found.rows[0].is_verified
    assert found.rows[0].note == ""
    assert found.rows[0].result.coverage.answered_chars == len(FACT) + 1 + 2_000
    data = found.to_json()
    assert data["fits_one_prompt"]
    assert [row["method"] for row in data["rows"]] == ["direct", "bm25", "map-reduce", "rlm"]
    assert data["recommendation"] == found.advice


async def test_a_method_that_fails_is_a_row_that_says_why(compared: Any) -> None:
    found = await compared(answers={"direct": ModelRejected("no such key")})
    rows = {row.method: row for row in found.rows}
    assert rows["direct"].result.stop_reason == "model"
    assert rows["direct"].note == "no such key"
    assert rows["rlm"].is_verified
    assert found.advice.startswith("Use the RLM here: it is the only method with only verified quotes.")


async def test_a_limit_too_small_for_all_parts_is_reported_before_anything_is_spent(compared: Any) -> None:
    found = await compared(methods=("map-reduce",), limits=Limits(max_total_tokens=5_000))
    (row,) = found.rows
    assert row.result.answer is None
    assert row.calls == 0
    assert "tokens" in row.note


async def test_a_small_model_is_shown_as_much_as_its_prompt_holds(compared: Any) -> None:
    whole = await compared(FACT + "\n" + FILLER[:2_000], window=8_000, methods=("direct",))
    assert whole.fits
    assert whole.rows[0].is_verified
    part = await compared(FACT + "\n" + FILLER, window=8_000, methods=("direct",))
    assert part.rows[0].is_verified
    seen = part.rows[0].result.coverage.answered_chars
    assert seen > 10_000
    assert f" first {100 * seen / part.chars:.1f} % of the input" in part.rows[0].note


async def test_a_question_that_leaves_no_room_for_the_input_is_a_row_that_says_so(compared: Any) -> None:
    found = await compared(task=QUESTION * 1_000, window=8_000, methods=("direct",))
    assert found.rows[0].note.endswith("ask a shorter question")
    assert found.rows[0].calls == 0


async def test_the_rlm_is_asked_first_and_each_method_within_its_share_of_what_is_left(
    compared: Any, tmp_path: Path
) -> None:
    """The RLM and map-reduce may take three times what a single call may; what one leaves is for the rest."""
    found = await compared(limits=Limits(max_calls=80, max_cost=8.0))
    async with Journal.open(tmp_path / "rlm.db") as journal:
        events = await journal.events(found.rows[0].result.run_id)
    parts = {one.data["name"]: Limits(**one.data["limits"]) for one in events if one.kind == "part"}
    assert list(parts) == ["rlm", "direct", "bm25", "map-reduce"]
    assert (parts["rlm"].max_calls, parts["rlm"].max_cost) == (30, 3.0)
    costs = {row.method: row.cost_usd or 0.0 for row in found.rows}
    assert parts["direct"].max_cost == pytest.approx((8.0 - costs["rlm"]) / 5)
    assert parts["map-reduce"].max_cost == pytest.approx(8.0 - sum(costs.values()) + costs["map-reduce"])


async def test_map_reduce_reports_failed_parts(compared: Any) -> None:
    def child(request: Request) -> Reply:
        if FACT in request.slices[0].text:
            raise ModelRejected("not this one")
        return Reply("The weather is spoken of. " * 150)

    found = await compared(
        window=9_000, methods=("map-reduce",), answers={"child": child, "direct": lambda _: Reply(ANSWER)}
    )
    (row,) = found.rows
    assert re.fullmatch(r"1 of \d+ parts failed and are not in the answer: not this one", row.note)
    assert row.result.answer == "Orlen & Sons."


async def test_if_the_provider_failed_every_method_that_is_the_stop_reason(
    compared: Any, tmp_path: Path
) -> None:
    await compared(methods=("direct", "bm25"), answers={"direct": ModelRejected("no such key")})
    async with Journal.open(tmp_path / "rlm.db") as journal:
        (run,) = await journal.runs()
    assert run.stop_reason == "model"


async def test_a_stream_is_read_once_for_all_methods(compared: Any) -> None:
    found = await compared(sources=[StreamSource("stdin", io.BytesIO(TEXT.encode()))])
    assert sum(row.is_verified for row in found.rows) >= 3


async def test_no_passage_with_a_word_of_the_question_costs_nothing(compared: Any) -> None:
    found = await compared("Nothing here.\n" * 50, methods=("bm25",))
    (row,) = found.rows
    assert row.calls == 0
    assert row.note == "no passage of the input contains a word of the question"


def verdict(*rows: MethodRow, fits: bool = True) -> str:
    return Comparison("?", 1_000, fits, rows).advice


async def test_the_advice_follows_from_the_figures(compared: Any) -> None:
    rows = {row.method: row for row in (await compared()).rows}
    direct, bm25, rlm = rows["direct"], rows["bm25"], rows["rlm"]
    none = replace(direct, result=replace(direct.result, answer=None, citations=()))
    assert verdict(none, none).startswith("No method gave an answer with only verified quotes")
    short = replace(direct, result=replace(bm25.result, answer="Orlen & Sons."))
    assert verdict(short, rlm).startswith("You need no RLM for this: the input fits one call")
    assert "; the RLM's answer is not verified" in verdict(
        short, replace(rlm, result=replace(rlm.result, citations=()))
    )
    assert verdict(bm25, rlm, fits=False).startswith("The call over the best passages is the cheapest")
    assert "times as much" in verdict(bm25, rlm, fits=False)
    assert verdict(rlm, rows["map-reduce"], fits=False) == (
        "Use the RLM here: no other method with verified quotes was cheaper."
    )
    same = replace(short, result=replace(rlm.result, seconds=rlm.result.seconds + 1))
    assert verdict(rlm, same).startswith("You need no RLM for this")  # of equals the simplest
    other = replace(short, result=replace(short.result, answer="A quite different company"))
    assert "The answers differ" in verdict(other, bm25)
    assert "The answers differ" not in verdict(short, bm25)


async def test_without_a_model_nothing_is_compared(tmp_path: Path) -> None:
    rlm = RLM("extractive", settings=Settings(store=tmp_path / "rlm.db"))
    with pytest.raises(UsageError, match="a comparison needs a language model"):
        await compare(rlm, QUESTION, [TextSource("text", TEXT)])
    assert not (tmp_path / "rlm.db").exists()
